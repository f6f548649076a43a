/* The source of a model, once its files are mapped and their tables read: tensors and
 * configuration, whether they came from a folder of safetensors or from GGUF. Used by model.c only.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/arena.h"
#include "engine/base/err.h"
#include "engine/base/file.h"
#include "engine/format/gguf.h"
#include "engine/format/tensors.h"
#include "engine/model/config.h"
#include "engine/model/weight_files.h"

struct model_source {
    struct arena *arena; /* names; not owned */
    struct file_map *maps;
    const char **names; /* of the files, for messages */
    const char **paths; /* as they were opened */
    int n_maps;
    uint64_t file_bytes;
    struct tensor_table tensors;
    struct config config;
    struct weight_files files; /* folders; of GGUF only `skipped` */
    struct gguf *ggufs;        /* GGUF: one per map */
};

/* path: a folder with config.json, a GGUF file (any part of a split one), or a folder with one GGUF
 * model. */
bool model_source_open(struct model_source *s, const char *path, struct arena *arena,
                       struct err *e);
void model_source_close(struct model_source *s); /* accepts a zeroed struct */
/* Hash of the configuration's content. */
uint64_t model_source_config_hash(const struct model_source *s);

/* model_source_gguf.c */
bool model_source_open_gguf(struct model_source *s, const char *path, struct err *e);
