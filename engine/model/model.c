/* Opens a model: its source (files mapped, tables read), the family that fills the plan, the check
 * of values, the counts. Everything that the plan points into belongs to the model. */
#include "engine/model/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "engine/base/arena.h"
#include "engine/base/hash.h"
#include "engine/base/json/json.h"
#include "engine/model/family.h"
#include "engine/model/model_source.h"
#include "engine/model/model_stats.h"
#include "engine/model/next_layer.h"
#include "engine/model/plan_weights.h"
#include "engine/model/pooling.h"

#define PATH_BYTES 4096

struct model {
    struct arena *arena; /* names, vectors, layers, tables */
    struct model_source source;
    struct model_plan plan;
    struct model_stats stats;
    const char **unused;
    int n_unused;
    struct model *next;        /* model_next: only plan and stats are its own; NULL: none */
    const struct model *owner; /* of a next one: whose files they are; NULL: its own */
    struct err next_why;
};

/* generation_config.json may name more end tokens than config.json; a broken one is the text side's
 * affair. */
static void add_generation_eos(struct model *m, const char *folder)
{
    char path[PATH_BYTES];
    struct err ignored = {0};
    cJSON *root = NULL;
    if (file_join(path, sizeof path, folder, "generation_config.json", &ignored) &&
        file_exists(path))
        root = json_parse_file(path, 1 << 20, &ignored);
    if (root)
        family_add_eos(&m->plan, json_member(root, "eos_token_id"));
    cJSON_Delete(root);
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static bool list_unused(struct model *m, struct err *e)
{
    int n = 0;
    for (int32_t i = 0; i < m->source.tensors.n; i++)
        n += !m->source.tensors.at[i].used;
    m->stats.n_unused_tensors = n;
    m->unused =
        arena_alloc(m->arena, (size_t)(n + m->source.files.n_skipped + 1) * sizeof *m->unused);
    if (!m->unused)
        return err_set(e, ERR_NOMEM, "no memory for the list of unused tensors");
    for (int32_t i = 0; i < m->source.tensors.n; i++)
        if (!m->source.tensors.at[i].used)
            m->unused[m->n_unused++] = m->source.tensors.at[i].name;
    qsort(m->unused, (size_t)m->n_unused, sizeof *m->unused, by_text);
    for (int i = 0; i < m->source.files.n_skipped; i++)
        m->unused[m->n_unused++] = m->source.files.skipped[i];
    return true;
}

/* All of it stays resident, its experts too. */
static void count_next(struct model_stats *f, const struct model_plan *plan)
{
    model_stats_from_plan(f, plan);
    f->dense_bytes += f->expert_bytes;
    f->expert_bytes = 0;
}

/* A model runs without its next-token layer, too. False: no memory. */
static bool build_next(struct model *m, const struct family *family, const struct binder *b,
                       struct err *e)
{
    const int32_t n = m->source.tensors.n;
    bool *used = calloc((size_t)n + 1, sizeof *used);
    m->next = calloc(1, sizeof *m->next);
    if (!m->next || !used) {
        free(used);
        return err_set(e, ERR_NOMEM, "no memory for a model");
    }
    for (int32_t i = 0; i < n; i++)
        used[i] = m->source.tensors.at[i].used;
    if (next_layer_build(family, &m->source.config, b, &m->plan, &m->next->plan, &m->next_why) &&
        plan_check_values(&m->next->plan, &m->next_why)) {
        count_next(&m->next->stats, &m->next->plan);
        m->next->owner = m;
    } else {
        for (int32_t i = 0; i < n; i++)
            m->source.tensors.at[i].used = used[i];
        free(m->next);
        m->next = NULL;
    }
    free(used);
    return true;
}

static bool build(struct model *m, struct err *e)
{
    const struct family *family = family_find(&m->source.config, e);
    if (!family)
        return false;
    struct binder b;
    bind_init(&b, &m->source.tensors, &m->source.config, m->arena);
    if (!family_build(family, &m->source.config, &b, &m->plan, e) ||
        !plan_check_values(&m->plan, e) || !build_next(m, family, &b, e))
        return false;
    model_stats_from_plan(&m->stats, &m->plan);
    m->stats.copied_bytes = b.copied_bytes;
    m->stats.n_files = m->source.n_maps;
    m->stats.file_bytes = m->source.file_bytes;
    m->stats.n_tensors = m->source.tensors.n;
    m->plan.fingerprint = plan_fingerprint(&m->plan, model_source_config_hash(&m->source));
    return list_unused(m, e);
}

struct model *model_open_drafter(const char *path, struct err *e)
{
    struct model *m = calloc(1, sizeof *m);
    if (!m || !(m->arena = arena_create(0))) {
        free(m);
        err_set(e, ERR_NOMEM, "no memory for a model");
        return NULL;
    }
    bool ok = model_source_open(&m->source, path, m->arena, e) && build(m, e) &&
              pooling_read(&m->source.config, path, &m->plan, e);
    if (!ok) {
        model_close(&m);
        return NULL;
    }
    add_generation_eos(m, path);
    return m;
}

struct model *model_open(const char *path, struct err *e)
{
    struct model *m = model_open_drafter(path, e);
    if (!m || !m->plan.shares_ends)
        return m;
    err_set(e, ERR_UNSUPPORTED,
            "it is a DFlash drafter, which runs beside the model that it was trained for: "
            "--draft-model names it there");
    model_close(&m);
    return NULL;
}

void model_close(struct model **pm)
{
    struct model *m = *pm;
    if (!m)
        return;
    free(m->next);
    model_source_close(&m->source);
    arena_destroy(&m->arena);
    free(m);
    *pm = NULL;
}

const struct model_plan *model_plan(const struct model *m)
{
    return &m->plan;
}

struct model *model_next(const struct model *m, struct err *why)
{
    if (!m->next)
        *why = m->next_why;
    return m->next;
}

void model_next_share(struct model *next, const struct model_plan *from)
{
    next->plan.embed = from->embed;
    next->plan.head = from->head;
}

bool model_limit_experts(struct model *m, int32_t n, struct err *e)
{
    struct model_stats stats = {0};
    bool moe = false, less = false;
    for (int32_t i = 0; i < m->plan.n_layer; i++) {
        struct moe_plan *layer = &m->plan.layers[i].moe;
        if (m->plan.layers[i].ffn != FFN_MOE)
            continue;
        moe = true;
        if (n < 1 || n >= layer->n_used)
            continue;
        layer->n_used = n;
        less = true;
    }
    if (!moe || n < 1)
        return err_field(e, ERR_INPUT, "experts-per-token",
                         moe ? "%d experts, want 1 or more"
                             : "%d is asked for, but "
                               "the model has no experts",
                         n);
    if (!less)
        return true;
    model_stats_from_plan(&stats, &m->plan);
    m->stats.active_bytes = stats.active_bytes;
    m->stats.active_parameters = stats.active_parameters;
    m->plan.fingerprint = hash64(&n, sizeof n, m->plan.fingerprint);
    return true;
}

const struct model_stats *model_stats(const struct model *m)
{
    return &m->stats;
}

const char *model_unused(const struct model *m, int i)
{
    return i >= 0 && i < m->n_unused ? m->unused[i] : NULL;
}

bool model_mapping(const struct model *m, int i, const void **start, size_t *len)
{
    if (i < 0 || i >= m->source.n_maps)
        return false;
    *start = m->source.maps[i].data;
    *len = m->source.maps[i].size;
    return true;
}

const char *model_file(const struct model *m, int i)
{
    return i >= 0 && i < m->source.n_maps ? m->source.paths[i] : NULL;
}

void model_drop(const struct model *m, const void *from, size_t bytes)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE),
                    first = ((uintptr_t)from + page - 1) & ~(page - 1),
                    end = ((uintptr_t)from + bytes) & ~(page - 1);
    const struct model *owner = m->owner ? m->owner : m;
    const void *start;
    size_t len;
    for (int i = 0; first < end && model_mapping(owner, i, &start, &len); i++) {
        const uintptr_t at = (uintptr_t)start;
        if (first >= at && end <= at + len)
            madvise((void *)first, end - first, MADV_DONTNEED);
    }
}
