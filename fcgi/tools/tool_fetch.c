/* tool_fetch.h: one session in which the list is read. A server that refuses is asked whether
 * people sign in there. */
#include "fcgi/tools/tool_fetch.h"

#include <string.h>

#include "engine/base/arena.h"
#include "engine/base/clock.h"
#include "fcgi/http/request.h"
#include "fcgi/http/work.h"
#include "fcgi/tools/tool_account.h"
#include "fcgi/tools/tool_list.h"

#define LIST_MS 15000.0

static bool list_tools(void *context, struct mcp_session *s, struct err *e)
{
    cJSON **tools = context;
    cJSON_Delete(*tools);
    *tools = mcp_list_tools(s, e);
    return *tools != NULL;
}

/* Without its tools, for now. */
static bool wait_for_sign_in(struct store_tool_server *x)
{
    x->tools = "[]";
    x->listed_at = 0;
    return true;
}

/* Does it refuse because it wants a sign-in? */
static bool signs_in(const struct tool_visit *v)
{
    struct oauth_challenge c;
    struct oauth_about about;
    struct err ignored = {0};
    if (v->refusal.status != 401 || v->server->client_id)
        return false;
    oauth_challenge_read(v->refusal.challenge, &c);
    const struct oauth_ask ask =
        tool_account_ask(v->r, v->server, v->refusal.near, clock_ms() + LIST_MS);
    return oauth_discover(&ask, v->server->url, &c, &about, &ignored);
}

static bool is_about_sign_in(const struct err *e)
{
    return !strcmp(e->reason, "tool_sign_in") || !strcmp(e->reason, "tool_scope");
}

static bool explain(struct store_tool_server *x, const struct tool_visit *v, bool may_wait,
                    struct err *e)
{
    const bool has_secret = v->secret ? *v->secret : x->sealed.bytes != NULL;
    if (may_wait && is_about_sign_in(e))
        return wait_for_sign_in(x);
    if (!has_secret && signs_in(v)) {
        x->client_id = "";
        if (may_wait)
            return wait_for_sign_in(x);
    }
    if (is_about_sign_in(e) || e->code == ERR_NOMEM)
        return false;
    e->code = ERR_INPUT;
    memcpy(e->field, "url", sizeof "url");
    return false;
}

bool tool_fetch(struct request *r, struct store_tool_server *x, const char *secret, bool may_wait,
                struct err *e)
{
    struct buf text = {0};
    cJSON *tools = NULL;
    struct tool_visit v = {.r = r,
                           .server = x,
                           .secret = secret,
                           .until = clock_ms() + LIST_MS,
                           .work = list_tools,
                           .context = &tools};
    if (!work_begin(r, WORK_TOOL, e))
        return false;
    const bool ok = tool_account_visit(&v, e) && tool_list_make(x->name, tools, &text, e);
    cJSON_Delete(tools);
    if (ok && !(x->tools = arena_strdup(r->arena, text.data)))
        return buf_fini(&text), err_set(e, ERR_NOMEM, "no memory for a list of tools");
    buf_fini(&text);
    x->listed_at = clock_wall_ms();
    return ok || explain(x, &v, may_wait, e);
}
