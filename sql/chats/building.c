/* Conversations that are made in steps: building_internal.h. */
#include "sql/chats/building_internal.h"

#include "engine/base/clock.h"
#include "sql/core/statement.h"
#include "sql/users/users_internal.h"

#define ALIVE_MS ((int64_t)60 * 1000) /* without a step, until its maker is taken for dead */

int64_t building_until(void)
{
    return clock_wall_ms() + ALIVE_MS;
}

/* until 0: it is there from now on. */
static bool set_building(const struct building *b, int64_t until, int64_t leaf_id, struct err *e)
{
    int changed = 0;
    sqlite3_stmt *q = statement_begin(b->s, QUERY_CONVERSATION_BUILDING, e);
    if (!q)
        return false;
    statement_bind_int(q, ":user_id", b->user_id);
    statement_bind_int(q, ":id", b->id);
    statement_bind_int(q, ":now", clock_wall_ms());
    statement_bind_id(q, ":until", until);
    statement_bind_id(q, ":leaf_id", leaf_id);
    return statement_run(b->s, q, &changed, e) &&
           (changed || err_set(e, ERR_BUSY, "it took too long and was given up"));
}

bool building_go_on(const struct building *b, struct err *e)
{
    return set_building(b, building_until(), 0, e) &&
           users_check_quota(b->s, b->user_id, b->storage_bytes, e);
}

bool building_show(const struct building *b, int64_t leaf_id, struct err *e)
{
    return set_building(b, 0, leaf_id, e) &&
           users_check_quota(b->s, b->user_id, b->storage_bytes, e);
}

void building_give_up(const struct building *b)
{
    struct err why = {0};
    if (store_write_begin(b->s, &why))
        store_write_end(b->s, set_building(b, clock_wall_ms(), 0, &why), &why);
}
