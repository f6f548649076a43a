/* /api/messages/{id}/calls/{call_id}: a call of an answer is run, or refused, or stopped. What it
 * gave is in the database before the request is answered, whether its client waits or not; the
 * client then sends for the next answer. */
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/json/json.h"
#define LOG_MODULE "tools"
#include "engine/base/log.h"
#include "fcgi/config/server_settings.h"
#include "fcgi/http/path_id.h"
#include "fcgi/http/reply.h"
#include "fcgi/http/request.h"
#include "fcgi/http/work.h"
#include "fcgi/openai/chat_request.h"
#include "fcgi/tools/tool_account.h"
#include "fcgi/tools/tool_offer.h"
#include "fcgi/tools/tool_result.h"
#include "sql/chats/store_conversations.h"
#include "sql/tools/store_tool_runs.h"

#define LATE_MS 15000 /* after its time a run that still says that it runs was lost */
#define STOP_LOOK_MS 400.0

static const struct field_row run_fields[] = {
    {"allow", FIELD_READ}, {"definition", FIELD_READ}, {0}};

enum allow { ALLOW_IF_PERMITTED, ALLOW_ONCE, ALLOW_ALWAYS, ALLOW_NO };

struct running {
    struct request *r;
    struct store_tool_run run;
    struct tool_offer_call found;
    cJSON *arguments, *result;
    enum allow allow;
    const char *definition; /* the hash of what the user was shown; NULL: none was sent */
    double looked;          /* clock_ms, when it was last asked whether it goes on */
    bool stopped;
    bool written_here; /* a job of this chat wrote the call: it came by no import, edit or fork */
};

/* Its row says so; the request's own client may have gone meanwhile. */
static bool is_stopped(void *context)
{
    struct running *x = context;
    bool runs = true;
    const double now = clock_ms();
    if (!x->stopped && now - x->looked >= STOP_LOOK_MS) {
        x->looked = now;
        x->stopped =
            store_tool_run_runs(x->r->store, x->r->who.user_id, &x->run, &runs, NULL) && !runs;
    }
    return x->stopped;
}

static bool read_allow(struct request *r, struct running *x, struct err *e)
{
    static const char *const names[] = {"", "once", "always", "no"};
    const cJSON *body = request_json(r, e);
    const char *allow = NULL;
    if (!body || !fields_check(r, body, run_fields, e) ||
        !json_get_string(body, "allow", &allow, e) ||
        !json_get_string(body, "definition", &x->definition, e))
        return false;
    for (int i = 1; allow && i <= ALLOW_NO; i++)
        if (!strcmp(allow, names[i])) {
            x->allow = (enum allow)i;
            return true;
        }
    x->allow = ALLOW_IF_PERMITTED;
    return !allow || err_field(e, ERR_INPUT, "allow", "must be once, always or no");
}

/* OpenAI's form has them as a text; an import may bring the object itself, which the page shows. */
static bool read_arguments(struct running *x, const cJSON *call, struct err *e)
{
    const cJSON *sent = json_member(json_member(call, "function"), "arguments");
    const char *text = cJSON_GetStringValue(sent);
    if (!sent || (text && !*text))
        return true;
    x->arguments = text                   ? json_parse(text, strlen(text), NULL, NULL)
                   : cJSON_IsObject(sent) ? cJSON_Duplicate(sent, true)
                                          : NULL;
    return cJSON_IsObject(x->arguments) ||
           err_set(e, ERR_INPUT, "the call's arguments are not a JSON object") ||
           err_reason(e, "tool_arguments");
}

/* *name: of the call's function, in `calls`. Of two calls with one id nobody knows which of them
 * somebody was shown. *bad: its arguments can't be read. */
static bool pick_call(struct running *x, const cJSON *calls, const char **name, struct err *bad,
                      struct err *e)
{
    const cJSON *call, *found = NULL;
    cJSON_ArrayForEach (call, calls) {
        const char *id = json_text(call, "id");
        if (!id || strcmp(id, x->run.call_id) != 0)
            continue;
        if (found)
            return err_set(e, ERR_CONFLICT, "another call of the answer has the same id") ||
                   err_reason(e, "tool_call_twice");
        found = call;
    }
    *name = json_text(json_member(found, "function"), "name");
    if (!*name)
        return err_set(e, ERR_NOTFOUND, "the answer has no such call");
    read_arguments(x, found, bad);
    return true;
}

/* The call in the answer, and whose tool it is. */
static bool find_call(struct request *r, struct running *x, struct err *bad, struct err *e)
{
    const struct store_ref ref = {.user_id = r->who.user_id, .id = x->run.message_id};
    struct store_message m;
    struct store_conversation c;
    const char *name = NULL;
    if (!store_message_get(r->store, r->arena, &ref, &m, e) ||
        !store_conversation_get(
            r->store, r->arena,
            &(struct store_ref){.user_id = r->who.user_id, .id = m.conversation_id}, &c, e))
        return false;
    x->written_here = m.job_key != NULL;
    if (m.status == MESSAGE_RUNNING)
        return err_set(e, ERR_CONFLICT, "this answer is still being written") ||
               err_reason(e, "answer_running");
    cJSON *calls = m.tool_calls ? json_parse(m.tool_calls, strlen(m.tool_calls), NULL, NULL) : NULL;
    cJSON *settings = json_parse(c.settings, strlen(c.settings), NULL, e);
    const bool ok = settings && pick_call(x, calls, &name, bad, e) &&
                    tool_offer_find(r, settings, name, &x->found, e);
    cJSON_Delete(calls);
    cJSON_Delete(settings);
    return ok;
}

/* A person allows what they were shown: the tool as its list describes it now, and not as another
 * tab or a refresh has it by then. */
static bool was_shown(const struct running *x, struct err *e)
{
    if (!x->definition)
        return err_field(e, ERR_INPUT, "definition",
                         "is needed with allow: the tool's in /api/tool-servers");
    return !strcmp(x->definition, json_text(x->found.tool, "hash")) ||
           err_set(e, ERR_CONFLICT, "the tool is described differently now: look at it again") ||
           err_reason(e, "tool_changed");
}

/* Asked each time, but for tools that run always; and these too after so many rounds, or where the
 * call came from elsewhere: nobody's file decides what runs here. */
static bool may_run(struct running *x, struct err *e)
{
    struct request *r = x->r;
    const struct store_tool_permission p = {.user_id = r->who.user_id,
                                            .server_id = x->found.server.id,
                                            .tool = json_text(x->found.tool, "name"),
                                            .definition = json_text(x->found.tool, "hash")};
    const int64_t most = server_setting_int(r, SETTING_TOOL_ROUNDS);
    bool allowed = false;
    int64_t rounds = 0;
    if (x->allow == ALLOW_ONCE || x->allow == ALLOW_ALWAYS)
        return was_shown(x, e) &&
               (x->allow == ALLOW_ONCE || store_tool_permission_add(r->store, &p, e));
    if (!store_tool_permission_find(r->store, &p, &allowed, e) ||
        !store_tool_rounds(r->store,
                           &(struct store_ref){.user_id = r->who.user_id, .id = x->run.message_id},
                           &rounds, e))
        return false;
    allowed = allowed && x->written_here;
    r->error_override.code = allowed ? "tool_rounds" : "tool_permission";
    if (!allowed)
        return err_set(e, ERR_FORBIDDEN, "this tool asks before each call: send allow") ||
               err_reason(e, "tool_permission");
    if (rounds > most) {
        err_set(e, ERR_FORBIDDEN, "the model has called tools %lld times in a row: send allow",
                (long long)most);
        err_reason(e, "tool_rounds");
        return err_param(e, "n", most);
    }
    r->error_override.code = NULL;
    return true;
}

static bool end_run(struct running *x, enum store_run_state state, const char *result,
                    struct err *e)
{
    x->run.state = state;
    x->run.result = result;
    return store_tool_run_end(x->r->store, x->r->who.user_id, &x->run, e);
}

static bool call_once(void *context, struct mcp_session *session, struct err *e)
{
    struct running *x = context;
    x->result = mcp_call_tool(session, json_text(x->found.tool, "name"), x->arguments, e);
    return x->result != NULL;
}

/* False: the user has to sign in first, and nothing ran. */
static bool call_tool(struct running *x, double until, struct buf *out, bool *failed, struct err *e)
{
    struct err why = {0};
    struct tool_visit v = {.r = x->r,
                           .server = &x->found.server,
                           .until = until,
                           .stopped = is_stopped,
                           .work = call_once,
                           .context = x};
    *failed = !tool_account_visit(&v, &why);
    if (*failed && (!strcmp(why.reason, "tool_sign_in") || !strcmp(why.reason, "tool_scope"))) {
        *e = why;
        return false;
    }
    if (!*failed)
        tool_result_text(x->result, (size_t)server_setting_int(x->r, SETTING_TOOL_RESULT_BYTES),
                         out, failed);
    else
        buf_printf(out, "Error: %s.", why.text);
    return true;
}

/* From here on the row tells what becomes of it. */
static bool run(struct running *x, struct err *e)
{
    struct request *r = x->r;
    struct buf out = {0};
    struct err unheard = {0};
    bool failed = false;
    const int64_t ms = server_setting_int(r, SETTING_TOOL_CALL_SECONDS) * 1000;
    if (!work_begin(r, WORK_TOOL, e))
        return false;
    x->run.state = RUN_RUNNING;
    x->run.began_at = clock_wall_ms();
    x->run.ends_at = x->run.began_at + ms + LATE_MS;
    if (!store_tool_run_begin(r->store, r->who.user_id, &x->run, e))
        return false;
    const bool ran = call_tool(x, clock_ms() + (double)ms, &out, &failed, e);
    work_end(r, WORK_TOOL);
    if (!ran) {
        store_tool_run_withdraw(r->store, r->who.user_id, &x->run, &unheard);
        return false;
    }
    const bool ok = out.failed ? end_run(x, RUN_FAILED, "Error: no memory for the result.", e)
                               : end_run(x, failed ? RUN_FAILED : RUN_DONE, out.data, e);
    log_info("id=%s call server=%lld state=%s ms=%lld bytes=%zu", r->id,
             (long long)x->found.server.id, store_run_state_name(x->run.state),
             (long long)(clock_wall_ms() - x->run.began_at), out.len);
    buf_fini(&out);
    return ok;
}

static bool send_run(struct request *r, const struct store_tool_run *which, struct err *e)
{
    struct store_tool_run x;
    struct buf out = {0};
    if (!store_tool_run_get(r->store, r->arena,
                            &(struct store_ref){.user_id = r->who.user_id, .id = which->message_id},
                            which->call_id, &x, e))
        return false;
    buf_puts(&out, "{\"call_id\":");
    buf_json_string(&out, x.call_id, strlen(x.call_id));
    buf_json_member(&out, "server", x.server);
    buf_json_member(&out, "tool", x.tool);
    buf_json_member(&out, "state", store_run_state_name(x.state));
    buf_json_member(&out, "result", x.result);
    buf_printf(&out, ",\"began_at\":%lld,\"ends_at\":%lld}", (long long)x.began_at,
               (long long)x.ends_at);
    const bool ok = !out.failed && reply_json_buf(r, 200, &out);
    buf_fini(&out);
    return ok || err_set(e, ERR_NOMEM, "no memory for the result");
}

/* A call that never ran: it ends as it begins. */
static bool end_at_once(struct running *x, enum store_run_state state, const char *result,
                        struct err *e)
{
    x->run.state = state;
    x->run.result = result;
    x->run.began_at = x->run.ends_at = clock_wall_ms();
    return store_tool_run_begin(x->r->store, x->r->who.user_id, &x->run, e);
}

static bool take_call(struct request *r, struct store_tool_run *out, struct err *e)
{
    out->call_id = request_param(r, "call_id");
    if (!path_id_param(r, "id", &out->message_id, e))
        return false;
    return (out->call_id && strlen(out->call_id) <= STORE_TOOL_CALL_ID) ||
           err_set(e, ERR_NOTFOUND, "the answer has no such call");
}

static bool run_call(struct request *r, struct err *e)
{
    struct running x = {.r = r};
    struct err bad = {0};
    bool ok = take_call(r, &x.run, e) && read_allow(r, &x, e) && find_call(r, &x, &bad, e);
    if (ok) {
        x.run.server = x.found.server.name;
        x.run.tool = json_text(x.found.tool, "name");
        x.run.again = x.allow != ALLOW_IF_PERMITTED;
        if (x.allow == ALLOW_NO)
            ok = end_at_once(&x, RUN_REFUSED, "The user did not allow this call.", e);
        else if (bad.code)
            ok = end_at_once(&x, RUN_FAILED, "Error: the arguments are not a JSON object.", e);
        else
            ok = may_run(&x, e) && run(&x, e);
    }
    ok = ok && send_run(r, &x.run, e);
    tool_offer_call_fini(&x.found);
    cJSON_Delete(x.arguments);
    cJSON_Delete(x.result);
    return ok;
}

static bool stop_call(struct request *r, struct err *e)
{
    struct store_tool_run run = {.result = "The user stopped this call before it had ended."};
    return take_call(r, &run, e) && store_tool_run_stop(r->store, r->who.user_id, &run, e) &&
           send_run(r, &run, e);
}

const struct route api_tool_runs_routes[] = {
    {.method = HTTP_POST,
     .path = "/api/messages/{id}/calls/{call_id}/run",
     .auth = ROUTE_USER,
     .pool = POOL_SHORT,
     .body_limit = ROUTE_JSON_BODY,
     .handler = run_call,
     .scope = SCOPE_HISTORY | SCOPE_INFERENCE,
     .doc = {.summary = "Run a call of an answer at its tool server, or refuse it",
             .body = "ToolRunRequest",
             .reply = "ToolRun",
             .statuses = "200 409"}},
    {.method = HTTP_POST,
     .path = "/api/messages/{id}/calls/{call_id}/stop",
     .auth = ROUTE_USER,
     .pool = POOL_SHORT,
     .handler = stop_call,
     .scope = SCOPE_HISTORY,
     .doc = {.summary = "Stop a call that runs", .reply = "ToolRun", .statuses = "200"}},
    {0},
};
