/* matrix_places.h: the device writes down the places, and they are compared. */
#include "engine/vulkan/ops/matrix_places.h"

#include "engine/vulkan/shaders/push.h"

enum { THREADS = 32, EACH = 16, COLUMNS = 16 }; /* numbers of a thread; of a numbered row */

/* Element i of thread 4 g + t, as coop_places.comp numbers them. */
static uint32_t expected(uint32_t thread, uint32_t i)
{
    const uint32_t g = thread / 4, t = thread % 4, pair = 2 * t + i % 2;
    if (i < 8) /* a left side: two words of row g, two of row g + 8 */
        return (g + i / 4 * 8) * COLUMNS + pair + i / 2 % 2 * 8;
    if (i < 12) /* a right side: the same columns of row g, which are its rows */
        return (pair + (i - 8) / 2 * 8) * COLUMNS + g;
    return (g + (i - 12) / 2 * 8) * COLUMNS + pair;
}

static bool as_expected(const uint32_t *found)
{
    for (uint32_t i = 0; i < THREADS * EACH; i++)
        if (found[i] != expected(i / EACH, i % EACH))
            return false;
    return true;
}

static bool run(struct gpu *g, VkPipeline pipeline, const struct gpu_buffer *out, struct err *e)
{
    const struct push_coop_places push = {.outs = out->address};
    VkCommandBuffer c = gpu_command_begin(g, false, e);
    if (!c)
        return false;
    vkCmdBindPipeline(c, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline);
    vkCmdPushConstants(c, g->layout, VK_SHADER_STAGE_COMPUTE_BIT, 0, sizeof push, &push);
    vkCmdDispatch(c, 1, 1, 1);
    const bool ok = gpu_command_end(g, c, e) && gpu_run(g, c, e);
    gpu_command_free(g, &c);
    return ok;
}

bool matrix_places_check(struct gpu *g, bool *known, struct err *e)
{
    const uint32_t spec[GPU_MAX_SPEC] = {[SPEC_THREADS] = THREADS,
                                         [SPEC_MATRIX_M] = MATRIX_SIDE,
                                         [SPEC_MATRIX_N] = MATRIX_FEW,
                                         [SPEC_MATRIX_K] = MATRIX_SIDE};
    const struct gpu_buffer_params params = {
        .where = GPU_READBACK, .size = THREADS * EACH * sizeof(uint32_t), .name = "places"};
    struct gpu_buffer out = {0};
    *known = false;
    if (!g->caps.cooperative_few)
        return true;
    VkPipeline pipeline = gpu_pipeline(g, "coop_places", spec, e);
    const bool ok = pipeline && gpu_buffer_create(g, &params, &out, e) && run(g, pipeline, &out, e);
    if (ok)
        *known = as_expected(out.map);
    gpu_buffer_destroy(g, &out);
    return ok;
}
