/* chat_files.h */
#include "fcgi/chat_files.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "engine/base/json.h"
#include "fcgi/attachment.h"
#include "fcgi/file_name.h"
#include "fcgi/file_reading.h"
#include "fcgi/request.h"
#include "fcgi/server_settings.h"
#include "sql/base64.h"
#include "sql/store_attachments.h"

/* The decoded bytes as a file without a name; -1: *e. "data:TYPE;base64,..." or the base64 alone. */
static int decode(struct request *r, const char *text, const char *path, struct err *e)
{
    const int64_t limit = setting_int(r, SETTING_ATTACHMENT_BYTES);
    const char *comma = !strncmp(text, "data:", 5) ? strchr(text, ',') : NULL;
    const char *base64 = comma ? comma + 1 : text;
    const size_t room = BASE64_BYTES(strlen(base64));
    unsigned char *bytes = malloc(room);
    size_t n = 0;
    int fd = -1;
    if (!bytes)
        err_set(e, ERR_NOMEM, "no memory for the file");
    else if (!base64_decode(base64, strlen(base64), bytes, room, &n))
        err_field(e, ERR_INPUT, path, "file_data is not base64");
    else if ((int64_t)n > limit)
        err_field(e, ERR_LIMIT, path, "has %zu bytes, at most %lld are taken", n, (long long)limit);
    else if ((fd = memfd_create("file", MFD_CLOEXEC)) < 0 || (n && write(fd, bytes, n) != (ssize_t)n))
        err_errno(e, "the file can't be held");
    else
        e->code = ERR_NONE;
    free(bytes);
    if (fd >= 0 && e->code) {
        close(fd);
        fd = -1;
    }
    return fd;
}

/* Its text in a frame. */
static bool read_file(struct request *r, const cJSON *file, const char *path, struct buf *out, struct err *e)
{
    const char *given = cJSON_GetStringValue(json_member(file, "filename"));
    char name[FILE_NAME_SIZE], own[64], words[sizeof e->text];
    struct file_reading f = {0};
    struct err why = {0};
    file_name_clean(given ? given : "", given ? strlen(given) : 0, name);
    int held = decode(r, cJSON_GetStringValue(json_member(file, "file_data")), path, &why);
    if (held < 0) {
        *e = why;
        return false;
    }
    snprintf(own, sizeof own, "/proc/self/fd/%d", held);
    int fd = open(own, O_RDONLY | O_CLOEXEC); /* whoever reads it can't change it */
    bool ok = fd >= 0 ? file_reading_run(fd, &f, &why) : err_errno(&why, "the file can't be held");
    if (!ok && (f.refused_type || why.code == ERR_INPUT || why.code == ERR_LIMIT)) {
        snprintf(words, sizeof words, "%s", why.text);
        err_field(&why, why.code, path, "%s", words);
    }
    if (ok && f.form == FILE_IMAGE)
        ok = err_field(&why, ERR_UNSUPPORTED, path, "is an image: this model reads text only");
    if (ok && !attachment_frame(out, name, f.text.data))
        ok = err_set(&why, ERR_NOMEM, "no memory for the file's text");
    if (fd >= 0)
        close(fd);
    close(held);
    file_reading_fini(&f);
    if (!ok)
        *e = why;
    return ok;
}

static bool become_text(struct request *r, cJSON *part, const char *path, struct err *e)
{
    struct buf text = {.limit = ATTACHMENT_PROMPT_BYTES};
    bool ok = read_file(r, json_member(part, "file"), path, &text, e);
    if (ok) {
        cJSON_DeleteItemFromObjectCaseSensitive(part, "file");
        cJSON_DeleteItemFromObjectCaseSensitive(part, "type");
        ok = (cJSON_AddStringToObject(part, "type", "text") && cJSON_AddStringToObject(part, "text", text.data)) ||
             err_set(e, ERR_NOMEM, "no memory for the file's text");
    }
    buf_fini(&text);
    return ok;
}

bool chat_files_read(struct request *r, cJSON *messages, struct err *e)
{
    cJSON *message, *part;
    int i = 0, files = 0;
    cJSON_ArrayForEach(message, messages)
    {
        cJSON *content = cJSON_GetObjectItemCaseSensitive(message, "content");
        int k = 0;
        if (cJSON_IsArray(content))
            cJSON_ArrayForEach(part, content)
            {
                char path[64];
                const char *type = cJSON_GetStringValue(json_member(part, "type"));
                snprintf(path, sizeof path, "messages[%d].content[%d].file", i, k++);
                if (!type || strcmp(type, "file"))
                    continue;
                if (++files > STORE_MESSAGE_ATTACHMENTS)
                    return err_field(e, ERR_LIMIT, path, "a request takes at most %d files", STORE_MESSAGE_ATTACHMENTS);
                if (!become_text(r, part, path, e))
                    return false;
            }
        i++;
    }
    return true;
}
