/* Which files of a model folder hold its weights. Skipped files are named, never mixed in silently.
 *
 *   1. an index (model.safetensors.index.json) names the shards; it also says which shard holds a
 * tensor
 *   2. else model.safetensors alone
 *   3. else one complete set NAME-00001-of-0000N.safetensors
 *   4. else every *.safetensors there is; two tensors of one name are refused later
 *
 * mtp.safetensors, which holds a next-token layer, belongs to each of them. */
#pragma once
#include <cjson/cJSON.h>
#include <stdbool.h>

#include "engine/base/arena.h"
#include "engine/base/err.h"

struct weight_files {
    const char **names; /* [n] plain file names in the folder, sorted */
    int n;
    cJSON *index;         /* parsed index, or NULL; owned */
    const cJSON *map;     /* its "weight_map" */
    const char **skipped; /* [n_skipped] which files were skipped and why, for people */
    int n_skipped;
};

/* Strings and arrays live in the arena; weight_files_fini frees the index. */
bool weight_files_find(struct weight_files *f, const char *folder, struct arena *arena,
                       struct err *e);
void weight_files_fini(struct weight_files *f);
