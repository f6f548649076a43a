/* upstreams.h: the list is small (at most some hundreds), so each question walks it. */
#define LOG_MODULE "relay"
#include "fcgi/relay/upstreams.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "fcgi/relay/relay_handle.h"
#include "sql/core/secret.h"

/* ---- what the database says */

static void drop(struct upstream *u)
{
    relay_handles_close(u);
    if (u->key)
        secret_wipe(u->key, strlen(u->key));
    free(u->key);
    free(u);
}

static void sweep(struct upstreams *all)
{
    for (struct upstream **at = &all->first; *at;) {
        struct upstream *u = *at;
        if (u->gone && !u->in_flight && !u->probing) {
            *at = u->next;
            drop(u);
        } else {
            at = &u->next;
        }
    }
}

/* What the database says, apart from what is in force until all of it was read. */
struct loading {
    struct upstreams fresh;
    bool failed;
};

static struct upstream *find(struct upstream *first, int64_t id)
{
    while (first && first->id != id)
        first = first->next;
    return first;
}

static bool see(void *context, const struct store_upstream *row)
{
    struct loading *l = context;
    const struct relay_dialect *d = relay_dialect_find(row->dialect);
    struct upstream *u = d ? calloc(1, sizeof *u) : NULL;
    if (!u)
        return !(l->failed = d != NULL);
    *u = (struct upstream){.id = row->id,
                           .dialect = d,
                           .drained = row->drained,
                           .max_streams = row->max_streams,
                           .first_byte_ms = row->first_byte_ms,
                           .idle_ms = row->idle_ms,
                           .next = l->fresh.first};
    snprintf(u->name, sizeof u->name, "%s", row->name);
    snprintf(u->url, sizeof u->url, "%s", row->url);
    l->fresh.first = u;
    return true;
}

static bool see_route(void *context, const struct store_model_route *row)
{
    struct loading *l = context;
    struct upstreams *all = &l->fresh;
    struct upstream *to = find(all->first, row->upstream_id);
    if (all->n_routes == all->cap_routes) {
        const int cap = all->cap_routes ? 2 * all->cap_routes : 32;
        struct upstream_route *grown = realloc(all->routes, (size_t)cap * sizeof *grown);
        if (!grown)
            return !(l->failed = true);
        all->routes = grown;
        all->cap_routes = cap;
    }
    if (!to)
        return true;
    struct upstream_route *r = &all->routes[all->n_routes++];
    *r = (struct upstream_route){
        .model = row->model_id, .to = to, .priority = row->priority, .weight = row->weight};
    snprintf(r->remote, sizeof r->remote, "%s", row->remote);
    return true;
}

static void update(struct upstream *u, const struct upstream *row)
{
    u->gone = false;
    u->turn++;
    u->dialect = row->dialect;
    memcpy(u->name, row->name, sizeof u->name);
    memcpy(u->url, row->url, sizeof u->url);
    u->drained = row->drained;
    u->max_streams = row->max_streams;
    u->first_byte_ms = row->first_byte_ms;
    u->idle_ms = row->idle_ms;
}

/* Those that are known keep how they are; `fresh` is empty after it. */
static void take_over(struct upstreams *all, struct upstreams *fresh)
{
    for (struct upstream *u = all->first; u; u = u->next)
        u->gone = true;
    for (int i = 0; i < fresh->n_routes; i++) {
        struct upstream *known = find(all->first, fresh->routes[i].to->id);
        if (known)
            fresh->routes[i].to = known;
    }
    while (fresh->first) {
        struct upstream *row = fresh->first, *known = find(all->first, row->id);
        fresh->first = row->next;
        if (known) {
            update(known, row);
            drop(row);
        } else {
            row->next = all->first;
            all->first = row;
        }
    }
    free(all->routes);
    all->routes = fresh->routes;
    all->n_routes = fresh->n_routes;
    all->cap_routes = fresh->cap_routes;
    *fresh = (struct upstreams){0};
}

static void load_keys(struct upstreams *all, struct store *s)
{
    static char key[STORE_UPSTREAM_KEY_BYTES + 1];
    for (struct upstream *u = all->first; u; u = u->next) {
        struct err e = {0};
        if (u->gone)
            continue;
        if (!store_upstream_key(s, u->id, key, &e)) {
            upstream_failed(all, u, true, e.text);
            key[0] = 0;
        }
        if (u->key)
            secret_wipe(u->key, strlen(u->key));
        free(u->key);
        u->turn++;
        u->key = key[0] ? strdup(key) : NULL;
    }
    secret_wipe(key, sizeof key);
}

bool upstreams_load(struct upstreams *all, struct store *s, bool anyhow, struct err *e)
{
    struct loading l = {0};
    int64_t version = 0;
    if (!store_upstreams_version(s, &version, e))
        return false;
    if (version == all->version && !anyhow)
        return true;
    bool ok = store_upstream_list(s, see, &l, e) && store_model_route_list(s, see_route, &l, e) &&
              (!l.failed || err_set(e, ERR_NOMEM, "no memory for the list of upstreams"));
    if (!ok) {
        upstreams_fini(&l.fresh);
        return false;
    }
    take_over(all, &l.fresh);
    load_keys(all, s);
    sweep(all);
    all->version = version;
    all->changed = true;
    return true;
}

void upstreams_fini(struct upstreams *all)
{
    while (all->first) {
        struct upstream *u = all->first;
        all->first = u->next;
        drop(u);
    }
    free(all->routes);
    *all = (struct upstreams){0};
}

/* ---- the choice */

/* What one upstream and one affinity are to each other: the same in each process and after each
 * restart, and an upstream that comes or goes moves only its own share. */
static double score(const struct upstream_route *r, uint64_t affinity)
{
    uint64_t h = affinity ^ ((uint64_t)r->to->id * 0x9E3779B97F4A7C15u);
    h = (h ^ (h >> 30)) * 0xBF58476D1CE4E5B9u;
    h = (h ^ (h >> 27)) * 0x94D049BB133111EBu;
    h ^= h >> 31;
    const double unit = ((double)(h >> 11) + 0.5) / 9007199254740992.0; /* 2^53 */
    return (double)r->weight / -log(unit);
}

static bool was_tried(const struct upstream_wish *w, int64_t id)
{
    for (int i = 0; i < w->n_tried; i++)
        if (w->tried[i] == id)
            return true;
    return false;
}

static bool breaker_is_open(const struct upstream *u, double now)
{
    return u->open_until > 0 && (now < u->open_until || u->trying);
}

static bool has_room(const struct upstream *u, double now)
{
    return (!u->max_streams || u->in_flight < u->max_streams) && now >= u->busy_until;
}

/* May this route be taken? *full and *down: why not. */
static bool usable(const struct upstream_route *r, const struct upstream_wish *w, bool *full,
                   bool *down)
{
    const struct upstream *u = r->to;
    if (r->model != w->model || u->gone || (w->only ? w->only != u->id : u->drained))
        return false;
    if (was_tried(w, u->id) || (!w->only && breaker_is_open(u, w->now))) {
        *down = true;
        return false;
    }
    if (!has_room(u, w->now)) {
        *full = true;
        return false;
    }
    return true;
}

/* What runs on the upstreams of one priority: a quarter more than its share is too much for one. */
struct crowd {
    double running, weight;
};

static bool is_crowded(const struct upstream_route *r, const struct crowd *c)
{
    const double share = c->weight > 0 ? (double)r->weight / c->weight : 1;
    return r->to->in_flight + 1 > 1.25 * share * (c->running + 1) + 1;
}

static bool is_better(const struct upstream_route *a, const struct upstream_route *b,
                      const struct upstream_wish *w, const struct crowd *c)
{
    if (w->affinity) {
        const bool x = is_crowded(a, c), y = is_crowded(b, c);
        return x != y ? y : score(a, w->affinity) > score(b, w->affinity);
    }
    const double load_a = (a->to->in_flight + 1) / (double)a->weight,
                 load_b = (b->to->in_flight + 1) / (double)b->weight;
    return load_a != load_b ? load_a < load_b : a->to->requests < b->to->requests;
}

enum upstream_choice upstreams_choose(struct upstreams *all, const struct upstream_wish *wish,
                                      struct upstream_route **out)
{
    bool full = false, down = false;
    int64_t lowest = INT64_MAX;
    struct crowd crowd = {0};
    *out = NULL;
    for (int i = 0; i < all->n_routes; i++) {
        const struct upstream_route *r = &all->routes[i];
        if (usable(r, wish, &full, &down) && r->priority < lowest)
            lowest = r->priority;
    }
    for (int i = 0; i < all->n_routes; i++) {
        const struct upstream_route *r = &all->routes[i];
        if (r->priority != lowest || !usable(r, wish, &full, &down))
            continue;
        crowd.running += r->to->in_flight;
        crowd.weight += (double)r->weight;
    }
    for (int i = 0; i < all->n_routes; i++) {
        struct upstream_route *r = &all->routes[i];
        if (r->priority == lowest && usable(r, wish, &full, &down) &&
            (!*out || is_better(r, *out, wish, &crowd)))
            *out = r;
    }
    if (*out)
        return UPSTREAM_CHOSEN;
    return full ? UPSTREAM_FULL : down ? UPSTREAM_DOWN : UPSTREAM_NONE;
}

/* ---- how they are */

static void close_breaker(struct upstreams *all, struct upstream *u)
{
    if (u->open_until > 0) {
        log_info("upstream=%s is well again", u->name);
        all->turned = true;
    }
    u->open_until = 0;
    u->trying = false;
    all->changed = true;
}

void upstream_succeeded(struct upstreams *all, struct upstream *u)
{
    close_breaker(all, u);
    u->failures = 0;
    u->open_ms = 0;
}

void upstream_answers(struct upstreams *all, struct upstream *u)
{
    close_breaker(all, u);
    if (u->failures >= UPSTREAM_FAILURES)
        u->failures = UPSTREAM_FAILURES - 1;
}

static void note_failure(struct upstreams *all, struct upstream *u, const char *why)
{
    u->errors++;
    u->failed_at = clock_wall_ms();
    snprintf(u->last_error, sizeof u->last_error, "%s", why);
    all->changed = true;
}

static void open_breaker(struct upstreams *all, struct upstream *u, bool longer)
{
    if (u->open_until <= 0)
        log_warn("upstream=%s gets no more requests for now: %s", u->name, u->last_error);
    if (longer)
        u->open_ms = u->open_ms > 0 ? fmin(2 * u->open_ms, UPSTREAM_OPEN_MAX_MS) : UPSTREAM_OPEN_MS;
    u->open_until = clock_ms() + u->open_ms;
    u->trying = false;
    all->turned = true;
}

void upstream_failed(struct upstreams *all, struct upstream *u, bool down, const char *why)
{
    const bool was_open = u->open_until > 0;
    u->failures += !down && u->failures < UPSTREAM_FAILURES;
    note_failure(all, u, why);
    if (down || was_open || u->failures >= UPSTREAM_FAILURES)
        open_breaker(all, u, !was_open || u->trying);
}

void upstream_probed(struct upstreams *all, struct upstream *u, bool down, const char *why)
{
    u->probed_at = clock_wall_ms();
    u->probe_ok = !why;
    all->changed = true;
    if (why) {
        u->probe_failures++;
        note_failure(all, u, why);
        if (down || u->open_until > 0 || u->probe_failures >= UPSTREAM_FAILURES)
            open_breaker(all, u, true);
        return;
    }
    u->probe_failures = 0;
    if (u->open_until > 0 && u->failures < UPSTREAM_FAILURES) {
        close_breaker(all, u);
        u->open_ms = 0;
    }
    u->trying = false; /* one that hangs does not keep the next from trying */
}

void upstream_is_busy(struct upstreams *all, struct upstream *u, double ms)
{
    u->busy_until = clock_ms() + fmin(fmax(ms, 100), UPSTREAM_BUSY_MAX_MS);
    all->changed = true;
}

void upstream_release(struct upstreams *all, struct upstream *u)
{
    u->in_flight--;
    all->changed = true;
    sweep(all);
}

const char *upstream_state(const struct upstream *u, double now)
{
    if (u->drained)
        return "drained";
    if (u->open_until > 0)
        return u->trying || now >= u->open_until ? "trying" : "open";
    return now < u->busy_until ? "busy" : "ok";
}

void upstreams_put_status(struct buf *out, const struct upstreams *all)
{
    const double now = clock_ms();
    const char *comma = "";
    buf_putc(out, '[');
    for (const struct upstream *u = all->first; u; u = u->next) {
        if (u->gone)
            continue;
        buf_printf(out, "%s{\"id\":%lld,\"state\":\"%s\",\"in_flight\":%d", comma, (long long)u->id,
                   upstream_state(u, now), u->in_flight);
        buf_json_member(out, "name", u->name);
        buf_printf(out,
                   ",\"requests\":%llu,\"errors\":%llu,\"prompt_tokens\":%llu,\"completion_tokens\""
                   ":%llu,\"first_byte_ms\":%.1f,\"probed_at\":%lld,\"probe_ok\":%s",
                   (unsigned long long)u->requests, (unsigned long long)u->errors,
                   (unsigned long long)u->prompt_tokens, (unsigned long long)u->completion_tokens,
                   u->first_ms, (long long)u->probed_at, u->probe_ok ? "true" : "false");
        buf_printf(out, ",\"failed_at\":%lld", (long long)u->failed_at);
        buf_json_member(out, "last_error", u->last_error[0] ? u->last_error : NULL);
        buf_putc(out, '}');
        comma = ",";
    }
    buf_putc(out, ']');
}
