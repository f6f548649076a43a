/* The table of formats, tried in this order, and helpers that they share. */
#include "fcgi/import/formats.h"

#include <string.h>

#include "engine/base/json/json.h"

/* The order matters where one's items could pass for another's. */
static const struct import_format *const formats[] = {
    &format_sluice,    &format_chatgpt,  &format_claude, &format_openwebui,
    &format_librechat, &format_llamacpp, &format_openai};

const struct import_format *import_format_of(const cJSON *item)
{
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++)
        if (cJSON_IsObject(item) && formats[i]->is(item))
            return formats[i];
    return NULL;
}

const char *import_text(const cJSON *o, const char *name)
{
    const cJSON *v = json_member(o, name);
    return cJSON_IsString(v) ? v->valuestring : "";
}

bool import_role(const char *name, enum store_role *role)
{
    for (int i = 0; i < ROLE__N; i++)
        if (!strcmp(name, store_role_name((enum store_role)i))) {
            *role = (enum store_role)i;
            return true;
        }
    if (!strcmp(name, "developer"))
        *role = ROLE_SYSTEM;
    else if (!strcmp(name, "human"))
        *role = ROLE_USER;
    else if (!strcmp(name, "function"))
        *role = ROLE_TOOL;
    else
        return false;
    return true;
}

const char *import_content(struct draft *d, const cJSON *content, struct err *e)
{
    const char *out = "";
    const cJSON *part;
    if (cJSON_IsString(content))
        return content->valuestring;
    cJSON_ArrayForEach (part, content) {
        const char *text = cJSON_IsString(part) ? part->valuestring : import_text(part, "text");
        if (!*text && cJSON_IsObject(part) && strcmp(import_text(part, "type"), "text") != 0) {
            d->n_missing++;
            text = strstr(import_text(part, "type"), "image") ? "[image]" : "[file]";
        }
        if (!(out = draft_join(d, out, "\n\n", text, e)))
            return NULL;
    }
    return out;
}
