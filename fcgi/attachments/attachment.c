/* attachment.h: attached files become part of a prompt. */
#include "fcgi/attachments/attachment.h"

#include "engine/base/json/json.h"
#include "fcgi/http/path_id.h"
#include "fcgi/http/request.h"
#include "sql/files/store_attachments.h"

bool attachments_read(struct request *r, const cJSON *body, int64_t *ids, int *n, struct err *e)
{
    const cJSON *list = NULL, *item;
    *n = 0;
    if (!json_get_array(body, "attachments", &list, e))
        return false;
    if (cJSON_GetArraySize(list) > STORE_MESSAGE_ATTACHMENTS)
        return err_field(e, ERR_LIMIT, "attachments", "a message takes at most %d",
                         STORE_MESSAGE_ATTACHMENTS);
    cJSON_ArrayForEach (item, list) {
        if (!path_id_parse(cJSON_GetStringValue(item), &ids[*n]))
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
    bool sees; /* images go along as themselves */
    bool image;
};

static bool gather(void *context, const char *name, const char *text)
{
    struct gathering *g = context;
    g->image |= !text && !g->sees;
    return text ? attachment_frame(g->out, name, text) : g->sees;
}

static bool gathered(const struct gathering *g, const char *content, struct err *e)
{
    if (g->image)
        return err_field(e, ERR_UNSUPPORTED, "attachments",
                         "holds an image: this model reads text only");
    if (g->out->len > ATTACHMENT_PROMPT_BYTES)
        return err_field(e, ERR_LIMIT, "attachments", "have more than %zu bytes of text",
                         ATTACHMENT_PROMPT_BYTES);
    if (g->out->len)
        buf_puts(g->out, content);
    return !g->out->failed || err_set(e, ERR_NOMEM, "no memory for the attachments");
}

bool attachments_prompt(struct request *r, const struct attachment_list *files, const char *content,
                        struct buf *out, struct err *e)
{
    struct gathering g = {.out = out, .sees = attachments_are_seen(r)};
    for (int i = 0; i < files->n && out->len <= ATTACHMENT_PROMPT_BYTES && !g.image; i++) {
        struct err why = {0};
        if (store_attachment_text(
                r->store, &(struct store_ref){.user_id = r->who.user_id, .id = files->ids[i]},
                gather, &g, &why))
            continue;
        if (why.code == ERR_NOTFOUND)
            return err_field(e, ERR_INPUT, "attachments", "there is no attachment %lld",
                             (long long)files->ids[i]);
        *e = why;
        return false;
    }
    return gathered(&g, content, e);
}

/* What stands in a conversation already is not refused: a picture is named instead. */
static bool gather_kept(void *context, const char *name, const char *text)
{
    struct gathering *g = context;
    if (!text && g->sees)
        return true;
    return text ? attachment_frame(g->out, name, text)
                : buf_printf(g->out, "Attached image: %s (not shown)\n\n", name);
}

bool attachments_prompt_of(struct request *r, int64_t message_id, const char *content,
                           struct buf *out, struct err *e)
{
    struct gathering g = {.out = out, .sees = attachments_are_seen(r)};
    return store_attachment_texts(r->store,
                                  &(struct store_ref){.user_id = r->who.user_id, .id = message_id},
                                  gather_kept, &g, e) &&
           gathered(&g, content, e);
}
