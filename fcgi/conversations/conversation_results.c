/* conversation.h: the results of an answer's calls, as a person or a program of theirs sends them,
 * or as a tool server left them (tools/api_tool_runs.c). Nothing is run here. */
#include <string.h>

#include "engine/base/arena.h"
#include "engine/base/json/json.h"
#include "fcgi/conversations/conversation.h"
#include "fcgi/http/request.h"
#include "sql/chats/store_conversations.h"
#include "sql/tools/store_tool_runs.h"

static bool is_call(const cJSON *calls, const char *id)
{
    const cJSON *call;
    cJSON_ArrayForEach (call, calls) {
        const char *own = json_text(call, "id");
        if (own && !strcmp(own, id))
            return true;
    }
    return false;
}

/* What a run of the call left; how it went is kept with the message. */
static bool take_run(struct request *r, const struct store_message *m, struct store_result *x,
                     struct err *e)
{
    struct store_tool_run run;
    struct err why = {0};
    struct buf timings = {0};
    if (!store_tool_run_get(r->store, r->arena,
                            &(struct store_ref){.user_id = r->who.user_id, .id = m->id},
                            x->tool_call_id, &run, &why) ||
        run.state == RUN_RUNNING || run.state == RUN_LOST)
        return err_field(e, ERR_INPUT, "tool_results", "'%.60s' was not run: content is needed",
                         x->tool_call_id);
    buf_puts(&timings, "{\"run\":{\"server\":");
    buf_json_string(&timings, run.server, strlen(run.server));
    buf_json_member(&timings, "tool", run.tool);
    buf_json_member(&timings, "state", store_run_state_name(run.state));
    buf_printf(&timings, ",\"ms\":%lld}}", (long long)(run.ends_at - run.began_at));
    x->content = run.result;
    x->timings = timings.failed ? NULL : arena_strdup(r->arena, timings.data);
    buf_fini(&timings);
    return x->timings || err_set(e, ERR_NOMEM, "no memory for the results");
}

/* The answer that is given results, and its calls. */
struct answered {
    const struct store_message *message;
    const cJSON *calls;
};

static bool read_result(struct request *r, const cJSON *item, const struct answered *a,
                        struct conversation_results *out, struct err *e)
{
    struct store_result x = {0};
    if (!cJSON_IsObject(item))
        return err_field(e, ERR_INPUT, "tool_results",
                         "must be objects with tool_call_id and content");
    if (!json_get_string(item, "tool_call_id", &x.tool_call_id, e) ||
        !json_get_string(item, "content", &x.content, e))
        return false;
    if (!x.tool_call_id)
        return err_field(e, ERR_INPUT, "tool_results", "tool_call_id is needed");
    if (!is_call(a->calls, x.tool_call_id))
        return err_field(e, ERR_INPUT, "tool_results", "'%.60s' is no call of that answer",
                         x.tool_call_id);
    for (int i = 0; i < out->n; i++)
        if (!strcmp(out->at[i].tool_call_id, x.tool_call_id))
            return err_field(e, ERR_INPUT, "tool_results", "'%.60s' is answered twice",
                             x.tool_call_id);
    if (!x.content && !take_run(r, a->message, &x, e))
        return false;
    if (strlen(x.content) > STORE_CONTENT_BYTES)
        return err_field(e, ERR_LIMIT, "tool_results", "a result is longer than %d bytes",
                         STORE_CONTENT_BYTES);
    out->at[out->n++] = x;
    return true;
}

bool conversation_read_results(struct request *r, const struct conversation_place *place,
                               const cJSON *list, struct conversation_results *out, struct err *e)
{
    struct store_message m;
    struct err why = {0};
    const cJSON *item;
    if (!place->message_id ||
        !store_message_get(r->store, r->arena,
                           &(struct store_ref){.user_id = r->who.user_id, .id = place->message_id},
                           &m, &why) ||
        m.conversation_id != place->conversation_id)
        return err_field(e, ERR_INPUT, "parent_id", "is not a message of this conversation");
    cJSON *calls = m.role == ROLE_ASSISTANT && m.tool_calls
                       ? json_parse(m.tool_calls, strlen(m.tool_calls), NULL, NULL)
                       : NULL;
    const int n_calls = cJSON_GetArraySize(calls);
    bool ok = n_calls > 0 || err_field(e, ERR_INPUT, "parent_id", "must be an answer with calls");
    if (ok && (cJSON_GetArraySize(list) != n_calls || n_calls > STORE_RESULTS_MAX))
        ok = err_field(e, ERR_INPUT, "tool_results", "must answer each of the %d calls once",
                       n_calls);
    out->n = 0;
    const struct answered answer = {&m, calls};
    cJSON_ArrayForEach (item, list)
        ok = ok && read_result(r, item, &answer, out, e);
    cJSON_Delete(calls);
    return ok;
}
