/* chat_files.h: a file is decoded into memory without a name, and sluice-reader gets that. */
#include "fcgi/openai/chat_files.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "engine/base/json/json.h"
#include "fcgi/attachments/attachment.h"
#include "fcgi/attachments/file_reading.h"
#include "fcgi/config/server_settings.h"
#include "fcgi/http/file_name.h"
#include "fcgi/http/request.h"
#include "fcgi/http/work.h"
#include "fcgi/process/worker.h"
#include "sql/core/base64.h"
#include "sql/files/store_attachments.h"
#include "sql/models/store_models.h"

/* The decoded bytes as a file without a name; -1: *e. "data:TYPE;base64,..." or the base64 alone.
 */
static int decode(struct request *r, const char *text, const char *path, struct err *e)
{
    const int64_t limit = server_setting_int(r, SETTING_ATTACHMENT_BYTES);
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
    else if ((fd = memfd_create("file", MFD_CLOEXEC)) < 0 ||
             (n && write(fd, bytes, n) != (ssize_t)n))
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

bool chat_file_text(struct request *r, const struct chat_file *file, struct buf *out, struct err *e)
{
    const char *given = file->name ? file->name : "", *path = file->path;
    char name[FILE_NAME_SIZE], own[64], words[sizeof e->text];
    struct file_reading f = {0};
    struct err why = {0};
    if (!work_begin(r, WORK_FILE, e))
        return false;
    file_name_clean(given, strlen(given), name);
    int held = decode(r, file->data, path, &why);
    if (held < 0) {
        *e = why;
        return false;
    }
    snprintf(own, sizeof own, "/proc/self/fd/%d", held);
    int fd = open(own, O_RDONLY | O_CLOEXEC); /* whoever reads it can't change it */
    bool ok =
        fd >= 0 ? file_reading_run(fd, request_client_fd(r), r->worker->without_landlock, &f, &why)
                : err_errno(&why, "the file can't be held");
    work_end(r, WORK_FILE);
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

static bool turn_into_text(cJSON *part, const char *member, const char *text, struct err *e)
{
    char *copy = strdup(text ? text : ""); /* `text` may be of the member that goes */
    if (copy) {
        cJSON_DeleteItemFromObjectCaseSensitive(part, member);
        cJSON_DeleteItemFromObjectCaseSensitive(part, "type");
    }
    bool ok = copy && cJSON_AddStringToObject(part, "type", "text") &&
              cJSON_AddStringToObject(part, "text", copy);
    free(copy);
    return ok || err_set(e, ERR_NOMEM, "no memory for the message's text");
}

static bool become_text(struct request *r, cJSON *part, const char *path, struct err *e)
{
    struct buf text = {.limit = ATTACHMENT_PROMPT_BYTES};
    const cJSON *o = json_member(part, "file");
    const struct chat_file file = {
        .name = json_text(o, "filename"), .data = json_text(o, "file_data"), .path = path};
    bool ok = chat_file_text(r, &file, &text, e) && turn_into_text(part, "file", text.data, e);
    buf_fini(&text);
    return ok;
}

/* These parts cannot be read by a text model; the member that holds the data has the type's name.
 */
static bool is_unreadable(const struct request *r, const char *type)
{
    if (r->model && r->model->vision && type && !strcmp(type, "image_url"))
        return false;

    static const char *const types[] = {"image_url", "image",     "input_image", "input_audio",
                                        "audio_url", "video_url", NULL};
    int i = 0;
    while (types[i] && (!type || strcmp(types[i], type)))
        i++;
    return types[i] != NULL;
}

/* Whether the message is a tool's result, or what an agent sends behind one: the picture that the
 * tool took. */
static bool is_of_tool(const cJSON *message)
{
    const char *role = json_text(message, "role");
    const char *before = json_text(message->prev, "role");
    return (role && !strcmp(role, "tool")) || (before && !strcmp(before, "tool"));
}

/* A request that holds nothing but images cannot be answered. */
static bool refuse_lone_image(const struct request *r, const cJSON *content, int index,
                              struct err *e)
{
    const cJSON *part;
    char path[64];
    cJSON_ArrayForEach (part, content)
        if (!is_unreadable(r, json_text(part, "type")))
            return true;
    if (!content->child)
        return true;
    snprintf(path, sizeof path, "messages[%d].content[0].type", index);
    return err_field(e, ERR_UNSUPPORTED, path, "'%.40s' is not taken: this model reads text only",
                     json_text(content->child, "type"));
}

struct part_reader {
    struct request *r;
    int message, part; /* where it stands: messages[message].content[part] */
    int files;         /* that were read */
};

/* A file becomes its text, an image the text that says so. */
static bool read_part(struct part_reader *d, cJSON *part, struct err *e)
{
    char path[64];
    const char *type = json_text(part, "type");
    if (is_unreadable(d->r, type)) {
        const char *place =
            !strcmp(type, "image_url") || !strcmp(type, "image") || !strcmp(type, "input_image")
                ? CHAT_UNREAD_IMAGE
                : CHAT_UNREAD_RECORDING;
        snprintf(path, sizeof path, "messages[%d].content[%d]", d->message, d->part);
        return ignored_add(d->r, path,
                           "this model reads text only; the prompt says that it was here", e) &&
               turn_into_text(part, type, place, e);
    }
    if (!type || strcmp(type, "file"))
        return true;
    snprintf(path, sizeof path, "messages[%d].content[%d].file", d->message, d->part);
    if (++d->files > STORE_MESSAGE_ATTACHMENTS)
        return err_field(e, ERR_LIMIT, path, "a request takes at most %d files",
                         STORE_MESSAGE_ATTACHMENTS);
    return become_text(d->r, part, path, e);
}

bool chat_files_read(struct request *r, cJSON *messages, struct err *e)
{
    cJSON *message, *part;
    struct part_reader d = {.r = r};
    cJSON_ArrayForEach (message, messages) {
        cJSON *content = cJSON_GetObjectItemCaseSensitive(message, "content");
        d.part = 0;
        if (cJSON_IsArray(content)) {
            if (!message->next && !is_of_tool(message) &&
                !refuse_lone_image(r, content, d.message, e))
                return false;
            cJSON_ArrayForEach (part, content) {
                if (!read_part(&d, part, e))
                    return false;
                d.part++;
            }
        }
        d.message++;
    }
    return true;
}
