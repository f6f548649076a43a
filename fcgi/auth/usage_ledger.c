/* usage_ledger.h: sums of few users, keys and days a process; where there are more, each is counted
 * at once. */
#include "fcgi/auth/usage_ledger.h"

#include <unistd.h>

#include "engine/base/clock.h"
#include "fcgi/process/shared.h"
#include "sql/core/store.h"
#include "sql/users/store_limits.h"

#define DAY_S 86400
#define HELD_STEP_US 500
#define HELD_STEPS 200
#define SAME_STEPS 20

static bool is_of(const struct shared_used *u, const struct store_usage *row)
{
    return u->user_id == row->user_id && u->key_id == row->key_id && u->day == row->day;
}

/* The row's place, or a free one; NULL: there is none. */
static struct shared_used *place_of(struct shared_usage *all, const struct store_usage *row)
{
    struct shared_used *free = NULL;
    for (int i = 0; i < SHARED_USED; i++) {
        struct shared_used *u = &all->used[i];
        if (is_of(u, row))
            return u;
        if (!u->user_id)
            free = u;
    }
    return free;
}

static void put(struct shared_used *u, const struct store_usage *row)
{
    const bool more = is_of(u, row);
    u->requests = (more ? u->requests : 0) + row->requests;
    u->prompt_tokens = (more ? u->prompt_tokens : 0) + row->prompt_tokens;
    u->cached_tokens = (more ? u->cached_tokens : 0) + row->cached_tokens;
    u->completion_tokens = (more ? u->completion_tokens : 0) + row->completion_tokens;
    u->key_id = row->key_id;
    u->day = row->day;
    u->user_id = row->user_id; /* now it counts */
}

/* False: others hold it, or it is full. */
static bool add(struct shared_usage *all, int64_t born, const struct store_usage *row)
{
    if (!shared_usage_take(all, getpid(), born))
        return false;
    struct shared_used *u = place_of(all, row);
    if (u) {
        put(u, row);
        all->any = 1;
    }
    shared_usage_give(all);
    return u != NULL;
}

bool usage_ledger_add(struct shared_child *slot, struct store *store, const struct store_usage *row,
                      struct err *e)
{
    struct store_usage of_day = *row;
    of_day.day = clock_wall_s() / DAY_S;
    return (slot && (add(&slot->usage[0], slot->born, &of_day) ||
                     add(&slot->usage[1], slot->born, &of_day))) ||
           store_usage_add(store, &of_day, e);
}

/* False: it stays. */
static bool count(struct shared_used *u, struct store *store, struct err *e)
{
    const struct store_usage row = {.user_id = u->user_id,
                                    .key_id = u->key_id,
                                    .day = u->day,
                                    .requests = u->requests,
                                    .prompt_tokens = u->prompt_tokens,
                                    .cached_tokens = u->cached_tokens,
                                    .completion_tokens = u->completion_tokens};
    if (row.user_id && !store_usage_add(store, &row, e))
        return false;
    u->user_id = 0;
    return true;
}

static bool count_all(struct shared_usage *all, struct store *store, struct err *e)
{
    bool counted = true;
    for (int i = 0; i < SHARED_USED && counted; i++)
        counted = count(&all->used[i], store, e);
    all->any = !counted;
    return counted;
}

/* Whoever asks waits for another who counts just now: what is held is not to be seen half. */
static bool take_soon(struct shared_usage *all, pid_t mine, int64_t born)
{
    bool held = shared_usage_take(all, mine, born);
    for (int i = 0; !held && i < HELD_STEPS; i++) {
        clock_sleep_us(HELD_STEP_US);
        held = shared_usage_take(all, mine, born);
    }
    return held;
}

bool usage_ledger_count(struct shared *s, struct store *store, struct err *e)
{
    const pid_t mine = getpid();
    int64_t born = 0;
    bool counted = true;
    for (int i = 0; store && counted && i < 2 * SHARED_CHILDREN; i++) {
        struct shared_usage *all = &s->pool[POOL_STREAM].child[i / 2].usage[i % 2];
        if (!all->any)
            continue;
        if (!born)
            born = shared_process_born(mine);
        if (!take_soon(all, mine, born))
            continue;
        counted = count_all(all, store, e);
        shared_usage_give(all);
    }
    return counted;
}

/* Tokens of the user's that are still to be counted. held: some of them are being counted. */
static int64_t due_of(struct shared *s, int64_t user_id, int64_t day, bool *held)
{
    int64_t sum = 0;
    *held = false;
    for (int i = 0; i < 2 * SHARED_CHILDREN * SHARED_USED; i++) {
        const struct shared_usage *all =
            &s->pool[POOL_STREAM].child[i / (2 * SHARED_USED)].usage[i / SHARED_USED % 2];
        const struct shared_used *u = &all->used[i % SHARED_USED];
        if (!all->any || u->user_id != user_id || u->day != day)
            continue;
        sum += u->prompt_tokens + u->completion_tokens;
        *held |= all->holder != 0;
    }
    return sum;
}

bool usage_ledger_used(struct shared *s, struct store *store, const struct usage_of *of,
                       int64_t *tokens, struct err *e)
{
    int64_t before = 0, after = 0, counted = 0;
    bool held = true;
    for (int i = 0; i < SAME_STEPS && (held || before != after); i++) {
        if (i)
            clock_sleep_us(HELD_STEP_US);
        before = due_of(s, of->user_id, of->day, &held);
        if (!store_used_tokens(store, of->user_id, of->day, &counted, e))
            return false;
        after = due_of(s, of->user_id, of->day, &held);
    }
    *tokens = counted + after; /* held for long: by somebody who waits to write */
    return true;
}
