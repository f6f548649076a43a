/* openapi.h: what each row says, and what follows from its members. */
#include "fcgi/openapi/openapi.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config.h"
#include "engine/base/buf.h"
#include "engine/base/json/json.h"
#include "fcgi/http/reply.h"
#include "fcgi/http/route.h"

#define MAX_STATUSES 24

static cJSON *add_ref(cJSON *o, const char *kind, const char *name)
{
    char text[128];
    snprintf(text, sizeof text, "#/components/%s/%s", kind, name);
    return cJSON_AddStringToObject(o, "$ref", text);
}

/* {"content": {TYPE: {"schema": {"$ref": ...}}}}; schema NULL: any text, or with a type of "*"
 * anything */
static void add_content(cJSON *o, const char *type, const char *schema)
{
    cJSON *content = cJSON_GetObjectItemCaseSensitive(o, "content");
    if (!content)
        content = cJSON_AddObjectToObject(o, "content");
    cJSON *media = cJSON_AddObjectToObject(content, type);
    if (!strcmp(type, "text/event-stream"))
        return; /* OpenAPI 3.1 has no words for a series of events */
    cJSON *s = cJSON_AddObjectToObject(media, "schema");
    if (schema)
        add_ref(s, "schemas", schema);
    else if (*type != '*')
        cJSON_AddStringToObject(s, "type", "string");
}

static cJSON *add_parameter(cJSON *list, const char *where, const char *name)
{
    cJSON *p = cJSON_CreateObject();
    cJSON_AddItemToArray(list, p);
    cJSON_AddStringToObject(p, "name", name);
    cJSON_AddStringToObject(p, "in", where);
    cJSON_AddBoolToObject(p, "required", !strcmp(where, "path"));
    return p;
}

static void add_path_parameters(cJSON *list, const char *path)
{
    for (const char *open = path; (open = strchr(open, '{')); open++) {
        char name[32];
        snprintf(name, sizeof name, "%.*s", (int)strcspn(open + 1, "}"), open + 1);
        cJSON *schema = cJSON_AddObjectToObject(add_parameter(list, "path", name), "schema");
        cJSON_AddStringToObject(schema, "type", "string");
        cJSON_AddNumberToObject(schema, "minLength", 1);
    }
}

static void add_query_parameters(cJSON *list, const cJSON *schemas, const char *name)
{
    const cJSON *properties = json_member(
                    name ? cJSON_GetObjectItemCaseSensitive(schemas, name) : NULL, "properties"),
                *p;
    cJSON_ArrayForEach (p, properties)
        cJSON_AddItemToObject(add_parameter(list, "query", p->string), "schema",
                              cJSON_Duplicate(p, true));
}

struct statuses {
    int at[MAX_STATUSES], n;
};

static void add_status(struct statuses *s, int status)
{
    for (int i = 0; i < s->n; i++)
        if (s->at[i] == status)
            return;
    if (s->n < MAX_STATUSES)
        s->at[s->n++] = status;
}

/* The row's own, then those that the way through route.c and nginx can bring. */
static struct statuses statuses_of(const struct route *row)
{
    struct statuses s = {0};
    const char *text = row->doc.statuses ? row->doc.statuses : "";
    for (char *end; *text; text = end) {
        long status = strtol(text, &end, 10);
        if (end == text)
            break;
        add_status(&s, (int)status);
    }
    add_status(&s, 400);
    if (strchr(row->path, '{'))
        add_status(&s, 404);
    if (row->body_limit) {
        static const int of_bodies[] = {408, 411, 413, 415};
        for (size_t i = 0; i < sizeof of_bodies / sizeof of_bodies[0]; i++)
            if (of_bodies[i] != 415 || !row->doc.any_type)
                add_status(&s, of_bodies[i]);
    }
    if (row->auth != ROUTE_OPEN) {
        static const int of_keys[] = {401, 403, 429, 503};
        for (size_t i = 0; i < sizeof of_keys / sizeof of_keys[0]; i++)
            add_status(&s, of_keys[i]);
    }
    if (row->method != HTTP_GET && (row->scope & SCOPE_HISTORY)) /* the disk is full */
        add_status(&s, 507);
    /* a model's name may be wrong; a key's limits and a full queue refuse */
    if (row->pool == POOL_STREAM || (row->scope == SCOPE_INFERENCE && row->body_limit))
        add_status(&s, 404);
    return s;
}

static void add_good_reply(cJSON *reply, const struct route *row)
{
    const struct route_doc *d = &row->doc;
    if (d->reply)
        add_content(reply, "application/json", d->reply);
    if (d->media)
        add_content(reply, d->media, NULL);
    if (d->streams)
        add_content(reply, "text/event-stream", NULL);
}

static void add_responses(cJSON *operation, const struct route *row)
{
    cJSON *all = cJSON_AddObjectToObject(operation, "responses");
    struct statuses s = statuses_of(row);
    for (int i = 0; i < s.n; i++) {
        char text[8];
        snprintf(text, sizeof text, "%d", s.at[i]);
        cJSON *one = cJSON_AddObjectToObject(all, text);
        bool own_schema = (i == 0 && s.at[i] < 400) ||
                          (row->auth == ROUTE_OPEN && s.at[i] == 503 && !row->body_limit);
        if (!own_schema && !row->doc.error) {
            add_ref(one, "responses", "Error");
            continue;
        }
        cJSON_AddStringToObject(one, "description", reply_reason(s.at[i]));
        if (own_schema)
            add_good_reply(one, row);
        else
            add_content(one, "application/json", row->doc.error);
    }
}

static void add_security(cJSON *operation, const struct route *row)
{
    cJSON *list = cJSON_AddArrayToObject(operation, "security");
    if (row->auth == ROUTE_OPEN)
        return; /* an empty list: nothing is asked for */
    const char *const schemes[] = {"key", "header_key",
                                   strncmp(row->path, "/api/", 5) ? NULL : "session"};
    for (int i = 0; i < 3 && schemes[i]; i++) {
        cJSON *o = cJSON_CreateObject();
        cJSON_AddArrayToObject(o, schemes[i]);
        cJSON_AddItemToArray(list, o);
    }
}

/* "post_v1_chat_completions" */
static void add_operation_id(cJSON *operation, const struct route *row)
{
    char id[128];
    int n = snprintf(id, sizeof id, "%s%s", http_method_name(row->method), row->path);
    int to = 0;
    for (int i = 0; i < n && i < (int)sizeof id - 1; i++) {
        bool letter = isalnum((unsigned char)id[i]);
        if (letter || (to && id[to - 1] != '_'))
            id[to++] = letter ? (char)tolower((unsigned char)id[i]) : '_';
    }
    while (to && id[to - 1] == '_')
        to--;
    id[to] = '\0';
    cJSON_AddStringToObject(operation, "operationId", id);
}

static void add_scope(cJSON *operation, const struct route *row)
{
    static const struct {
        enum key_scope scope;
        const char *name;
    } names[] = {{SCOPE_INFERENCE, "inference"},
                 {SCOPE_HISTORY, "history"},
                 {SCOPE_ADMIN, "admin"},
                 {SCOPE_METRICS, "metrics"}};
    cJSON *list = cJSON_AddArrayToObject(operation, "x-sluice-scopes");
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (row->scope & names[i].scope)
            cJSON_AddItemToArray(list, cJSON_CreateString(names[i].name));
}

static void add_operation(cJSON *paths, const cJSON *schemas, const struct route *row)
{
    char method[16];
    const char *name = http_method_name(row->method);
    size_t n = 0;
    for (; name[n] && n < sizeof method - 1; n++)
        method[n] = (char)tolower((unsigned char)name[n]);
    method[n] = '\0';
    cJSON *path = cJSON_GetObjectItemCaseSensitive(paths, row->path);
    if (!path)
        path = cJSON_AddObjectToObject(paths, row->path);
    cJSON *operation = cJSON_AddObjectToObject(path, method);
    add_operation_id(operation, row);
    cJSON_AddStringToObject(operation, "summary", row->doc.summary ? row->doc.summary : "");
    add_scope(operation, row);
    cJSON *parameters = cJSON_AddArrayToObject(operation, "parameters");
    add_path_parameters(parameters, row->path);
    add_query_parameters(parameters, schemas, row->doc.query);
    if (row->doc.body || row->doc.upload) {
        cJSON *body = cJSON_AddObjectToObject(operation, "requestBody");
        cJSON_AddBoolToObject(body, "required", true);
        add_content(body, row->doc.upload ? row->doc.upload : "application/json", row->doc.body);
    }
    add_responses(operation, row);
    add_security(operation, row);
}

static bool add_schemas(cJSON *all, struct err *e)
{
    for (const struct openapi_schemas *file = openapi_schemas; file->name; file++) {
        cJSON *part = json_parse(file->text, strlen(file->text), NULL, e), *schema;
        if (!part)
            return err_prefix(e, "schemas %s", file->name);
        while ((schema = part->child)) {
            if (cJSON_GetObjectItemCaseSensitive(all, schema->string)) {
                err_set(e, ERR_INTERNAL, "schemas %s: %s is there twice", file->name,
                        schema->string);
                cJSON_Delete(part);
                return false;
            }
            cJSON_DetachItemViaPointer(part, schema);
            cJSON_AddItemToObject(all, schema->string, schema);
        }
        cJSON_Delete(part);
    }
    return true;
}

static void add_schemes(cJSON *components)
{
    static const char *const rows[][4] = {{"key", "http", "bearer", NULL},
                                          {"header_key", "apiKey", "header", "x-api-key"},
                                          {"session", "apiKey", "cookie", "sluice_session"}};
    cJSON *all = cJSON_AddObjectToObject(components, "securitySchemes");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        cJSON *o = cJSON_AddObjectToObject(all, rows[i][0]);
        cJSON_AddStringToObject(o, "type", rows[i][1]);
        cJSON_AddStringToObject(o, rows[i][3] ? "in" : "scheme", rows[i][2]);
        if (rows[i][3])
            cJSON_AddStringToObject(o, "name", rows[i][3]);
    }
    cJSON *error =
        cJSON_AddObjectToObject(cJSON_AddObjectToObject(components, "responses"), "Error");
    cJSON_AddStringToObject(error, "description", "what was wrong, in words and as a code");
    add_content(error, "application/json", "Error");
}

cJSON *openapi_document(struct err *e)
{
    cJSON *doc = cJSON_CreateObject(), *info;
    cJSON_AddStringToObject(doc, "openapi", "3.1.0");
    info = cJSON_AddObjectToObject(doc, "info");
    cJSON_AddStringToObject(info, "title", "Sluice");
    cJSON_AddStringToObject(info, "version", PACKAGE_VERSION);
    cJSON *servers = cJSON_AddArrayToObject(doc, "servers"), *here = cJSON_CreateObject();
    cJSON_AddStringToObject(here, "url", "/");
    cJSON_AddItemToArray(servers, here);
    cJSON *paths = cJSON_AddObjectToObject(doc, "paths"),
          *components = cJSON_AddObjectToObject(doc, "components");
    cJSON *schemas = cJSON_AddObjectToObject(components, "schemas");
    if (!add_schemas(schemas, e)) {
        cJSON_Delete(doc);
        return NULL;
    }
    const struct route *row;
    cJSON *seen = cJSON_CreateObject();
    for (int i = 0; (row = route_at(i)); i++) {
        add_operation(paths, schemas, row);
        if (row->doc.body)
            openapi_allow_nulls(schemas, seen, row->doc.body);
    }
    cJSON_Delete(seen);
    add_schemes(components);
    return doc;
}
