/* store_tool_runs.h: each change is one statement that compares the state it expects, so that of
 * two who begin, end or stop a run one does. */
#include "sql/tools/store_tool_runs.h"

#include <string.h>

#include "engine/base/arena.h"
#include "engine/base/clock.h"
#include "sql/core/statement.h"
#include "sql/tools/tools_internal.h"

static const char *const names[RUN__N] = {"running", "done",    "failed",
                                          "stopped", "refused", "lost"};

const char *store_run_state_name(enum store_run_state state)
{
    return names[state];
}

static sqlite3_stmt *begin(struct store *s, enum query which, const struct store_tool_run *run,
                           struct err *e)
{
    sqlite3_stmt *q = statement_begin(s, which, e);
    if (q) {
        statement_bind_int(q, ":id", run->message_id);
        statement_bind_text(q, ":call_id", run->call_id);
    }
    return q;
}

/* Why nothing was begun: always false. */
static bool say_why_not(struct store *s, int64_t user_id, const struct store_tool_run *run,
                        struct err *e)
{
    int64_t n = 0;
    sqlite3_stmt *q = begin(s, QUERY_TOOL_RUN_GOES, run, e);
    if (!q)
        return false;
    statement_bind_int(q, ":user_id", user_id);
    statement_bind_int(q, ":now", run->began_at);
    if (!statement_int(s, q, &n, e))
        return false;
    return n ? err_set(e, ERR_CONFLICT, "this call runs already") || err_reason(e, "tool_running")
             : err_set(e, ERR_CONFLICT, "this call has run already") || err_reason(e, "tool_ran");
}

static bool insert(struct store *s, int64_t user_id, const struct store_tool_run *run,
                   struct err *e)
{
    int changed = 0;
    sqlite3_stmt *q = begin(s, QUERY_TOOL_RUN_BEGIN, run, e);
    if (!q)
        return false;
    statement_bind_int(q, ":user_id", user_id);
    statement_bind_text(q, ":server", run->server);
    statement_bind_text(q, ":tool", run->tool);
    statement_bind_text(q, ":state", names[run->state]);
    statement_bind_text(q, ":result", run->result ? run->result : "");
    statement_bind_int(q, ":now", run->began_at);
    statement_bind_int(q, ":ends_at", run->ends_at);
    statement_bind_int(q, ":again", run->again);
    return statement_run(s, q, &changed, e) && (changed || say_why_not(s, user_id, run, e));
}

bool store_tool_run_begin(struct store *s, int64_t user_id, const struct store_tool_run *run,
                          struct err *e)
{
    return store_write_begin(s, e) && store_write_end(s, insert(s, user_id, run, e), e);
}

bool store_tool_run_end(struct store *s, int64_t user_id, const struct store_tool_run *run,
                        struct err *e)
{
    if (!store_write_begin(s, e))
        return false;
    sqlite3_stmt *q = begin(s, QUERY_TOOL_RUN_END, run, e);
    if (q) {
        statement_bind_int(q, ":user_id", user_id);
        statement_bind_text(q, ":state", names[run->state]);
        statement_bind_text(q, ":result", run->result);
        statement_bind_int(q, ":began_at", run->began_at);
        statement_bind_int(q, ":now", clock_wall_ms());
    }
    return store_write_end(s, q && statement_run(s, q, NULL, e), e);
}

bool store_tool_run_withdraw(struct store *s, int64_t user_id, const struct store_tool_run *run,
                             struct err *e)
{
    if (!store_write_begin(s, e))
        return false;
    sqlite3_stmt *q = begin(s, QUERY_TOOL_RUN_WITHDRAW, run, e);
    if (q) {
        statement_bind_int(q, ":user_id", user_id);
        statement_bind_int(q, ":began_at", run->began_at);
    }
    return store_write_end(s, q && statement_run(s, q, NULL, e), e);
}

bool store_tool_run_stop(struct store *s, int64_t user_id, const struct store_tool_run *run,
                         struct err *e)
{
    int changed = 0;
    if (!store_write_begin(s, e))
        return false;
    sqlite3_stmt *q = begin(s, QUERY_TOOL_RUN_STOP, run, e);
    if (q) {
        statement_bind_int(q, ":user_id", user_id);
        statement_bind_text(q, ":result", run->result);
        statement_bind_int(q, ":now", clock_wall_ms());
    }
    bool ok = q && statement_run(s, q, &changed, e);
    if (ok && !changed)
        ok = err_set(e, ERR_NOTFOUND, "this call does not run");
    return store_write_end(s, ok, e);
}

bool store_tool_run_runs(struct store *s, int64_t user_id, const struct store_tool_run *run,
                         bool *runs, struct err *e)
{
    int64_t n = 0;
    sqlite3_stmt *q = begin(s, QUERY_TOOL_RUN_RUNS, run, e);
    if (!q)
        return false;
    statement_bind_int(q, ":user_id", user_id);
    statement_bind_int(q, ":began_at", run->began_at);
    if (!statement_int(s, q, &n, e))
        return false;
    *runs = n > 0;
    return true;
}

static enum store_run_state state_of(const char *name, int64_t ends_at)
{
    for (int i = 0; i < RUN_LOST; i++)
        if (!strcmp(name, names[i]))
            return i == RUN_RUNNING && ends_at < clock_wall_ms() ? RUN_LOST
                                                                 : (enum store_run_state)i;
    return RUN_LOST; /* the schema's CHECK lets nothing else through */
}

bool store_tool_run_get(struct store *s, struct arena *a, const struct store_ref *message,
                        const char *call_id, struct store_tool_run *out, struct err *e)
{
    const struct store_tool_run which = {.message_id = message->id, .call_id = call_id};
    sqlite3_stmt *q = begin(s, QUERY_TOOL_RUN_GET, &which, e);
    if (!q)
        return false;
    statement_bind_int(q, ":user_id", message->user_id);
    int rc = statement_step(s, q, e);
    bool ok = rc == 0 && err_set(e, ERR_NOTFOUND, "this call was not run");
    if (rc == 1) {
        *out = (struct store_tool_run){.message_id = message->id,
                                       .began_at = sqlite3_column_int64(q, 5),
                                       .ends_at = sqlite3_column_int64(q, 6)};
        out->state = state_of(statement_column_text(q, 3), out->ends_at);
        ok = statement_column_copy(q, 0, a, &out->call_id, e) &&
             statement_column_copy(q, 1, a, &out->server, e) &&
             statement_column_copy(q, 2, a, &out->tool, e) &&
             statement_column_copy(q, 4, a, &out->result, e);
    }
    statement_end(q);
    return ok;
}

bool tool_runs_clear(struct store *s, int64_t message_id, struct err *e)
{
    sqlite3_stmt *q = statement_begin(s, QUERY_TOOL_RUNS_CLEAR, e);
    if (!q)
        return false;
    statement_bind_int(q, ":id", message_id);
    return statement_run(s, q, NULL, e);
}

bool store_tool_rounds(struct store *s, const struct store_ref *message, int64_t *n, struct err *e)
{
    sqlite3_stmt *q = statement_begin(s, QUERY_TOOL_ROUNDS, e);
    if (!q)
        return false;
    statement_bind_int(q, ":id", message->id);
    statement_bind_int(q, ":user_id", message->user_id);
    return statement_int(s, q, n, e);
}
