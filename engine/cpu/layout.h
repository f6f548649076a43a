/* What the cpu backend allocates for a plan, and where each part lies. `sluice info` asks for the
 * sizes without allocating; open asks for the same sizes and then places. */
#pragma once
#include "engine/cpu/cpu_worker.h"

struct layout { /* what the sizes depend on */
    const struct model_plan *plan;
    const struct backend_params *params;
    const struct kernels *kernels;
    int32_t n_workers;
};

/* How keys and values are stored. */
enum kv_type layout_kv_type(const struct kernels *k, const struct backend_params *p);
size_t layout_kv_bytes(const struct layout *l);
/* Values of one sequence's recurrent state; at [n_recurrent] gets each layer's offset unless NULL.
 */
size_t layout_state_values(const struct layout *l, size_t *at);
/* Bytes of everything else. With b: also points b's and its workers' fields into `memory`. */
size_t layout_workspace(const struct layout *l, struct backend *b, char *memory);
/* All forms of activations that these kernels can ask for. */
unsigned layout_panel_kinds(const struct kernels *k, bool exact, bool one_byte);
uint64_t layout_weight_bytes(const struct model_plan *plan);
/* The same without routed experts. */
uint64_t layout_dense_bytes(const struct model_plan *plan);
