/* tool_list.h: names are made of what every model and client takes; what can't be offered stays in
 * the list, with the reason. */
#include "fcgi/tools/tool_list.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/json/json.h"
#include "engine/base/utf8.h"
#include "fcgi/openai/chat_request.h"
#include "sql/core/digest.h"

#define MAX_TITLE 200
#define MAX_DESCRIPTION 4096

/* The text up to `most` bytes, not within a character. */
static void put_text(cJSON *o, const char *name, const char *text, size_t most)
{
    char cut[MAX_DESCRIPTION + 1];
    size_t n = text ? strlen(text) : 0;
    if (!n)
        return;
    if (n > most)
        n = utf8_valid((const unsigned char *)text, most);
    memcpy(cut, text, n);
    cut[n] = '\0';
    cJSON_AddStringToObject(o, name, cut);
}

static bool is_taken(const cJSON *list, const char *call)
{
    const cJSON *x;
    cJSON_ArrayForEach (x, list)
        if (!strcmp(json_text(x, "call"), call))
            return true;
    return false;
}

/* server_tool, of letters, digits, _ and -; a number where that is another's name already. */
static void make_call(const cJSON *list, const char *server, const char *name,
                      char out[TOOL_LIST_CALL + 1])
{
    char base[TOOL_LIST_CALL - 3];
    size_t n = (size_t)snprintf(base, sizeof base, "%s_%s", server, name);
    if (n >= sizeof base)
        n = sizeof base - 1;
    for (size_t i = 0; i < n; i++)
        if (!isalnum((unsigned char)base[i]) && base[i] != '-')
            base[i] = '_';
    snprintf(out, TOOL_LIST_CALL + 1, "%s", base);
    for (int i = 2; is_taken(list, out); i++)
        snprintf(out, TOOL_LIST_CALL + 1, "%.52s_%d", base, i);
}

static const char *or_empty(const char *text)
{
    return text ? text : "";
}

/* o: with title and hints, as a person is shown them. */
static void put_hash(cJSON *o, const char *description, const char *schema)
{
    const char *const parts[] = {json_text(o, "name"),
                                 or_empty(description),
                                 schema,
                                 or_empty(json_text(o, "title")),
                                 cJSON_IsTrue(json_member(o, "read_only")) ? "reads" : "",
                                 cJSON_IsTrue(json_member(o, "destructive")) ? "destroys" : ""};
    struct digest d;
    char text[DIGEST_TEXT_SIZE];
    digest_begin(&d);
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        digest_add(&d, parts[i], strlen(parts[i]) + 1);
    digest_end(&d, text);
    cJSON_AddStringToObject(o, "hash", text);
}

static cJSON *function_of(const cJSON *tool)
{
    const char *description = json_text(tool, "description");
    cJSON *o = cJSON_CreateObject(), *f;
    cJSON_AddStringToObject(o, "type", "function");
    f = cJSON_AddObjectToObject(o, "function");
    cJSON_AddStringToObject(f, "name", json_text(tool, "call"));
    if (description)
        cJSON_AddStringToObject(f, "description", description);
    cJSON_AddItemToObject(f, "parameters", cJSON_Duplicate(json_member(tool, "parameters"), true));
    return o;
}

/* Would it be taken from a client? */
static void check(cJSON *o)
{
    struct err e = {0};
    cJSON *functions = cJSON_CreateArray();
    cJSON_AddItemToArray(functions, function_of(o));
    if (!chat_check_tools(functions, &e))
        put_text(o, "problem", e.text, MAX_TITLE);
    cJSON_Delete(functions);
}

static void put_hints(cJSON *o, const cJSON *tool)
{
    const cJSON *hints = json_member(tool, "annotations");
    const cJSON *reads = json_member(hints, "readOnlyHint"),
                *destroys = json_member(hints, "destructiveHint");
    cJSON_AddBoolToObject(o, "read_only", cJSON_IsTrue(reads));
    cJSON_AddBoolToObject(o, "destructive", cJSON_IsTrue(destroys));
}

static void put_tool(cJSON *list, const char *server, const cJSON *tool)
{
    struct buf schema = {.limit = TOOL_LIST_SCHEMA_BYTES};
    char call[TOOL_LIST_CALL + 1];
    const cJSON *sent = json_member(tool, "inputSchema");
    const char *name = json_text(tool, "name"), *title = json_text(tool, "title"),
               *description = json_text(tool, "description");
    if (!name || !*name || strlen(name) > TOOL_LIST_NAME)
        return; /* it can't be called */
    cJSON *o = cJSON_CreateObject();
    make_call(list, server, name, call);
    cJSON_AddStringToObject(o, "name", name);
    cJSON_AddStringToObject(o, "call", call);
    put_text(o, "title", title ? title : json_text(json_member(tool, "annotations"), "title"),
             MAX_TITLE);
    put_text(o, "description", description, MAX_DESCRIPTION);
    put_hints(o, tool);
    const bool fits = !sent || json_write(&schema, sent);
    put_hash(o, description, fits && schema.data ? schema.data : "{}");
    cJSON *parameters = fits && cJSON_IsObject(sent) ? cJSON_Duplicate(sent, true) : NULL;
    if (!parameters)
        cJSON_AddStringToObject(parameters = cJSON_CreateObject(), "type", "object");
    cJSON_AddItemToObject(o, "parameters", parameters);
    if (fits)
        check(o);
    else
        cJSON_AddStringToObject(o, "problem", "its parameters are too long");
    cJSON_AddItemToArray(list, o);
    buf_fini(&schema);
}

bool tool_list_make(const char *server, const cJSON *mcp, struct buf *out, struct err *e)
{
    const cJSON *tool;
    cJSON *list = cJSON_CreateArray();
    cJSON_ArrayForEach (tool, mcp)
        put_tool(list, server, tool);
    const bool ok = list && json_write(out, list);
    cJSON_Delete(list);
    if (ok && out->len <= TOOL_LIST_BYTES)
        return true;
    return ok ? err_set(e, ERR_LIMIT, "the server's tools are described by more than %zu bytes",
                        TOOL_LIST_BYTES) ||
                    err_reason(e, "tool_too_large")
              : err_set(e, ERR_NOMEM, "no memory for a list of tools");
}

bool tool_list_rename(const char *server, const char *kept, struct buf *out, struct err *e)
{
    char call[TOOL_LIST_CALL + 1];
    cJSON *old = json_parse(kept, strlen(kept), NULL, e), *list = cJSON_CreateArray(), *tool;
    const bool read = old != NULL;
    while ((tool = cJSON_DetachItemFromArray(old, 0))) {
        make_call(list, server, json_text(tool, "name"), call);
        cJSON_ReplaceItemInObjectCaseSensitive(tool, "call", cJSON_CreateString(call));
        cJSON_AddItemToArray(list, tool);
    }
    const bool ok =
        read && (json_write(out, list) || err_set(e, ERR_NOMEM, "no memory for a list of tools"));
    cJSON_Delete(list);
    cJSON_Delete(old);
    return ok;
}

static bool is_offered(const cJSON *functions, const char *call)
{
    const cJSON *x;
    cJSON_ArrayForEach (x, functions) {
        const char *name = json_text(json_member(x, "function"), "name");
        if (name && !strcmp(name, call))
            return true;
    }
    return false;
}

bool tool_list_offer(const cJSON *list, int most, cJSON *functions)
{
    const cJSON *tool;
    cJSON_ArrayForEach (tool, list) {
        if (cJSON_GetArraySize(functions) >= most)
            return true;
        if (json_member(tool, "problem") || is_offered(functions, json_text(tool, "call")))
            continue;
        if (!cJSON_AddItemToArray(functions, function_of(tool)))
            return false;
    }
    return true;
}

const cJSON *tool_list_find(const cJSON *list, const char *call)
{
    const cJSON *tool;
    cJSON_ArrayForEach (tool, list)
        if (!json_member(tool, "problem") && !strcmp(json_text(tool, "call"), call))
            return tool;
    return NULL;
}
