/* A model on disk: files mapped read-only, configuration read, every tensor checked (name, shape,
 * type, range in its file) before use, the plan filled by its family. Nothing is allocated for
 * weights. Called by the engine and by `sluice`'s commands. Immutable after model_open;
 * thread-safe. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/err.h"
#include "engine/model/plan.h"

struct model;

/* path: a folder (config.json + *.safetensors, plain or MLX-quantized) or a GGUF file.
 * ERR_FORMAT names the file and the tensor; ERR_UNSUPPORTED the architecture, or that it is a
 * drafter that can't do anything alone. */
struct model *model_open(const char *path, struct err *e);
/* The same for one that may be such a drafter: its plan.shares_ends, and it has neither embedding
 * nor head before model_next_share. */
struct model *model_open_drafter(const char *path, struct err *e);
void model_close(struct model **m);
const struct model_plan *model_plan(const struct model *m);
/* The model's own next-token layer as a model beside it, which lives as long: one layer that begins
 * from hidden states of this one. NULL: there is none, or none that can be run; *why says so. */
struct model *model_next(const struct model *m, struct err *why);
/* The layer reads embedding and head where `from` has them: the plan that the model runs by. */
void model_next_share(struct model *next, const struct model_plan *from);
/* Limits every token to the n experts of a layer with the highest router weights: faster and lossy.
 * Changes the plan, its fingerprint and the active bytes, so it is called once, straight after
 * model_open. n not below what the model uses: nothing changes. ERR_INPUT: n < 1, or no layer has
 * experts. */
bool model_limit_experts(struct model *m, int32_t n, struct err *e);

struct model_stats {       /* counted from the tensor table */
    uint64_t file_bytes;   /* all weight files */
    uint64_t weight_bytes; /* bytes of tensors that the plan uses */
    uint64_t dense_bytes;  /* of them: embedding, attention, routers, norms, shared experts, dense
                              layers, head */
    uint64_t expert_bytes; /* of them: routed experts */
    uint64_t active_bytes; /* read by one token at batch 1, head included, KV left out */
    uint64_t parameters, active_parameters;
    int32_t n_files, n_tensors, n_unused_tensors;
    uint64_t kv_bytes_per_token; /* at 2 bytes a value */
    uint64_t state_bytes;        /* recurrent state of one sequence, f32 */
    uint64_t copied_bytes; /* of weight_bytes: not mapped but laid out anew in memory as the files
                              are opened (gpt-oss's transposed bf16 experts); 0 for every other
                              layout */
};
const struct model_stats *model_stats(const struct model *m);
/* Names of tensors and files that were skipped, for `sluice info` and the log; NULL after the last.
 */
const char *model_unused(const struct model *m, int i);
/* The mapped byte ranges, for residency counting and prefetch; false after the last. */
bool model_mapping(const struct model *m, int i, const void **start, size_t *len);
/* Path of the file that mapping i shows, as it was opened; NULL after the last. */
const char *model_file(const struct model *m, int i);
/* These bytes are not read any more: the whole pages that they fill are this process's no longer,
 * and the page cache keeps them while memory is free. Those that lie in no mapping stay. */
void model_drop(const struct model *m, const void *from, size_t bytes);
