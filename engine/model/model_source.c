/* Opens folders of safetensors, and holds what both kinds of sources share. */
#include "engine/model/model_source.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/hash.h"
#include "engine/base/json/json.h"
#include "engine/format/safetensors.h"

#define PATH_BYTES 4096

/* Which shard the index gives each tensor to: one that two shards hold counts where the index says.
 */
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
    cJSON_ArrayForEach (one, f->map) {
        if (strcmp(last, one->valuestring)) /* a shard's tensors stand in a row, mostly */
            number = file_number(f, last = one->valuestring);
        if (!tensor_table_add(where, &(struct tensor){.name = one->string, .file = number}, e))
            return err_prefix(e, "index");
    }
    return true;
}

static bool read_shards(struct model_source *s, const char *folder, struct err *e)
{
    struct shard_filter filter = {0};
    tensor_table_init(&filter.where, s->arena);
    bool ok = !s->files.map || read_index(&s->files, &filter.where, e);
    for (int i = 0; ok && i < s->files.n; i++) {
        char path[PATH_BYTES];
        const char *name = s->files.names[i];
        struct file_map *map = &s->maps[i];
        filter.file = i;
        ok = file_join(path, sizeof path, folder, name, e) && file_map(path, map, e);
        if (ok) {
            s->paths[s->n_maps] = arena_strdup(s->arena, path);
            s->names[s->n_maps++] = name;
            s->file_bytes += map->size;
            const struct safetensors_source from = {.data = map->data,
                                                    .size = map->size,
                                                    .file = i,
                                                    .want = wanted,
                                                    .context = &filter};
            ok = safetensors_read(&from, &s->tensors, e);
        }
        if (!ok)
            err_prefix(e, "%s", name);
    }
    tensor_table_fini(&filter.where);
    return ok;
}

static bool open_folder(struct model_source *s, const char *folder, const char *config,
                        struct err *e)
{
    if (!config_open(&s->config, config, e) || !weight_files_find(&s->files, folder, s->arena, e))
        return false;
    s->maps = calloc((size_t)s->files.n, sizeof *s->maps);
    s->names = arena_alloc(s->arena, (size_t)s->files.n * sizeof *s->names);
    s->paths = arena_alloc(s->arena, (size_t)s->files.n * sizeof *s->paths);
    if (!s->maps || !s->names || !s->paths)
        return err_set(e, ERR_NOMEM, "no memory for %d files", s->files.n);
    return read_shards(s, folder, e);
}

bool model_source_open(struct model_source *s, const char *path, struct arena *arena, struct err *e)
{
    char inside[PATH_BYTES];
    *s = (struct model_source){.arena = arena};
    tensor_table_init(&s->tensors, arena);
    bool ok;
    if (!file_is_dir(path))
        ok = model_source_open_gguf(s, path, e);
    else if (!file_join(inside, sizeof inside, path, "config.json", e))
        ok = false;
    else if (file_exists(inside))
        ok = open_folder(s, path, inside, e);
    else
        ok = gguf_in_folder(path, inside, sizeof inside, e) && model_source_open_gguf(s, inside, e);
    if (!ok)
        model_source_close(s);
    return ok;
}

void model_source_close(struct model_source *s)
{
    for (int i = 0; i < s->n_maps; i++) {
        file_unmap(&s->maps[i]);
        if (s->ggufs)
            gguf_fini(&s->ggufs[i]);
    }
    free(s->maps);
    free(s->ggufs);
    weight_files_fini(&s->files);
    config_close(&s->config);
    tensor_table_fini(&s->tensors);
    *s = (struct model_source){0};
}

uint64_t model_source_config_hash(const struct model_source *s)
{
    struct buf text = {0};
    uint64_t h = 0;
    if (s->ggufs) /* the metadata: everything before the tensors */
        h = hash64(s->ggufs[0].data, s->ggufs[0].data_start, 0);
    else if (json_write(&text, s->config.root))
        h = hash64(text.data, text.len, 0);
    buf_fini(&text);
    return h;
}
