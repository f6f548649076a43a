/* GGUF files as a model's source, whole or split ("NAME-00001-of-00003.gguf"). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/file.h"
#include "engine/format/gguf_tensors.h"
#include "engine/model/model_source.h"

#define MAX_SPLITS 1024

static bool add_file(struct model_source *s, const char *path, struct err *e)
{
    const char *name = file_base_name(path);
    struct file_map *map = &s->maps[s->n_maps];
    struct gguf *g = &s->ggufs[s->n_maps];
    if (!file_map(path, map, e))
        return err_prefix(e, "%s", name);
    s->names[s->n_maps] = arena_strdup(s->arena, name);
    s->paths[s->n_maps] = arena_strdup(s->arena, path);
    s->n_maps++;
    s->file_bytes += map->size;
    if (!gguf_is(map->data, map->size))
        return err_set(e, ERR_FORMAT, "%s is neither a model folder nor a GGUF file", name);
    if (!gguf_read(g, map->data, map->size, e) ||
        !gguf_add_tensors(g, s->n_maps - 1, &s->tensors, e))
        return err_prefix(e, "%s", name);
    return true;
}

/* Each part says which it is, and how many there are: a part of another model is noticed. */
static bool check_part(const struct model_source *s, int i, int total, struct err *e)
{
    double number = -1, count = -1;
    gguf_number(&s->ggufs[i], "split.no", &number);
    gguf_number(&s->ggufs[i], "split.count", &count);
    if (number == i && count == total)
        return true;
    return err_set(e, ERR_FORMAT, "%s says that it is part %g of %g, want %d of %d", s->names[i],
                   number + 1, count, i + 1, total);
}

static bool open_split(struct model_source *s, const char *path, int total, struct err *e)
{
    char part[4096];
    int stem = (int)(strlen(path) - (sizeof GGUF_SPLIT_TAIL - 1));
    for (int i = 0; i < total; i++) {
        if (snprintf(part, sizeof part, "%.*s-%05d-of-%05d.gguf", stem, path, i + 1, total) >=
            (int)sizeof part)
            return err_set(e, ERR_LIMIT, "path too long");
        if (!add_file(s, part, e) || !check_part(s, i, total, e))
            return false;
    }
    double tensors;
    if (gguf_number(&s->ggufs[0], "split.tensors.count", &tensors) && tensors != s->tensors.n)
        return err_set(e, ERR_FORMAT, "%d tensors in the parts, the first one speaks of %g",
                       s->tensors.n, tensors);
    return true;
}

bool model_source_open_gguf(struct model_source *s, const char *path, struct err *e)
{
    int number = 1, total = gguf_split_of(path, &number);
    if (total < 0 || total > MAX_SPLITS)
        return err_set(e, ERR_LIMIT, "a model in %d parts", total);
    int n = total ? total : 1;
    s->maps = calloc((size_t)n, sizeof *s->maps);
    s->ggufs = calloc((size_t)n, sizeof *s->ggufs);
    s->names = arena_alloc(s->arena, (size_t)n * sizeof *s->names);
    s->paths = arena_alloc(s->arena, (size_t)n * sizeof *s->paths);
    if (!s->maps || !s->ggufs || !s->names || !s->paths)
        return err_set(e, ERR_NOMEM, "no memory for %d files", n);
    return (total ? open_split(s, path, total, e) : add_file(s, path, e)) &&
           config_open_gguf(&s->config, &s->ggufs[0], e);
}
