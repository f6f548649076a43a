/* chat_request.h: OpenAI's `prediction`, a text that the answer is expected to be for the most
 * part. Drafts are taken from it; the answer is the one without it. */
#include <stdio.h>
#include <string.h>

#include "engine/base/json/json.h"
#include "fcgi/http/request.h"
#include "fcgi/openai/chat_request.h"
#include "fcgi/process/worker.h"

static bool add_part(struct buf *text, const cJSON *part, int i, struct err *e)
{
    const cJSON *type = cJSON_GetObjectItemCaseSensitive(part, "type"),
                *content = cJSON_GetObjectItemCaseSensitive(part, "text");
    char field[64];
    snprintf(field, sizeof field, "prediction.content[%d]", i);
    if (!cJSON_IsString(type) || strcmp(type->valuestring, "text") || !cJSON_IsString(content))
        return err_field(e, ERR_INPUT, field, "must be {\"type\": \"text\", \"text\": ...}");
    buf_puts(text, content->valuestring);
    return true;
}

static bool read_content(struct buf *text, const cJSON *content, struct err *e)
{
    const cJSON *part;
    int i = 0;
    if (cJSON_IsString(content)) {
        buf_puts(text, content->valuestring);
        return true;
    }
    if (!cJSON_IsArray(content))
        return err_field(e, ERR_INPUT, "prediction.content",
                         "must be a string or a list of text parts");
    cJSON_ArrayForEach (part, content)
        if (!add_part(text, part, i++, e))
            return false;
    return true;
}

static bool encode(struct chat_request *c, struct request *r, const struct buf *text, struct err *e)
{
    struct ids ids = {0};
    bool ok = tokenizer_encode(r->worker->text->tokenizer,
                               &(struct tokenizer_input){.text = text->data ? text->data : "",
                                                         .len = text->len,
                                                         .mode = TOKENIZE_PLAIN},
                               &ids, e);
    if (ok && ids.n > ENGINE_MAX_PREDICTION)
        ok = err_field(e, ERR_LIMIT, "prediction.content", "has %zu tokens, at most %d are taken",
                       ids.n, ENGINE_MAX_PREDICTION);
    int32_t *copy = ok ? arena_alloc(r->arena, ids.n * sizeof *copy + 1) : NULL;
    if (ok && !copy)
        ok = err_set(e, ERR_NOMEM, "no memory for the prediction");
    if (ok && ids.n)
        memcpy(copy, ids.at, ids.n * sizeof *copy);
    c->prediction = copy;
    c->n_prediction = ok ? (int32_t)ids.n : 0;
    ids_fini(&ids);
    return ok;
}

bool chat_read_prediction(struct chat_request *c, struct request *r, const cJSON *body,
                          struct err *e)
{
    const cJSON *prediction = NULL;
    if (!json_get_object(body, "prediction", &prediction, e))
        return false;
    if (!prediction)
        return true;
    const cJSON *type = cJSON_GetObjectItemCaseSensitive(prediction, "type");
    if (!cJSON_IsString(type) || strcmp(type->valuestring, "content"))
        return err_field(e, ERR_INPUT, "prediction.type", "must be \"content\"");
    if (r->model)
        return ignored_add(r, "prediction", "another server answers for this model", e);
    struct buf text = {0};
    bool ok = read_content(&text, cJSON_GetObjectItemCaseSensitive(prediction, "content"), e) &&
              (!text.failed || err_set(e, ERR_NOMEM, "no memory for the prediction")) &&
              encode(c, r, &text, e);
    buf_fini(&text);
    return ok;
}
