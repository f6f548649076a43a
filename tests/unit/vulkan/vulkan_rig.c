/* vulkan_rig.h: one Vulkan device for tests of single kernels, without a model. */
#include "tests/unit/vulkan/vulkan_rig.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <string.h>

#define ARENA_BYTES (24u << 20)

bool rig_open(struct rig *r, struct err *e)
{
    memset(r, 0, sizeof *r);
    r->plan.norm_eps = 1e-6f;
    r->b.plan = &r->plan;
    r->b.tuning = (struct tuning){.threads = 256,
                                  .linear_rows = 1,
                                  .head_rows = 2,
                                  .up_rows = 2,
                                  .down_rows = 1,
                                  .deep_splits = UINT32_MAX,
                                  .gemm_min_rows = 9,
                                  .gemm_tile_m = 64,
                                  .gemm_tile_n = 64,
                                  .gemm_buffers = 1};
    return gpu_open(&r->b.gpu, NULL, e) &&
           gpu_buffer_create(&r->b.gpu,
                             &(struct gpu_buffer_params){
                                 .where = GPU_READBACK, .size = ARENA_BYTES, .name = "test"},
                             &r->arena, e);
}

void rig_close(struct rig *r)
{
    heap_fini(&r->weights, &r->b.gpu);
    gpu_buffer_destroy(&r->b.gpu, &r->arena);
    gpu_close(&r->b.gpu);
}

void rig_clear(struct rig *r)
{
    heap_fini(&r->weights, &r->b.gpu);
    memset(r->arena.map, 0, r->used);
    r->used = 0;
}

struct rig_span rig_take(struct rig *r, size_t words)
{
    struct rig_span s = {.at = r->arena.address + r->used,
                         .u = (uint32_t *)(void *)((uint8_t *)r->arena.map + r->used)};
    r->used += ((words + 64) * 4 + 255) / 256 * 256;
    assert_true(r->used <= ARENA_BYTES);
    memset(s.u, 0, words * 4);
    return s;
}

void rig_upload(struct rig *r, const struct weight *const *w, int n, struct device_matrix *m)
{
    struct err e = {0};
    heap_fini(&r->weights, &r->b.gpu);
    memset(m, 0, sizeof *m);
    bool ok = device_matrix_plan(&r->weights, w, n, m, &e);
    if (r->keeps_codes)
        device_layout_keep_codes(&m->layout);
    if (!ok || !heap_commit(&r->weights, &r->b.gpu, GPU_LOCAL, "weights", &e))
        fail_msg("%s", e.text);
}

struct recorder rig_begin(struct rig *r, uint32_t n_rows, struct err *e)
{
    struct recorder c = {.b = &r->b,
                         .c = gpu_command_begin(&r->b.gpu, false, e),
                         .n_rows = n_rows,
                         .ok = true,
                         .e = e};
    if (!c.c)
        fail_msg("%s", e->text);
    return c;
}

void rig_end(struct recorder *c)
{
    struct gpu *g = &c->b->gpu;
    VkMemoryBarrier barrier = {.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
                               .srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT,
                               .dstAccessMask = VK_ACCESS_HOST_READ_BIT};
    vkCmdPipelineBarrier(c->c, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, VK_PIPELINE_STAGE_HOST_BIT, 0,
                         1, &barrier, 0, NULL, 0, NULL);
    bool ok = c->ok && gpu_command_end(g, c->c, c->e) && gpu_run(g, c->c, c->e);
    gpu_command_free(g, &c->c);
    if (!ok)
        fail_msg("%s", c->e->text);
}
