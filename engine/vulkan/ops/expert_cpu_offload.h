/* Hybrid steps: the processor computes the experts that have no slot on the device while the device
 * computes those that have one. Such a step synchronises with the host once per MoE layer
 * (host_sync.h); other steps read missing experts over the bus and run in one piece. The choice is
 * made before each step, from its rows, the rates measured at load and the share of experts that
 * the last steps missed: experts/policy/miss_policy.h.
 *
 * Steps of more than EXPERT_ROWS_MAX rows, and those whose products go to the matrix units, always
 * read over the bus: they use nearly every expert, and each for many rows. Owner: the backend; same
 * thread. The thread pool inside runs only within expert_cpu_offload_compute. */
#pragma once
#include "engine/experts/policy/miss_policy.h"
#include "engine/vulkan/device/gpu.h"

struct backend;

struct expert_cpu_offload { /* unused unless device_model.offloads_misses */
    struct expert_rows *rows;
    /* Written by the device: [max_rows, x_stride] residual stream, [max_rows, n_used] ids and
     * weights. */
    struct gpu_buffer input;
    struct gpu_buffer sums;      /* written by the host: [max_rows, d_model] */
    uint64_t ids_at, weights_at; /* offsets in `input` */
    int32_t max_rows; /* rows of a step that there is room for; rates.rows may be fewer */
    VkCommandBuffer
        in_flight; /* submitted while the processor computes; freed at the next synchronisation */
    struct miss_rates rates; /* with EXPERTS_CPU only .rows is set */
    struct miss_shape shape; /* .missing: moving mean over the last steps */
    uint64_t hits, misses;   /* the slots' counters after the previous step */
    uint64_t computed;       /* distinct experts, summed over layers and steps */
    bool measuring;          /* the processor is called even where no expert is missing */
};

/* Sets model.offloads_misses and the sizes; called after device_model_plan. */
void expert_cpu_offload_plan(struct backend *b);
/* Bytes of host memory that open takes. */
uint64_t expert_cpu_offload_bytes(const struct backend *b);
/* The kind of host memory that experts go to. Called before they are written there: takes the
 * stored rates, or makes the first of the measurements. */
enum gpu_memory expert_cpu_offload_memory(struct backend *b);
/* Called after everything else was opened; takes some 0.1 s where rates must be measured. */
bool expert_cpu_offload_open(struct backend *b, struct err *e);
void expert_cpu_offload_close(struct backend *b);
/* Whether the processor computes the experts that a step of n rows misses. */
bool expert_cpu_offload_wanted(const struct backend *b, int32_t n_rows);
/* Called when the layer's choice has arrived in `input`: sets ids that have a slot to -1. False:
 * every expert has a slot. */
bool expert_cpu_offload_select(struct backend *b, int32_t layer, int32_t n_rows);
void expert_cpu_offload_compute(struct backend *b, int32_t layer, int32_t n_rows);
/* Called after a step: updates the share of experts that steps miss. */
void expert_cpu_offload_note(struct backend *b);

/* expert_cpu_offload_rates.c: measures the rates beside rates.bus; false: the device failed. */
bool expert_cpu_offload_measure(struct backend *b, struct err *e);
/* Bytes per second at which shaders read memory of this kind; 0: unknown. */
double expert_cpu_offload_bus_rate(struct backend *b, enum gpu_memory kind);
