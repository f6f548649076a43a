/* tool_offer.h: walks the servers that the user sees and takes those that a conversation names. */
#include "fcgi/tools/tool_offer.h"

#include <string.h>

#include "engine/base/json/json.h"
#include "fcgi/config/server_settings.h"
#include "fcgi/http/request.h"
#include "fcgi/tools/tool_list.h"

#define MAX_SERVERS 50
#define MAX_TOOLS 512 /* as chat_check_tools takes */

bool tool_offer_own(const struct request *r)
{
    return !strcmp(server_setting_text(r, SETTING_TOOL_SERVERS), "users");
}

bool tool_offer_usable(const struct request *r, const struct store_tool_server *server)
{
    const char *who = server_setting_text(r, SETTING_TOOL_SERVERS);
    return server->enabled &&
           (!strcmp(who, "users") || (!server->user_id && !strcmp(who, "admin")));
}

bool tool_offer_anywhere(const struct request *r, const struct store_tool_server *server)
{
    return !server->user_id ||
           (tool_offer_own(r) && server_setting_bool(r, SETTING_TOOL_SERVERS_PRIVATE));
}

struct walk {
    struct request *r;
    const cJSON *names;
    cJSON *functions; /* what is offered; NULL: a call is looked for, or names are */
    const char *call; /* NULL: none is looked for */
    struct tool_offer_call found;
    int64_t found_id;
    int n;       /* servers that were named */
    int n_found; /* whose tool the model calls so */
    bool failed;
};

static bool look_at(void *context, const struct store_tool_server *server)
{
    struct walk *w = context;
    if (!json_has_text(w->names, server->name))
        return true;
    w->n++;
    if ((!w->functions && !w->call) || !tool_offer_usable(w->r, server))
        return true;
    cJSON *list = json_parse(server->tools, strlen(server->tools), NULL, NULL);
    w->failed = !list || (w->functions && !tool_list_offer(list, MAX_TOOLS, w->functions));
    const cJSON *tool = w->call ? tool_list_find(list, w->call) : NULL;
    w->n_found += tool != NULL;
    if (tool && w->n_found == 1) {
        w->found_id = server->id;
        w->found.list = list;
        w->found.tool = tool;
        return true;
    }
    cJSON_Delete(list);
    return !w->failed;
}

static bool walk(struct walk *w, struct err *e)
{
    if (!store_tool_server_list(w->r->store, w->r->who.user_id, look_at, w, e))
        return false;
    return !w->failed || err_set(e, ERR_NOMEM, "no memory for the tools of servers");
}

cJSON *tool_offer_settings(struct request *r, const cJSON *settings, struct err *e)
{
    cJSON *out = cJSON_Duplicate(settings, true);
    struct walk w = {.r = r, .names = json_member(settings, "tool_servers")};
    if (!out)
        err_set(e, ERR_NOMEM, "no memory for the settings");
    if (!out || !cJSON_GetArraySize(w.names))
        return out;
    w.functions = cJSON_GetObjectItemCaseSensitive(out, "tools");
    if (!cJSON_IsArray(w.functions)) {
        cJSON_DeleteItemFromObjectCaseSensitive(out, "tools");
        w.functions = cJSON_AddArrayToObject(out, "tools");
    }
    bool ok = w.functions ? walk(&w, e) : err_set(e, ERR_NOMEM, "no memory for the settings");
    if (ok && !w.functions->child)
        cJSON_DeleteItemFromObjectCaseSensitive(out, "tools");
    if (ok)
        return out;
    cJSON_Delete(out);
    return NULL;
}

bool tool_offer_check_form(const cJSON *names, struct err *e)
{
    const cJSON *x;
    if (!names || cJSON_IsNull(names))
        return true;
    if (!cJSON_IsArray(names) || cJSON_GetArraySize(names) > MAX_SERVERS)
        return err_field(e, ERR_INPUT, "tool_servers", "must be at most %d names", MAX_SERVERS);
    cJSON_ArrayForEach (x, names)
        if (!cJSON_IsString(x) || !*x->valuestring || strlen(x->valuestring) > STORE_TOOL_NAME)
            return err_field(e, ERR_INPUT, "tool_servers", "must be names of tool servers");
    return true;
}

bool tool_offer_check(struct request *r, const cJSON *names, struct err *e)
{
    struct walk w = {.r = r, .names = names};
    if (!tool_offer_check_form(names, e))
        return false;
    if (!cJSON_GetArraySize(names))
        return true;
    return walk(&w, e) && (w.n == cJSON_GetArraySize(names) ||
                           err_field(e, ERR_INPUT, "tool_servers",
                                     "names a tool server that is not there, or one twice"));
}

/* Whether the chat has a function of its own with the name: the model was told of that one. */
static bool is_own_function(const cJSON *settings, const char *call)
{
    const cJSON *tool;
    cJSON_ArrayForEach (tool, json_member(settings, "tools")) {
        const char *name = cJSON_GetStringValue(json_member(json_member(tool, "function"), "name"));
        if (name && !strcmp(name, call))
            return true;
    }
    return false;
}

bool tool_offer_find(struct request *r, const cJSON *settings, const char *call,
                     struct tool_offer_call *out, struct err *e)
{
    struct walk w = {.r = r, .names = json_member(settings, "tool_servers"), .call = call};
    *out = (struct tool_offer_call){0};
    const bool ok = walk(&w, e);
    *out = w.found;
    if (!ok)
        return false;
    if (!w.n_found)
        return err_set(e, ERR_NOTFOUND, "no tool server of this conversation has the tool") ||
               err_reason(e, "tool_unknown");
    if (w.n_found > 1 || is_own_function(settings, call))
        return err_set(e, ERR_CONFLICT, "this conversation has two tools of the name") ||
               err_reason(e, "tool_ambiguous");
    const struct store_ref ref = {.user_id = r->who.user_id, .id = w.found_id};
    if (store_tool_server_get(r->store, r->arena, &ref, &out->server, e))
        return true;
    tool_offer_call_fini(out);
    return false;
}

void tool_offer_call_fini(struct tool_offer_call *c)
{
    cJSON_Delete(c->list);
    *c = (struct tool_offer_call){0};
}
