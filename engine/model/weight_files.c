/* Chooses the safetensors files of a model folder by the four cases that weight_files.h lists. */
#include "engine/model/weight_files.h"

#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/file.h"
#include "engine/base/json/json.h"

#define MAX_FILES 4096
#define MAX_PATH_BYTES 4096
#define MAX_INDEX_BYTES (64u << 20)

static const char index_suffix[] = ".safetensors.index.json";
static const char weights_suffix[] = ".safetensors";

static bool ends_with(const char *s, const char *suffix)
{
    size_t n = strlen(s), m = strlen(suffix);
    return n > m && !strcmp(s + n - m, suffix);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static bool keep(const char **list, int *n, char *name, struct err *e)
{
    if (*n == MAX_FILES)
        return err_set(e, ERR_LIMIT, "over %d weight files in one folder", MAX_FILES);
    if (!name)
        return err_set(e, ERR_NOMEM, "no memory for file names");
    list[(*n)++] = name;
    return true;
}

static bool skip_file(struct weight_files *f, struct arena *arena, const char *name,
                      const char *why, struct err *e)
{
    return keep(f->skipped, &f->n_skipped, arena_printf(arena, "%s (%s)", name, why), e);
}

struct listing {        /* of a model folder */
    const char **found; /* [n] all *.safetensors, sorted */
    int n;
    char index[256]; /* the name of the index; "": there is none */
};

static bool list_folder(const char *folder, struct arena *arena, struct listing *l, struct err *e)
{
    DIR *d = opendir(folder);
    if (!d)
        return err_errno(e, "opening the model folder");
    bool ok = true;
    for (struct dirent *one; ok && (one = readdir(d));) {
        if (one->d_name[0] == '.')
            continue;
        if (ends_with(one->d_name, weights_suffix))
            ok = keep(l->found, &l->n, arena_strdup(arena, one->d_name), e);
        else if (ends_with(one->d_name, index_suffix) &&
                 (!l->index[0] || !strcmp(one->d_name, "model.safetensors.index.json")))
            snprintf(l->index, sizeof l->index, "%s", one->d_name);
    }
    closedir(d);
    qsort(l->found, (size_t)l->n, sizeof *l->found, by_name);
    return ok;
}

static bool is_in(const char *const *list, int n, const char *name)
{
    return n && bsearch(&name, list, (size_t)n, sizeof *list, by_name);
}

static bool open_index(struct weight_files *f, const char *folder, const char *name, struct err *e)
{
    char path[MAX_PATH_BYTES];
    if (!file_join(path, sizeof path, folder, name, e))
        return false;
    f->index = json_parse_file(path, MAX_INDEX_BYTES, e);
    if (!f->index) {
        if (e && e->code == ERR_INPUT)
            e->code = ERR_FORMAT;
        return err_prefix(e, "%s", name);
    }
    f->map = json_member(f->index, "weight_map");
    if (!cJSON_IsObject(f->map) || !f->map->child)
        return err_set(e, ERR_FORMAT, "%s has no weight_map", name);
    return true;
}

/* The shards that the index names, each once. *absent: the first that is not in the folder. */
static bool index_shards(struct weight_files *f, const struct listing *l, const char **absent,
                         struct err *e)
{
    const cJSON *one;
    const char *last = NULL; /* maps list a shard's tensors in a row, mostly */
    cJSON_ArrayForEach (one, f->map) {
        if (!cJSON_IsString(one) || !one->valuestring[0] || strchr(one->valuestring, '/'))
            return err_field(e, ERR_FORMAT, one->string,
                             "the index gives no plain file name for tensor %s", one->string);
        if (last && !strcmp(last, one->valuestring))
            continue;
        last = one->valuestring;
        bool known = false;
        for (int i = 0; i < f->n && !known; i++)
            known = !strcmp(f->names[i], last);
        if (known)
            continue;
        if (!is_in(l->found, l->n, last) && !*absent)
            *absent = last;
        if (!keep(f->names, &f->n, one->valuestring, e))
            return false;
    }
    qsort(f->names, (size_t)f->n, sizeof *f->names, by_name);
    return true;
}

static bool use_index(struct weight_files *f, const struct listing *l, struct arena *arena,
                      struct err *e)
{
    const char *absent = NULL;
    if (!index_shards(f, l, &absent, e))
        return false;
    if (!absent)
        return true;
    int present = 0;
    for (int i = 0; i < f->n; i++)
        present += is_in(l->found, l->n, f->names[i]);
    /* Converters leave the original's index beside their single file. */
    if (present || !is_in(l->found, l->n, "model.safetensors"))
        return err_set(e, ERR_FORMAT, "%s names %d shards; %s is not in the folder", l->index, f->n,
                       absent);
    weight_files_fini(f);
    f->n = 0;
    return skip_file(f, arena, l->index, "names shards that are not here", e);
}

/* NAME-00001-of-00003.safetensors: the set's size, and this one's number; 0 for other names. */
static int shard_of(const char *name, int *number)
{
    size_t n = strlen(name);
    const size_t tail = sizeof "-00001-of-00003.safetensors" - 1;
    int total = 0, used = 0;
    if (n <= tail || sscanf(name + n - tail, "-%5d-of-%5d%n", number, &total, &used) != 2 ||
        used != (int)sizeof "-00001-of-00003" - 1)
        return 0;
    return total;
}

/* Case 3: keeps the set that the first numbered name begins; a hole in it is refused. */
static bool use_numbered(struct weight_files *f, const struct listing *l, struct arena *arena,
                         struct err *e)
{
    const char *const *found = l->found;
    int number, total = 0;
    const char *stem = NULL;
    size_t stem_len = 0;
    for (int i = 0; i < l->n; i++) {
        int of = shard_of(found[i], &number);
        if (of && !stem) {
            stem = found[i];
            stem_len = strlen(stem) - (sizeof "-00001-of-00003.safetensors" - 1);
            total = of;
        }
        bool same = of && of == total && !strncmp(found[i], stem, stem_len + 1);
        if (same ? !keep(f->names, &f->n, arena_strdup(arena, found[i]), e)
                 : of && !skip_file(f, arena, found[i], "of another set of shards", e))
            return false;
    }
    for (int i = 0; i < f->n; i++) {
        shard_of(f->names[i], &number);
        if (number != i + 1)
            return err_set(e, ERR_FORMAT, "shard %d of %d is missing (%.*s-...)", i + 1, total,
                           (int)stem_len, stem);
    }
    if (stem && f->n != total)
        return err_set(e, ERR_FORMAT, "shard %d of %d is missing (%.*s-...)", f->n + 1, total,
                       (int)stem_len, stem);
    return true;
}

static bool choose(struct weight_files *f, const char *folder, const struct listing *l,
                   struct arena *arena, struct err *e)
{
    if (l->index[0] && (!open_index(f, folder, l->index, e) || !use_index(f, l, arena, e)))
        return false;
    if (!f->n && is_in(l->found, l->n, "model.safetensors"))
        return keep(f->names, &f->n, arena_strdup(arena, "model.safetensors"), e);
    if (!f->n && !use_numbered(f, l, arena, e))
        return false;
    for (int i = 0; !f->n && i < l->n; i++)
        f->names[i] = l->found[i];
    if (!f->n)
        f->n = l->n;
    return f->n || err_set(e, ERR_NOTFOUND, "no weights: the folder has no *.safetensors");
}

/* Next-token layers in a file of their own belong to the model however its other files are found.
 */
static bool add_next_layer(struct weight_files *f, const struct listing *l, struct err *e)
{
    static const char own[] = "mtp.safetensors";
    bool known = !is_in(l->found, l->n, own);
    for (int i = 0; i < f->n && !known; i++)
        known = !strcmp(f->names[i], own);
    return known || keep(f->names, &f->n, (char *)(uintptr_t)own, e);
}

bool weight_files_find(struct weight_files *f, const char *folder, struct arena *arena,
                       struct err *e)
{
    *f = (struct weight_files){0};
    struct listing l = {.found = arena_alloc(arena, MAX_FILES * sizeof *l.found)};
    f->names = arena_alloc(arena, MAX_FILES * sizeof *f->names);
    f->skipped = arena_alloc(arena, 2 * MAX_FILES * sizeof *f->skipped);
    if (!l.found || !f->names || !f->skipped)
        return err_set(e, ERR_NOMEM, "no memory for file names");
    bool ok = list_folder(folder, arena, &l, e) && choose(f, folder, &l, arena, e) &&
              add_next_layer(f, &l, e);
    qsort(f->names, (size_t)f->n, sizeof *f->names, by_name);
    for (int i = 0; ok && i < l.n; i++) {
        int number;
        if (!is_in(f->names, f->n, l.found[i]) &&
            !(shard_of(l.found[i], &number) && !f->index && f->n_skipped))
            ok = skip_file(f, arena, l.found[i], "not a part of this model", e);
    }
    if (!ok)
        weight_files_fini(f);
    return ok;
}

void weight_files_fini(struct weight_files *f)
{
    cJSON_Delete(f->index);
    f->index = NULL;
    f->map = NULL;
}
