/* Calls of an answer that are run here. A row says that a call runs, and then what it gave, until
 * the results become messages (store_message_post). Stopping changes the row, and whoever runs the
 * call looks at it. A row that outlived ends_at was lost with its process. Rules as in
 * sql/core/store.h. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/err.h"
#include "sql/core/store.h"

struct arena;

#define STORE_TOOL_CALL_ID 200 /* bytes of a call's id */

enum store_run_state {
    RUN_RUNNING,
    RUN_DONE,
    RUN_FAILED,
    RUN_STOPPED,
    RUN_REFUSED,
    RUN_LOST,
    RUN__N
};
const char *store_run_state_name(enum store_run_state state);

struct store_tool_run {
    int64_t message_id;
    const char *call_id;
    const char *server, *tool; /* their names then */
    bool again;                /* to begin: somebody says that what ran may run once more */
    enum store_run_state state;
    const char *result; /* "" while it runs */
    int64_t began_at, ends_at;
};

/* The row, in the state that it says. An earlier run of the call is replaced where `again` says so;
 * by RUN_REFUSED only one that was lost, since what a call gave stays known. ERR_CONFLICT with the
 * reason tool_running: it runs; tool_ran: it did, or its result is a message already. */
bool store_tool_run_begin(struct store *s, int64_t user_id, const struct store_tool_run *run,
                          struct err *e);
/* Of *run: message_id, call_id, began_at say which, state and result what became of it. A run that
 * was stopped, or replaced, is left alone. */
bool store_tool_run_end(struct store *s, int64_t user_id, const struct store_tool_run *run,
                        struct err *e);
/* It did not run after all: as if it had not begun. */
bool store_tool_run_withdraw(struct store *s, int64_t user_id, const struct store_tool_run *run,
                             struct err *e);
/* Ends it as stopped, with this result. ERR_NOTFOUND: it does not run. */
bool store_tool_run_stop(struct store *s, int64_t user_id, const struct store_tool_run *run,
                         struct err *e);
/* Does this very run go on, or was it stopped? */
bool store_tool_run_runs(struct store *s, int64_t user_id, const struct store_tool_run *run,
                         bool *runs, struct err *e);
/* The call's row; ERR_NOTFOUND. What outlived its time is RUN_LOST. */
bool store_tool_run_get(struct store *s, struct arena *a, const struct store_ref *message,
                        const char *call_id, struct store_tool_run *out, struct err *e);
/* How many answers, this one included, follow the last message that a person wrote. */
bool store_tool_rounds(struct store *s, const struct store_ref *message, int64_t *n, struct err *e);
