/* Opens a model: finds its files, maps them, reads their tensor tables, lets the family fill the plan, checks
 * values, counts. Everything that the plan points into belongs to the model. */
#include "engine/model/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/arena.h"
#include "engine/base/file.h"
#include "engine/base/hash.h"
#include "engine/base/json.h"
#include "engine/model/facts.h"
#include "engine/model/family.h"
#include "engine/model/safetensors.h"
#include "engine/model/weight_files.h"

#define PATH_BYTES 4096

struct model {
    struct arena *arena; /* names, vectors, layers, tables */
    struct file_map *maps;
    const char **map_names;
    int n_maps;
    struct tensor_table tensors;
    struct weight_files files;
    struct config config;
    struct model_plan plan;
    struct model_facts facts;
    const char **unused;
    int n_unused;
};

/* --- folders --- */

/* Which shard the index gives each tensor to: one that two shards hold counts where the index says. */
struct shard_filter {
    struct tensor_table where; /* only name and file are used */
    int file;
};

static bool wanted(void *context, const char *name)
{
    const struct shard_filter *f = context;
    const struct tensor *t = tensor_table_find(&f->where, name);
    return !t || t->file == f->file;
}

static int file_number(const struct weight_files *f, const char *name)
{
    for (int i = 0; i < f->n; i++)
        if (!strcmp(f->names[i], name))
            return i;
    return -1;
}

static bool read_index(const struct weight_files *f, struct tensor_table *where, struct err *e)
{
    const cJSON *one;
    const char *last = "";
    int number = -1;
    cJSON_ArrayForEach(one, f->map) {
        if (strcmp(last, one->valuestring)) /* a shard's tensors stand in a row, mostly */
            number = file_number(f, last = one->valuestring);
        if (!tensor_table_add(where, &(struct tensor){.name = one->string, .file = number}, e))
            return err_prefix(e, "index");
    }
    return true;
}

static bool read_shards(struct model *m, const char *folder, struct err *e)
{
    struct shard_filter filter = {0};
    tensor_table_init(&filter.where, m->arena);
    bool ok = !m->files.map || read_index(&m->files, &filter.where, e);
    for (int i = 0; ok && i < m->files.n; i++) {
        char path[PATH_BYTES];
        const char *name = m->files.names[i];
        struct file_map *map = &m->maps[i];
        filter.file = i;
        ok = file_join(path, sizeof path, folder, name, e) && file_map(path, map, e);
        if (ok) {
            m->map_names[m->n_maps++] = name;
            m->facts.file_bytes += map->size;
            ok = safetensors_read(map->data, map->size, i, wanted, &filter, &m->tensors, e);
        }
        if (!ok)
            err_prefix(e, "%s", name);
    }
    tensor_table_fini(&filter.where);
    return ok;
}

static bool open_folder(struct model *m, const char *folder, struct err *e)
{
    char path[PATH_BYTES];
    if (!file_join(path, sizeof path, folder, "config.json", e) || !config_open(&m->config, path, e) ||
        !weight_files_find(&m->files, folder, m->arena, e))
        return false;
    m->maps = calloc((size_t)m->files.n, sizeof *m->maps);
    m->map_names = arena_alloc(m->arena, (size_t)m->files.n * sizeof *m->map_names);
    if (!m->maps || !m->map_names)
        return err_set(e, ERR_NOMEM, "no memory for %d files", m->files.n);
    return read_shards(m, folder, e);
}

/* generation_config.json may name more end tokens than config.json; a broken one is the text side's affair. */
static void add_generation_eos(struct model *m, const char *folder)
{
    char path[PATH_BYTES];
    struct err ignored = {0};
    cJSON *root = NULL;
    if (file_join(path, sizeof path, folder, "generation_config.json", &ignored) && file_exists(path))
        root = json_parse_file(path, 1 << 20, &ignored);
    if (root)
        family_add_eos(&m->plan, json_member(root, "eos_token_id"));
    cJSON_Delete(root);
}

/* --- all kinds --- */

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static bool list_unused(struct model *m, struct err *e)
{
    int n = 0;
    for (int32_t i = 0; i < m->tensors.n; i++)
        n += !m->tensors.at[i].used;
    m->facts.n_unused_tensors = n;
    m->unused = arena_alloc(m->arena, (size_t)(n + m->files.n_passed + 1) * sizeof *m->unused);
    if (!m->unused)
        return err_set(e, ERR_NOMEM, "no memory for the list of unused tensors");
    for (int32_t i = 0; i < m->tensors.n; i++)
        if (!m->tensors.at[i].used)
            m->unused[m->n_unused++] = m->tensors.at[i].name;
    qsort(m->unused, (size_t)m->n_unused, sizeof *m->unused, by_text);
    for (int i = 0; i < m->files.n_passed; i++)
        m->unused[m->n_unused++] = m->files.passed[i];
    return true;
}

static uint64_t config_hash(const struct config *c)
{
    struct buf text = {0};
    uint64_t h = 0;
    if (c->root && json_write(&text, c->root))
        h = hash64(text.data, text.len, 0);
    buf_fini(&text);
    return h;
}

static bool build(struct model *m, struct err *e)
{
    const struct family *family = family_find(&m->config, e);
    if (!family)
        return false;
    struct binder b;
    bind_init(&b, &m->tensors, &m->config, m->arena);
    if (!family_build(family, &m->config, &b, &m->plan, e) || !plan_check_values(&m->plan, e))
        return false;
    facts_from_plan(&m->facts, &m->plan);
    m->facts.n_files = m->n_maps;
    m->facts.n_tensors = m->tensors.n;
    m->plan.fingerprint = plan_fingerprint(&m->plan, config_hash(&m->config));
    return list_unused(m, e);
}

struct model *model_open(const char *path, struct err *e)
{
    struct model *m = calloc(1, sizeof *m);
    if (!m || !(m->arena = arena_create(0))) {
        free(m);
        err_set(e, ERR_NOMEM, "no memory for a model");
        return NULL;
    }
    tensor_table_init(&m->tensors, m->arena);
    bool ok = file_is_dir(path) ? open_folder(m, path, e)
                                : err_set(e, ERR_UNSUPPORTED, "not a model folder; GGUF files are not read yet");
    ok = ok && build(m, e);
    if (!ok) {
        model_close(&m);
        return NULL;
    }
    add_generation_eos(m, path);
    return m;
}

void model_close(struct model **pm)
{
    struct model *m = *pm;
    if (!m)
        return;
    for (int i = 0; i < m->n_maps; i++)
        file_unmap(&m->maps[i]);
    free(m->maps);
    weight_files_fini(&m->files);
    config_close(&m->config);
    tensor_table_fini(&m->tensors);
    arena_destroy(&m->arena);
    free(m);
    *pm = NULL;
}

const struct model_plan *model_plan(const struct model *m)
{
    return &m->plan;
}

const struct model_facts *model_facts(const struct model *m)
{
    return &m->facts;
}

const char *model_unused(const struct model *m, int i)
{
    return i >= 0 && i < m->n_unused ? m->unused[i] : NULL;
}

bool model_mapping(const struct model *m, int i, const void **start, size_t *len)
{
    if (i < 0 || i >= m->n_maps)
        return false;
    *start = m->maps[i].data;
    *len = m->maps[i].size;
    return true;
}
