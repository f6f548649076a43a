/* local_engines.h: the rows of the database as engines that there could be, and the file by which
 * the workers know of them. */
#define LOG_MODULE "up"
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/buf.h"
#include "engine/base/clock.h"
#include "engine/base/file.h"
#include "engine/base/log.h"
#include "fcgi/cli/up/local_engines.h"
#include "fcgi/cli/up/local_plan.h"
#include "fcgi/cli/up/supervisor.h"
#include "fcgi/cli/up/up.h"
#include "fcgi/process/state.h"
#include "sql/core/store.h"
#include "sql/models/store_upstreams.h"

struct reading {
    struct local_engines *l;
    bool seen[LOCAL_ENGINES], changed;
};

static struct local_engine *place_of(struct local_engines *l, int64_t id)
{
    for (int i = 0; i < LOCAL_ENGINES; i++)
        if (l->at[i].id == id)
            return &l->at[i];
    return NULL;
}

static void begin_model(struct local_engines *l, struct local_engine *m,
                        const struct store_model *row)
{
    m->id = row->id;
    snprintf(m->name, sizeof m->name, "%s", row->name);
    snprintf(m->path, sizeof m->path, "%s", row->path);
    m->wants_preload = row->preload;
    m->error[0] = 0;
    m->needed = m->device = 0;
    m->gpu[0] = 0;
    m->step = STEP_NONE;
    snprintf(m->child_name, sizeof m->child_name, "engine-%lld", (long long)row->id);
    m->child->name = m->child_name;
    m->slot = &l->shared->local[m - l->at];
    m->slot->wanted_ms = m->slot->unload_ms = m->slot->heard_ms = 0;
    local_engine_enter(m, LOCAL_COLD);
    m->slot->id = row->id; /* last: now others see it */
}

static bool take_row(void *context, const struct store_model *row)
{
    struct reading *at = context;
    struct local_engines *l = at->l;
    if (!row->path || strcmp(row->kind, "chat") != 0)
        return true;
    struct local_engine *m = place_of(l, row->id);
    if (!m && (m = place_of(l, 0))) {
        begin_model(l, m, row);
        at->changed = true;
    }
    if (!m) /* until one that was removed has ended */
        return true;
    at->seen[m - l->at] = true;
    m->pinned = row->pinned;
    m->idle_ms = row->idle_s * 1000;
    m->ctx = row->context;
    snprintf(m->asked_device, sizeof m->asked_device, "%s", row->device ? row->device : "");
    return true;
}

bool local_rows_read(struct local_engines *l)
{
    struct reading at = {.l = l};
    struct err e = {0};
    int64_t version = 0;
    if (!l->store || !store_upstreams_version(l->store, &version, &e) || version == l->version)
        return false;
    if (!store_model_list(l->store, 0, take_row, &at, &e)) {
        log_warn("the list of models can't be read: %s", e.text);
        return false;
    }
    l->version = version;
    for (int i = 0; i < LOCAL_ENGINES; i++) {
        struct local_engine *m = &l->at[i];
        at.changed |= m->id && !m->gone && !at.seen[i];
        m->gone |= m->id && !at.seen[i];
    }
    if (at.changed)
        local_rows_write(l);
    return at.changed;
}

static void put_model(struct buf *b, const struct local_engine *m, bool first)
{
    buf_printf(b, "%s{\"id\":%lld,\"name\":", first ? "" : ",", (long long)m->id);
    buf_json_string(b, m->name, strlen(m->name));
    buf_json_member(b, "path", m->path);
    if (m->error[0])
        buf_json_member(b, "error", m->error);
    buf_putc(b, '}');
}

void local_rows_write(const struct local_engines *l)
{
    char path[4096];
    struct buf b = {0};
    struct err e = {0};
    bool first = true;
    buf_printf(&b, "{\"pid\":%d,\"models\":[", (int)getpid());
    for (int i = 0; i < LOCAL_ENGINES; i++) {
        if (!l->at[i].id || l->at[i].gone)
            continue;
        put_model(&b, &l->at[i], first);
        first = false;
    }
    buf_puts(&b, "]}\n");
    if (b.failed || !file_join(path, sizeof path, l->up->state, STATE_LOCAL_MODELS, &e) ||
        !file_write_atomic(path, b.data, b.len, 0640, &e))
        log_warn("%s", e.text);
    buf_fini(&b);
}

struct keeping {
    struct up *up;
    uint64_t budget;
    struct local_plan first; /* with all of it */
};

/* In what is left to it, the first model still fits, and runs by the same strategy. */
static bool first_fits(const struct keeping *k, uint64_t room)
{
    const struct local_plan_ask ask = {.path = k->up->model, .device = "", .room = room};
    struct local_plan plan;
    struct err ignored;
    return k->first.verdict != LOCAL_FITS || /* it is not for the others to mend that */
           (local_plan_now(k->up, &ask, &plan, &ignored) && plan.verdict == LOCAL_FITS &&
            plan.strategy == k->first.strategy);
}

static bool keep_for(void *context, const struct store_model *row)
{
    const struct keeping *k = context;
    if (!row->path || strcmp(row->kind, "chat") != 0 || (!row->pinned && !row->preload))
        return true;
    const uint64_t room = k->budget > k->up->kept ? k->budget - k->up->kept : 1;
    const struct local_plan_ask ask = {.path = row->path,
                                       .device = row->device ? row->device : "",
                                       .ctx = row->context,
                                       .room = room};
    struct local_plan plan = {0};
    struct err e = {0};
    if (!local_plan_now(k->up, &ask, &plan, &e) || plan.verdict != LOCAL_FITS)
        log_warn("model=%s: no room is kept for it: %s", row->name,
                 e.text[0]      ? e.text
                 : plan.text[0] ? plan.text
                                : "it does not fit");
    else if (plan.needed >= room || !first_fits(k, room - plan.needed))
        log_warn("model=%s: no room is kept for it: the first model needs it", row->name);
    else
        k->up->kept += plan.needed;
    return true;
}

static bool keeps_any(void *context, const struct store_model *row)
{
    *(bool *)context |= row->path && (row->pinned || row->preload);
    return true;
}

bool local_engines_keep_room(struct up *u, struct err *e)
{
    struct keeping k = {.up = u, .budget = local_engines_budget(u)};
    struct err ignored;
    bool any = false;
    k.budget -= u->beside < k.budget ? u->beside : 0;
    struct store *s = store_open(&(struct store_params){.path = u->database}, e);
    bool ok = s && store_model_list(s, 0, keeps_any, &any, e);
    const struct local_plan_ask ask = {.path = u->model, .device = "", .room = k.budget};
    if (any && !local_plan_now(u, &ask, &k.first, &ignored))
        k.first.verdict = LOCAL_UNUSABLE;
    ok = ok && (!any || store_model_list(s, 0, keep_for, &k, e));
    store_close(&s);
    return ok;
}
