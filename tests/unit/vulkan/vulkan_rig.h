/* One Vulkan device for tests of single kernels, without a model: memory that both sides see,
 * weights uploaded as the backend does it, and the backend's own functions that record ops. One
 * device per process: some drivers refuse to be opened a few dozen times. */
#pragma once
#include "engine/vulkan/ops/record_gemm.h"
#include "tests/unit/support/cpu_weights.h"

struct rig {
    struct backend b;
    struct model_plan plan;
    struct gpu_buffer arena;
    uint64_t used;
    struct heap weights;
    bool keeps_codes; /* matrices are uploaded as split experts are */
};

struct rig_span { /* memory of both sides, cleared */
    VkDeviceAddress at;
    union {
        float *f;
        int32_t *i;
        int32_t (*rows)[4];
        uint32_t *u;
    };
};

bool rig_open(struct rig *r, struct err *e);
void rig_close(struct rig *r);
/* Forgets all spans and weights. */
void rig_clear(struct rig *r);
struct rig_span
rig_take(struct rig *r, size_t words); /* 32-bit words; 64 more are there, for loads past the end */
/* Uploads n matrices as one stack. Fails the test where it cannot. */
void rig_upload(struct rig *r, const struct weight *const *w, int n, struct device_matrix *m);
struct recorder rig_begin(struct rig *r, uint32_t n_rows, struct err *e);
void rig_end(
    struct recorder *c); /* runs what was recorded and waits; fails the test where it cannot */
