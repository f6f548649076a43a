/* attachment.h */
#include "fcgi/attachment.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/json.h"
#include "engine/text/text_model.h"
#include "fcgi/conversation.h"
#include "fcgi/file_reading.h"
#include "fcgi/request.h"
#include "reader/reader.h"
#include "sql/store_attachments.h"

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

bool attachment_frame(struct buf *out, const char *name, const char *text)
{
    int n = fence_length(text);
    buf_printf(out, "Attached file: %s\n", name);
    put_fence(out, n);
    buf_printf(out, "\n%s\n", text);
    put_fence(out, n);
    return buf_puts(out, "\n\n");
}

/* Tokens of that; -1: *e. */
static int64_t count_tokens(const struct text_model *m, const char *name, const char *text, struct err *e)
{
    struct buf frame = {0};
    struct ids ids = {0};
    int64_t n = -1;
    if (!attachment_frame(&frame, name, text))
        err_set(e, ERR_NOMEM, "no memory for the file's text");
    else if (tokenizer_encode(m->tokenizer, frame.data, frame.len, TOKENIZE_PLAIN, NULL, 0, &ids, e))
        n = (int64_t)ids.n;
    buf_fini(&frame);
    ids_fini(&ids);
    return n;
}

/* In the words of HTTP. */
static bool refused(struct request *r, const struct file_reading *f, struct err *e)
{
    if (r && f->refused_type) {
        r->hint.status = 415;
        r->hint.code = "unsupported_file_type";
    } else if (r && e->code == ERR_LIMIT) {
        r->hint.status = 413;
        r->hint.code = "file_too_large";
    } else if (r && e->code == ERR_INPUT) {
        r->hint.code = "unreadable_file";
    } else {
        return false;
    }
    char words[sizeof e->text];
    snprintf(words, sizeof words, "%s", e->text);
    return err_field(e, e->code, "file", "%s", words);
}

bool attachment_take(struct request *r, struct store *s, const struct attachment_source *from, struct store_upload *u,
                     int64_t *id, struct err *e)
{
    struct file_reading f = {0};
    struct store_attachment a = {.name = from->name, .type = f.type, .tokens = -1, .model = from->model_id};
    int fd = open(u->path, O_RDONLY | O_CLOEXEC); /* whoever reads it can't change it */
    bool ok = fd >= 0 || err_errno(e, "the uploaded file");
    ok = ok && (file_reading_run(fd, &f, e) || refused(r, &f, e));
    if (fd >= 0)
        close(fd);
    if (ok && f.form != FILE_IMAGE) {
        a.text = f.text.data;
        ok = (a.tokens = count_tokens(from->text, from->name, a.text, e)) >= 0;
    }
    a.note = f.note[0] ? f.note : NULL;
    ok = ok && store_attachment_add(s, from->user_id, u, &a, id, e);
    store_upload_drop(u);
    file_reading_fini(&f);
    return ok;
}

bool attachments_read(struct request *r, const cJSON *body, int64_t *ids, int *n, struct err *e)
{
    const cJSON *list = NULL, *item;
    *n = 0;
    if (!json_get_array(body, "attachments", &list, e))
        return false;
    if (cJSON_GetArraySize(list) > STORE_MESSAGE_ATTACHMENTS)
        return err_field(e, ERR_LIMIT, "attachments", "a message takes at most %d", STORE_MESSAGE_ATTACHMENTS);
    cJSON_ArrayForEach(item, list)
    {
        if (!conversation_read_id(cJSON_GetStringValue(item), &ids[*n]))
            return err_field(e, ERR_INPUT, "attachments", "must be ids of own attachments");
        for (int i = 0; i < *n; i++)
            if (ids[i] == ids[*n])
                return err_field(e, ERR_INPUT, "attachments", "holds the same one twice");
        ++*n;
    }
    return true;
}

struct gathering {
    struct buf *out;
    bool image;
};

static bool gather(void *context, const char *name, const char *text)
{
    struct gathering *g = context;
    g->image |= !text;
    return text && attachment_frame(g->out, name, text);
}

static bool gathered(const struct gathering *g, const char *content, struct err *e)
{
    if (g->image)
        return err_field(e, ERR_UNSUPPORTED, "attachments", "holds an image: this model reads text only");
    if (g->out->len > ATTACHMENT_PROMPT_BYTES)
        return err_field(e, ERR_LIMIT, "attachments", "have more than %zu bytes of text", ATTACHMENT_PROMPT_BYTES);
    if (g->out->len)
        buf_puts(g->out, content);
    return !g->out->failed || err_set(e, ERR_NOMEM, "no memory for the attachments");
}

bool attachments_prompt(struct request *r, const int64_t *ids, int n, const char *content, struct buf *out, struct err *e)
{
    struct gathering g = {.out = out};
    for (int i = 0; i < n && out->len <= ATTACHMENT_PROMPT_BYTES && !g.image; i++) {
        struct err why = {0};
        if (store_attachment_text(r->store, r->who.user_id, ids[i], gather, &g, &why))
            continue;
        if (why.code == ERR_NOTFOUND)
            return err_field(e, ERR_INPUT, "attachments", "there is no attachment %lld", (long long)ids[i]);
        *e = why;
        return false;
    }
    return gathered(&g, content, e);
}

/* What stands in a conversation already is not refused: a picture is named instead. */
static bool gather_kept(void *context, const char *name, const char *text)
{
    struct gathering *g = context;
    return text ? attachment_frame(g->out, name, text) : buf_printf(g->out, "Attached image: %s (not shown)\n\n", name);
}

bool attachments_prompt_of(struct request *r, int64_t message_id, const char *content, struct buf *out, struct err *e)
{
    struct gathering g = {.out = out};
    return store_attachment_texts(r->store, r->who.user_id, message_id, gather_kept, &g, e) && gathered(&g, content, e);
}
