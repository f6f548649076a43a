/* usage_ledger.h: sums of few users, keys and days a process; where there are more, each is counted
 * at once. */
#include "fcgi/auth/usage_ledger.h"

#include <stdio.h>
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

static void put(struct shared_used *u, const struct store_usage *row, uint64_t answer)
{
    const uint64_t valid = u->newest & 1;
    struct shared_sums *from = &u->sums[valid], *to = &u->sums[!valid];
    if (!is_of(u, row)) {
        from->requests = from->prompt_tokens = from->cached_tokens = from->completion_tokens = 0;
        u->key_id = row->key_id;
        u->day = row->day;
        u->user_id = row->user_id;
    }
    to->requests = from->requests + row->requests;
    to->prompt_tokens = from->prompt_tokens + row->prompt_tokens;
    to->cached_tokens = from->cached_tokens + row->cached_tokens;
    to->completion_tokens = from->completion_tokens + row->completion_tokens;
    u->newest = answer << 1 | !valid; /* now it counts */
}

/* False: others hold it, or it is full. */
static bool add(struct shared_usage *all, const struct shared_child *slot,
                const struct store_usage *row)
{
    if (!shared_usage_take(&all->holder, getpid(), slot->born))
        return false;
    struct shared_used *u = all->batch ? NULL : place_of(all, row);
    if (u) {
        all->any = 1;
        put(u, row, slot->answer);
    }
    shared_usage_give(&all->holder);
    return u != NULL;
}

bool usage_ledger_add(struct shared_child *slot, struct store *store, const struct store_usage *row,
                      struct err *e)
{
    struct store_usage of_day = *row;
    of_day.day = clock_wall_s() / DAY_S;
    return (slot && (add(&slot->usage[0], slot, &of_day) || add(&slot->usage[1], slot, &of_day))) ||
           store_usage_add(store, &of_day, e);
}

bool usage_ledger_has(const struct shared_child *slot)
{
    for (int i = 0; i < 2 * SHARED_USED; i++)
        if (slot->usage[i / SHARED_USED].used[i % SHARED_USED].newest >> 1 == slot->answer)
            return true; /* also where it was counted since: `newest` stays */
    return false;
}

static int rows_of(const struct shared_usage *all, struct store_usage rows[SHARED_USED])
{
    int n = 0;
    for (int i = 0; i < SHARED_USED; i++) {
        const struct shared_used *u = &all->used[i];
        const struct shared_sums *sums = &u->sums[u->newest & 1];
        if (u->user_id && sums->requests) /* else nothing was added to it yet */
            rows[n++] = (struct store_usage){.user_id = u->user_id,
                                             .key_id = u->key_id,
                                             .day = u->day,
                                             .requests = sums->requests,
                                             .prompt_tokens = sums->prompt_tokens,
                                             .cached_tokens = sums->cached_tokens,
                                             .completion_tokens = sums->completion_tokens};
    }
    return n;
}

static void clear(struct shared_usage *all)
{
    for (int i = 0; i < SHARED_USED; i++)
        all->used[i].user_id = 0;
    all->batch = 0;
    all->any = 0;
}

/* No two of one database have the same, since each page draws a number. */
static void name_batch(char name[64], const struct shared *s, uint64_t batch)
{
    snprintf(name, 64, "\"%016llx.%llu\"", (unsigned long long)s->via_id,
             (unsigned long long)batch);
}

/* Of one who was killed while it counted the row. */
static bool was_added(const struct shared *s, const struct shared_usage *all, struct store *store,
                      bool *added, struct err *e)
{
    char name[64];
    *added = false;
    name_batch(name, s, all->batch);
    return !all->batch || store_usage_last_batch(store, name, added, e);
}

/* The database names the batch that it has got last, so that one who is killed between its getting
 * there and the row's clearing does not have it counted twice. */
static bool count_row(struct shared *s, struct shared_usage *all, struct store *store,
                      struct err *e)
{
    char name[64];
    struct store_usage rows[SHARED_USED];
    bool added;
    if (!was_added(s, all, store, &added, e))
        return false;
    if (added) {
        clear(all);
        s->usage_moves += s->usage_moves & 1;
        return true;
    }
    const int n = rows_of(all, rows);
    s->usage_moves = (s->usage_moves + 1) | 1;
    all->batch = s->usage_moves;
    name_batch(name, s, all->batch);
    const struct store_usage_batch batch = {.name = name, .rows = rows, .n = n};
    const bool counted = !n || store_usage_add_batch(store, &batch, e);
    if (counted)
        clear(all);
    else
        all->batch = 0;
    s->usage_moves++;
    return counted;
}

/* Waits for another who has it just now. */
static bool take_soon(_Atomic uint64_t *holder, pid_t mine, int64_t born)
{
    bool held = shared_usage_take(holder, mine, born);
    for (int i = 0; !held && i < HELD_STEPS; i++) {
        clock_sleep_us(HELD_STEP_US);
        held = shared_usage_take(holder, mine, born);
    }
    return held;
}

bool usage_ledger_is_left(const struct shared_child *slot, uint64_t answer)
{
    return slot->answer == answer && shared_process_gone(slot->usage_pid, slot->usage_born);
}

static bool adopt(struct shared_usage *all, struct shared_child *slot, uint64_t answer,
                  const struct store_usage *row)
{
    const pid_t mine = getpid();
    if (!take_soon(&all->holder, mine, shared_process_born(mine)))
        return false;
    struct shared_used *u = all->batch ? NULL : place_of(all, row);
    if (u && usage_ledger_is_left(slot, answer) &&
        atomic_exchange(&slot->user_id, 0)) { /* of several who look, one takes it */
        all->any = 1;
        put(u, row, answer);
    }
    shared_usage_give(&all->holder);
    return u != NULL;
}

bool usage_ledger_adopt(struct shared_child *slot, uint64_t answer, const struct store_usage *row)
{
    struct store_usage of_day = *row;
    of_day.day = clock_wall_s() / DAY_S;
    return adopt(&slot->usage[0], slot, answer, &of_day) ||
           adopt(&slot->usage[1], slot, answer, &of_day);
}

static struct shared_usage *row_at(struct shared *s, int i)
{
    return &s->pool[POOL_STREAM].child[i / 2].usage[i % 2];
}

/* Two for each process. */
static int n_rows(const struct shared *s)
{
    return 2 * s->pool[POOL_STREAM].n_rows;
}

static bool is_empty(struct shared *s)
{
    for (int i = 0; i < n_rows(s); i++)
        if (row_at(s, i)->any)
            return false;
    return true;
}

/* One at a time, so that of a process's two rows it has one always. */
bool usage_ledger_count(struct shared *s, struct store *store, struct err *e)
{
    bool counted = true;
    if (!store || is_empty(s))
        return true;
    const pid_t mine = getpid();
    const int64_t born = shared_process_born(mine);
    if (!take_soon(&s->usage_counter, mine, born))
        return true; /* another counts them */
    for (int i = 0; counted && i < n_rows(s); i++) {
        struct shared_usage *all = row_at(s, i);
        if (!all->any || !take_soon(&all->holder, mine, born))
            continue;
        counted = count_row(s, all, store, e);
        shared_usage_give(&all->holder);
    }
    shared_usage_give(&s->usage_counter);
    return counted;
}

int64_t usage_ledger_due(struct shared *s, const struct usage_of *of)
{
    int64_t sum = 0;
    for (int i = 0; i < n_rows(s); i++) {
        const struct shared_usage *all = row_at(s, i);
        for (int k = 0; all->any && k < SHARED_USED; k++) {
            const struct shared_used *u = &all->used[k];
            const struct shared_sums *sums = &u->sums[u->newest & 1];
            if (u->user_id == of->user_id && u->day == of->day)
                sum += sums->prompt_tokens + sums->completion_tokens;
        }
    }
    return sum;
}

/* What is due is read first: what goes to the database meanwhile is seen twice rather than never,
 * and that only where it goes there all the time, or waits for long. */
bool usage_ledger_used(struct shared *s, struct store *store, const struct usage_of *of,
                       int64_t *tokens, struct err *e)
{
    uint64_t moves = 1;
    int64_t due = 0, counted = 0;
    for (int i = 0; i < SAME_STEPS && (moves & 1 || moves != s->usage_moves); i++) {
        if (i)
            clock_sleep_us(HELD_STEP_US);
        moves = s->usage_moves;
        due = usage_ledger_due(s, of);
        if (!store_used_tokens(store, of->user_id, of->day, &counted, e))
            return false;
    }
    *tokens = counted + due;
    return true;
}
