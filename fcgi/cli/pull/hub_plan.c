/* Plans a model of which only the heads are here. */
#include "fcgi/cli/pull/hub_plan.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/buf.h"
#include "engine/base/size_text.h"
#include "engine/memory/memory_text.h"
#include "engine/model/model.h"
#include "fcgi/cli/pull/hub_probe.h"

const char *hub_verdict_name(enum hub_verdict v)
{
    static const char *const names[HUB_VERDICT__N] = {"unknown", "unsupported", "too_large",
                                                      "streams", "fits"};
    return names[v];
}

void hub_plan_say_json(struct hub_plan *h, const struct pull *p, const struct memory_load *l)
{
    struct buf b = {0};
    buf_puts(&b, "{\"repo\":");
    buf_json_string(&b, p->repo, strlen(p->repo));
    buf_json_member(&b, "commit", p->commit);
    buf_puts(&b, ",\"files\":[");
    for (size_t i = 0; i < p->n_files; i++) {
        buf_puts(&b, i ? "," : "");
        buf_json_string(&b, p->files[i].name, strlen(p->files[i].name));
    }
    buf_printf(&b,
               "],\"bytes\":%" PRId64 ",\"fetched_bytes\":%" PRId64
               ",\"verdict\":\"%s\",\"plan\":{\"backend\":\"%s\",",
               h->bytes, h->fetched, hub_verdict_name(h->verdict), l->plan.backend);
    memory_plan_json(&l->plan, &l->estimate, &b);
    buf_puts(&b, "}}");
    if (!b.failed)
        puts(b.data);
    buf_fini(&b);
    fflush(stdout);
}

static void say_table(struct hub_plan *h, const struct pull *p, const struct memory_load *l)
{
    struct buf b = {0};
    char whole[SIZE_TEXT], fetched[SIZE_TEXT];
    size_text((double)h->bytes, whole);
    size_text((double)h->fetched, fetched);
    printf("%s at %.12s: %zu file%s, %s (%s of them were read to plan)\n", p->repo, p->commit,
           p->n_files, p->n_files == 1 ? "" : "s", whole, fetched);
    for (size_t i = 0; i < p->n_files && p->n_files <= 4; i++)
        printf("  %s\n", p->files[i].name);
    memory_plan_table(&l->plan, &l->estimate, &b);
    printf("here\n%s", b.data ? b.data : "");
    buf_fini(&b);
    fflush(stdout);
}

/* The reason quotes what a stranger's file says: nothing of it may steer a terminal. */
static void defuse(char *text)
{
    for (unsigned char *c = (unsigned char *)text; *c; c++)
        if (*c < 32 || *c == 127 || (*c == 0xc2 && c[1] >= 0x80 && c[1] < 0xa0))
            *c = '?';
}

static bool plan(struct hub_plan *h, const struct pull *p, const char *folder, struct err *e)
{
    struct memory_load l;
    struct memory_request w = {.size = {h->ctx, h->slots, h->prefill_chunk, h->kv_memory},
                               .n_threads = (int32_t)h->threads,
                               .exact = h->exact,
                               .speculates = h->speculates,
                               .ram_returned = h->ram_returned,
                               .gpu_returned = h->gpu_returned};
    struct model *m = model_open(folder, e);
    h->verdict = HUB_UNSUPPORTED;
    if (!m) {
        defuse(e->text);
        return err_prefix(e, "this model is not for Sluice, and nothing was loaded");
    }
    int32_t experts = (int32_t)h->memory.experts_per_token;
    memory_options_request(&h->memory, &w);
    bool ok = !experts || model_limit_experts(m, experts, e);
    if (ok) {
        h->verdict = HUB_TOO_LARGE;
        ok = memory_load_plan(&l, m, h->backend, &w, e) ||
             err_prefix(e, "it can't run here, and nothing was loaded");
    }
    if (ok) {
        h->verdict = l.plan.strategy == STRATEGY_SSD_STREAMING ? HUB_STREAMS : HUB_FITS;
        l.probe_folder = folder;
        memory_load_measure(&l, h->cache_dir);
        (h->say ? h->say : say_table)(h, p, &l);
        memory_load_close(&l);
    }
    model_close(&m);
    return ok;
}

bool hub_plan_show(void *context, struct pull *p, bool *more, struct err *e)
{
    struct hub_plan *h = context;
    char folder[PULL_PATH_SIZE];
    h->verdict = HUB_UNKNOWN;
    h->bytes = h->fetched = 0;
    for (size_t i = 0; i < p->n_files; i++)
        h->bytes += p->files[i].size;
    *more = !h->only;
    if (snprintf(folder, sizeof folder, "%s.heads", p->out) >= (int)sizeof folder)
        return err_field(e, ERR_LIMIT, "out", "is too long");
    bool ok = hub_probe_make(p, folder, &h->fetched, e) && plan(h, p, folder, e);
    hub_probe_remove(p, folder);
    return ok;
}
