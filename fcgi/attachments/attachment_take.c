/* attachment.h: a file on its way in, for the API and for `sluice import`, which has no requests.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "engine/text/text_model.h"
#include "fcgi/attachments/attachment.h"
#include "fcgi/attachments/file_reading.h"
#include "fcgi/http/request.h"
#include "reader/reader.h"
#include "sql/files/store_attachments.h"

_Static_assert(READER_TEXT_BYTES == STORE_ATTACHMENT_TEXT_BYTES, "what is read is kept");

/* One more than the longest run of backticks. */
static int fence_length(const char *text)
{
    int longest = 2, n = 0;
    for (; *text; text++) {
        n = *text == '`' ? n + 1 : 0;
        longest = n > longest ? n : longest;
    }
    return longest + 1;
}

static void put_fence(struct buf *out, int n)
{
    while (n-- > 0)
        buf_putc(out, '`');
}

bool attachment_block(struct buf *out, const char *head, const char *text)
{
    int n = fence_length(text);
    buf_printf(out, "%s\n", head);
    put_fence(out, n);
    buf_printf(out, "\n%s\n", text);
    put_fence(out, n);
    return buf_puts(out, "\n\n");
}

bool attachment_frame(struct buf *out, const char *name, const char *text)
{
    return buf_puts(out, "Attached file: ") && attachment_block(out, name, text);
}

/* Tokens of that; -1: *e. */
static int64_t count_tokens(const struct text_model *m, const char *name, const char *text,
                            struct err *e)
{
    struct buf frame = {0};
    struct ids ids = {0};
    int64_t n = -1;
    if (!attachment_frame(&frame, name, text))
        err_set(e, ERR_NOMEM, "no memory for the file's text");
    else if (tokenizer_encode(m->tokenizer,
                              &(struct tokenizer_input){
                                  .text = frame.data, .len = frame.len, .mode = TOKENIZE_PLAIN},
                              &ids, e))
        n = (int64_t)ids.n;
    buf_fini(&frame);
    ids_fini(&ids);
    return n;
}

/* In the words of HTTP; of an import, as a problem of this file alone. */
static bool refused(struct request *r, const struct file_reading *f, struct err *e)
{
    char words[sizeof e->text];
    snprintf(words, sizeof words, "%s", e->text);
    if (!f->refused_type && e->code != ERR_LIMIT && e->code != ERR_INPUT)
        return false;
    if (!r)
        return err_set(e, f->refused_type ? e->code : ERR_INPUT, "%s", words);
    if (f->refused_type) {
        r->error_override.status = 415;
        r->error_override.code = "unsupported_file_type";
    } else if (e->code == ERR_LIMIT) {
        r->error_override.status = 413;
        r->error_override.code = "file_too_large";
    } else {
        r->error_override.code = "unreadable_file";
    }
    return err_field(e, e->code, "file", "%s", words);
}

bool attachment_take(struct request *r, const struct attachment_source *from,
                     struct store_upload *u, int64_t *id, struct err *e)
{
    struct file_reading f = {0};
    struct store_attachment a = {.user_id = from->user_id,
                                 .name = from->name,
                                 .type = f.type,
                                 .tokens = -1,
                                 .model = from->model_id,
                                 .storage_bytes = from->storage_bytes};
    int fd = open(u->path, O_RDONLY | O_CLOEXEC); /* whoever reads it can't change it */
    bool ok = fd >= 0 || err_errno(e, "the uploaded file");
    ok = ok &&
         (file_reading_run(fd, from->client, from->without_landlock, &f, e) || refused(r, &f, e));
    if (fd >= 0)
        close(fd);
    if (ok && f.form != FILE_IMAGE) {
        a.text = f.text.data;
        ok = !from->text || (a.tokens = count_tokens(from->text, from->name, a.text, e)) >= 0;
    }
    a.note = f.note[0] ? f.note : NULL;
    ok = ok && store_attachment_add(from->store, u, &a, id, e);
    store_upload_drop(u);
    file_reading_fini(&f);
    return ok;
}
