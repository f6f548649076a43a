/* A model's hyper-parameters, from a folder's config.json or from GGUF metadata, by one getter that
 * knows both names. Families read; nobody else does.
 *
 * Failures stick: the first one is kept in `failure`, getters go on returning harmless values, and
 * the family's caller asks once at the end. One thread. */
#pragma once
#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/err.h"
#include "engine/format/weight.h"

struct gguf;

struct config {
    cJSON *root;       /* config.json, or NULL */
    const cJSON *text; /* its text part: root["text_config"] where there is one, else root */
    const struct gguf *gguf;
    char arch[64];   /* GGUF: general.architecture, the prefix of its keys */
    int32_t n_vocab; /* GGUF: rows of the embedding, for files without a vocab_size; 0: unknown */
    bool failed;
    struct err failure;
};

/* One hyper-parameter's names and limits. A NULL name: this kind of file doesn't have it. */
struct key {
    const char *hf, *gguf; /* gguf without the architecture's prefix */
    double min, max;
    bool optional; /* absent: `fallback` */
    double fallback;
};

static inline struct key key_needed(const char *hf, const char *gguf, double min, double max)
{
    return (struct key){.hf = hf, .gguf = gguf, .min = min, .max = max};
}

static inline struct key key_or(const char *hf, const char *gguf, double min, double max,
                                double fallback)
{
    return (struct key){hf, gguf, min, max, true, fallback};
}

bool config_open(struct config *c, const char *path, struct err *e);
/* g outlives c. */
bool config_open_gguf(struct config *c, const struct gguf *g, struct err *e);
void config_close(struct config *c);

int32_t config_int(struct config *c, struct key k);
double config_number(struct config *c, struct key k);
bool config_bool(struct config *c, const char *hf, const char *gguf, bool fallback);
/* NULL when absent; plain folders only. */
const char *config_string(struct config *c, const char *hf);
bool config_has(const struct config *c, const char *hf, const char *gguf);
/* Entry i of a list of strings such as layer_types; NULL when there is no list. */
const char *config_string_at(struct config *c, const char *hf, int32_t i);
/* Whether a list of whole numbers holds n. */
bool config_list_has(struct config *c, const char *hf, int32_t n);
/* The rotary settings: "rope_parameters" (new) or "rope_scaling" (old); NULL when there is none. */
const cJSON *config_rope(const struct config *c);
/* Ends the reading; always returns false. */
bool config_fail(struct config *c, enum err_code code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* How MLX packed one module. */
enum quant_mode { QUANT_NONE, QUANT_AFFINE, QUANT_MXFP4 };
struct quantization {
    enum quant_mode mode;
    int bits, group;
};
/* The entry for a module path ("model.layers.0.mlp.gate"), else the default of the file. An
 * override without `mode` is affine, whatever the default mode. QUANT_NONE: config.json speaks of
 * none, or says false for the module. */
bool config_quantization(const struct config *c, const char *module, struct quantization *q,
                         struct err *e);
/* Refuses schemes that are not read here (awq, gptq, fp8, ...). */
bool config_check_scheme(const struct config *c, struct err *e);
