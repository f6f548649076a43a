/* chat_request.h: fields that the completions endpoints share. */
#include <stdio.h>
#include <string.h>

#include "engine/base/json/json.h"
#include "engine/base/json/json_repair.h"
#include "fcgi/http/request.h"
#include "fcgi/inference/model_name.h"
#include "fcgi/openai/chat_request.h"
#include "fcgi/process/worker.h"

static const struct field_row *find_row(const struct field_row *rows, const char *name)
{
    while (rows->name && strcmp(rows->name, name))
        rows++;
    return rows->name ? rows : NULL;
}

static bool refuse_unknown(struct request *r, const char *name, struct err *e)
{
    char field[64];
    snprintf(field, sizeof field, "%.60s", name);
    r->error_override.code = "unknown_parameter";
    return err_field(e, ERR_INPUT, field, "this endpoint has no such parameter");
}

bool fields_check(struct request *r, const cJSON *body, const struct field_row *rows, struct err *e)
{
    const cJSON *member;
    cJSON_ArrayForEach (member, body)
        if (!find_row(rows, member->string))
            return refuse_unknown(r, member->string, e);
    return true;
}

cJSON *field_body(struct request *r, struct err *e)
{
    char field[IGNORED_FIELD_BYTES], message[IGNORED_MESSAGE_BYTES];
    size_t at = 0;
    if (r->json || !r->body || ignored_strict(r) || !memmem(r->body, r->body_len, "\\u", 2))
        return request_json(r, e);
    char *copy = arena_copy(r->arena, r->body, r->body_len);
    int64_t n = copy ? json_repair(copy, r->body_len, JSON_REPAIR_ALL, &at) : 0;
    if (n > 0) {
        r->body = copy;
        json_path(copy, at, field, sizeof field);
        snprintf(message, sizeof message,
                 "%lld escape%s of no character (\\u0000, half of a surrogate pair) became U+FFFD",
                 (long long)n, n == 1 ? "" : "s");
        ignored_warn(r, field, message, false);
    }
    return request_json(r, e);
}

static bool take_unknown(struct request *r, const char *name, struct err *e)
{
    const char *reason = fields_foreign_reason(name);
    if (!reason && ignored_strict(r))
        return refuse_unknown(r, name, e);
    return ignored_add(r, name, reason ? reason : "this endpoint has no such parameter", e);
}

bool fields_take(struct request *r, const cJSON *body, const struct field_row *rows, struct err *e)
{
    char message[IGNORED_MESSAGE_BYTES];
    const cJSON *member;
    cJSON_ArrayForEach (member, body) {
        const struct field_row *row = find_row(rows, member->string);
        if (cJSON_IsNull(member))
            continue;
        if (!row && !take_unknown(r, member->string, e))
            return false;
        if (row && row->kind == FIELD_INERT) {
            const char *reason = fields_foreign_reason(row->name);
            snprintf(message, sizeof message, "ignored: %s",
                     reason ? reason : "it has no effect here");
            ignored_warn(r, row->name, message, true);
        }
    }
    return true;
}

bool field_model(struct request *r, const cJSON *body, struct err *e)
{
    const char *model = NULL;
    if (!json_get_string(body, "model", &model, e))
        return false;
    if (!model || model_name_take(r, model, e))
        return !model || !r->model ||
               err_field(e, ERR_UNSUPPORTED, "model",
                         "'%.100s' is answered by another server, which this endpoint does not ask",
                         model);
    return false;
}

bool field_stream(struct request *r, const cJSON *body, struct stream_options *out, struct err *e)
{
    static const struct field_row members[] = {{"include_usage", FIELD_READ},
                                               {"continuous_usage_stats", FIELD_READ},
                                               {"include_obfuscation", FIELD_READ},
                                               {0}};
    const cJSON *o = NULL, *member;
    bool obfuscate = false;
    *out = (struct stream_options){0};
    if (!json_get_bool(body, "stream", &out->stream, e) ||
        !json_get_object(body, "stream_options", &o, e))
        return false;
    if (o && !out->stream)
        return err_field(e, ERR_INPUT, "stream_options", "only goes with stream: true");
    cJSON_ArrayForEach (member, o) {
        char name[IGNORED_FIELD_BYTES];
        snprintf(name, sizeof name, "stream_options.%.40s", member->string);
        if (!cJSON_IsNull(member) && !find_row(members, member->string) &&
            !ignored_add(r, name, "this endpoint has no such parameter", e))
            return false;
    }
    if (!json_get_bool(o, "include_usage", &out->include_usage, e) ||
        !json_get_bool(o, "continuous_usage_stats", &out->continuous_usage, e) ||
        !json_get_bool(o, "include_obfuscation", &obfuscate, e))
        return false;
    out->continuous_usage &= out->include_usage; /* as vLLM has it: the one needs the other */
    return !obfuscate ||
           ignored_add(r, "stream_options.include_obfuscation", "events are not padded", e);
}
