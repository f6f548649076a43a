/* PUT /api/tool-servers/{id}/groups: whom one of the admins' tool servers is for. */
#include "fcgi/http/audit.h"
#include "fcgi/http/path_id.h"
#include "fcgi/http/reply.h"
#include "fcgi/http/request.h"
#include "engine/base/json/json.h"
#include "fcgi/openai/chat_request.h"
#include "sql/tools/store_tool_servers.h"
#include "sql/users/store_groups.h"

static const struct field_row fields[] = {{"groups", FIELD_READ}, {0}};

static bool set_groups(struct request *r, struct err *e)
{
    int64_t id;
    const struct store_ids *groups = NULL;
    const cJSON *body = request_json(r, e);
    if (!body || !path_id_param(r, "id", &id, e) || !fields_check(r, body, fields, e))
        return false;
    if (!cJSON_GetObjectItemCaseSensitive(body, "groups"))
        return err_field(e, ERR_INPUT, "groups", "is needed: a list of ids, or null for everyone");
    if (!path_id_list(r, body, &(struct path_id_ask){"groups", STORE_GROUPS_MAX}, &groups, e) ||
        !store_tool_server_set_groups(r->store, id, groups, e))
        return false;
    audit_record_id(r, "tool_server.groups", "tool_server", id);
    return reply_empty(r, 204);
}

const struct route api_tool_groups_routes[] = {
    {.method = HTTP_PUT,
     .path = "/api/tool-servers/{id}/groups",
     .auth = ROUTE_ADMIN,
     .pool = POOL_SHORT,
     .body_limit = ROUTE_JSON_BODY,
     .handler = set_groups,
     .scope = SCOPE_ADMIN,
     .confirmed = true,
     .doc = {.summary = "Whom an admins' tool server is for: everyone, or members of groups",
             .body = "ToolServerGroups",
             .statuses = "204"}},
    {0},
};
