/* attachment.h: pictures go to a model that sees as themselves, in OpenAI's form. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/file.h"
#include "engine/base/json/json.h"
#include "fcgi/attachments/attachment.h"
#include "fcgi/http/path_id.h"
#include "fcgi/http/request.h"
#include "sql/core/base64.h"
#include "sql/files/store_attachments.h"
#include "sql/models/store_models.h"

bool attachment_is_picture(const char *type)
{
    return !strcmp(type, "image/png") || !strcmp(type, "image/jpeg") ||
           !strcmp(type, "image/webp") || !strcmp(type, "image/gif");
}

bool attachments_are_seen(const struct request *r)
{
    return r->model && r->model->vision;
}

/* data:TYPE;base64,..., to be freed. NULL: no memory. */
static char *data_url(const char *type, const struct file_map *m)
{
    const size_t size = strlen(type) + 32 + BASE64_CHARS(m->size);
    char *url = malloc(size);
    if (!url)
        return NULL;
    const int n = snprintf(url, size, "data:%s;base64,", type);
    base64_encode(m->data, m->size, url + n, size - (size_t)n);
    return url;
}

static bool add_picture(struct request *r, const struct store_attachment *a, cJSON *parts,
                        struct err *e)
{
    struct file_map m = {0};
    char path[STORE_PATH_SIZE];
    if (!store_attachment_path(r->store, a->sha256, path, e))
        return false;
    if (!file_map(path, &m, e))
        return err_set(e, ERR_IO, "the attachment's file is missing");
    char *url = data_url(a->type, &m);
    file_unmap(&m);
    cJSON *part = cJSON_CreateObject();
    bool ok = url && cJSON_AddItemToArray(parts, part) &&
              cJSON_AddStringToObject(part, "type", "image_url") &&
              cJSON_AddStringToObject(cJSON_AddObjectToObject(part, "image_url"), "url", url);
    free(url);
    return ok || err_set(e, ERR_NOMEM, "no memory for the message's pictures");
}

static bool is_there(struct request *r, int64_t id, struct store_attachment *a, struct err *e)
{
    return store_attachment_get(r->store, r->arena,
                                &(struct store_ref){.user_id = r->who.user_id, .id = id}, a, e);
}

bool attachments_pictures(struct request *r, const struct attachment_list *files, cJSON *parts,
                          struct err *e)
{
    int64_t bytes = 0;
    for (int i = 0; attachments_are_seen(r) && i < files->n; i++) {
        struct store_attachment a;
        if (!is_there(r, files->ids[i], &a, e))
            return false;
        if (a.tokens >= 0)
            continue; /* it has a text */
        if (!attachment_is_picture(a.type))
            return err_field(e, ERR_UNSUPPORTED, "attachments",
                             "holds a picture of the type %.40s: PNG, JPEG, WebP and GIF are seen",
                             a.type);
        if ((bytes += a.bytes) > ATTACHMENT_PICTURE_BYTES)
            return err_field(e, ERR_LIMIT, "attachments", "has more than %d MB of pictures",
                             ATTACHMENT_PICTURE_BYTES >> 20);
        if (!add_picture(r, &a, parts, e))
            return false;
    }
    return true;
}

/* A picture that is left out is named. */
static bool add_name(const char *name, cJSON *parts)
{
    char text[STORE_FILE_NAME_BYTES + 64];
    cJSON *part = cJSON_CreateObject();
    snprintf(text, sizeof text, "Attached image: %s (not shown)", name);
    return cJSON_AddItemToArray(parts, part) && cJSON_AddStringToObject(part, "type", "text") &&
           cJSON_AddStringToObject(part, "text", text);
}

bool attachments_pictures_of(struct request *r, const cJSON *rows, int64_t *room, cJSON *parts,
                             struct err *e)
{
    const cJSON *row;
    cJSON_ArrayForEach (row, rows) {
        int64_t id;
        struct store_attachment a;
        if (!path_id_parse(json_text(row, "id"), &id) || !is_there(r, id, &a, e))
            return false;
        if (a.tokens >= 0)
            continue;
        const bool shown = attachment_is_picture(a.type) && a.bytes <= *room;
        *room -= shown ? a.bytes : 0;
        if (shown ? !add_picture(r, &a, parts, e) : !add_name(a.name, parts))
            return false;
    }
    return true;
}
