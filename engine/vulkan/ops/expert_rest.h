/* Experts without a slot that the processor computes while the device computes those in slots (hybrid). Such a step stops at
 * each layer with experts until the host knows what the router chose (meet.h); the others read them over the bus, in one
 * piece. Which of the two a step takes is decided before it, by its rows, the rates measured at load, and how many experts
 * the last steps missed: experts/policy/miss_policy.h.
 *
 * Steps of more than EXPERT_ROWS_MOST rows, and those whose products go to the matrix units, always read over the bus: they
 * use nearly every expert, and each for many rows.
 * Owner: the backend; same thread. The pool of threads inside works only within expert_rest_compute. */
#pragma once
#include "engine/experts/policy/miss_policy.h"
#include "engine/vulkan/device/gpu.h"

struct backend;

struct expert_rest { /* unused unless device_model.leaves */
    struct expert_rows *rows;
    struct gpu_buffer seen;  /* the device writes: [most, x_stride] residual stream, [most, n_used] ids and weights */
    struct gpu_buffer sums;  /* the host writes: [most, d_model] */
    uint64_t ids_at, weights_at; /* in `seen` */
    int32_t most;            /* rows of a step that there is room for; rates.rows may be fewer */
    VkCommandBuffer running; /* submitted while the processor computes; freed at the next meeting */
    struct miss_rates rates; /* with EXPERTS_CPU only .rows */
    struct miss_shape shape; /* .missing: moving mean over the last steps */
    uint64_t hits, misses;   /* of the slots when it was last looked at */
    uint64_t computed;       /* distinct experts of layers' passes */
    bool always;             /* while measuring: the processor is called for nothing as well */
};

/* After device_model_plan: sets model.leaves and sizes. */
void expert_rest_plan(struct backend *b);
/* Bytes of host memory that open takes. */
uint64_t expert_rest_bytes(const struct backend *b);
/* Before experts are laid into host memory: rates that were kept, or the first of the measurements. Returns the kind of
 * memory for them. */
enum gpu_memory expert_rest_memory(struct backend *b);
/* After everything else was opened; takes some 0.1 s where rates must be measured. */
bool expert_rest_open(struct backend *b, struct err *e);
void expert_rest_close(struct backend *b);
/* Whether a step of n rows leaves experts without a slot to the processor. */
bool expert_rest_wanted(const struct backend *b, int32_t n_rows);
/* After the layer's choice has arrived in `seen`: ids with a slot become -1. False: nothing is left. */
bool expert_rest_pick(struct backend *b, int32_t layer, int32_t n_rows);
void expert_rest_compute(struct backend *b, int32_t layer, int32_t n_rows);
/* After a step: what it missed. */
void expert_rest_note(struct backend *b);

/* expert_rest_rates.c: fills in what rates.bus does not say yet; false: the device failed. */
bool expert_rest_measure(struct backend *b, struct err *e);
/* Bytes per second that shaders read of memory of this kind; 0: unknown. */
double expert_rest_bus(struct backend *b, enum gpu_memory kind);
