/* chat_request.h: fields that the completions endpoints share. */
#include <stdio.h>
#include <string.h>

#include "engine/base/hash.h"
#include "engine/base/json.h"
#include "fcgi/chat_request.h"
#include "fcgi/request.h"
#include "fcgi/worker.h"

bool fields_check(struct request *r, const cJSON *body, const struct field_row *rows, struct err *e)
{
    const cJSON *member;
    cJSON_ArrayForEach(member, body)
    {
        const struct field_row *row = rows;
        while (row->name && strcmp(row->name, member->string))
            row++;
        if (!row->name) {
            r->hint.code = "unknown_parameter";
            char name[64];
            snprintf(name, sizeof name, "%.60s", member->string);
            return err_field(e, ERR_INPUT, name, "this endpoint has no such parameter");
        }
        if (row->kind == FIELD_REFUSED && !cJSON_IsNull(member))
            return err_field(e, ERR_UNSUPPORTED, row->name, "this server does not do this; leave it out");
    }
    return true;
}

bool field_model(struct request *r, const cJSON *body, struct err *e)
{
    const char *model = NULL;
    const struct worker *w = r->worker;
    if (!json_get_string(body, "model", &model, e))
        return false;
    if (!model || !strcmp(model, w->model_id) || !strcmp(model, w->text->name))
        return true;
    r->hint.code = "model_not_found";
    return err_field(e, ERR_NOTFOUND, "model", "'%.100s' is not here; this server has '%s'", model, w->model_id);
}

bool field_stream(const cJSON *body, bool *stream, bool *include_usage, struct err *e)
{
    const cJSON *o = NULL, *member;
    bool obfuscate = false;
    if (!json_get_bool(body, "stream", stream, e) || !json_get_object(body, "stream_options", &o, e))
        return false;
    if (o && !*stream)
        return err_field(e, ERR_INPUT, "stream_options", "only goes with stream: true");
    cJSON_ArrayForEach(member, o) if (strcmp(member->string, "include_usage") &&
                                      strcmp(member->string, "include_obfuscation")) return
        err_field(e, ERR_INPUT, "stream_options", "has no member '%.60s'", member->string);
    if (!json_get_bool(o, "include_usage", include_usage, e) || !json_get_bool(o, "include_obfuscation", &obfuscate, e))
        return false;
    if (obfuscate)
        return err_field(e, ERR_UNSUPPORTED, "stream_options.include_obfuscation", "is not done here");
    return true;
}

void scope_name(char *out, size_t size, const struct request *r, const char *salt)
{
    if (salt && *salt)
        snprintf(out, size, "u%lld:%016llx", (long long)r->who.user_id,
                 (unsigned long long)hash64(salt, strlen(salt), 0));
    else
        snprintf(out, size, "u%lld", (long long)r->who.user_id);
}
