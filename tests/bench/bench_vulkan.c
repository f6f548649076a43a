/* Speed of the Vulkan backend on a random model of a real shape (Qwen3-30B-A3B), made in memory: no
 * files, no tokenizer. bench_vulkan [--layers N] [--format mx8|mx|a4|q8] [--rows 1,4,16] [--prefill
 * 512,2048] [--depth N,...] [--start N] [--kv-type f16|q8|k8v4] [--profile] [--chain]
 *     [--products units|plain|single]   of many rows: as the device can, without matrix units, row
 * by row
 *     [--attention tiles|rows]          of prefills, which begin after --start tokens: as the
 * products, row by row. --split-blocks N, --splits N: KV blocks of a split of decode attention at
 * least, and its splits at most. --gemm-rows N, --wide-groups N, --wide-rows N: of struct tuning,
 * see engine/vulkan/ops/backend_state.h. All layers share one random copy on the host; on the
 * device each has its own. Prints tokens per second, bytes per step and the share of the measured
 * read bandwidth. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/vulkan/device/khr_matrix_api.h"
#include "engine/vulkan/ops/vulkan_step.h"
#include "engine/vulkan/shaders/push.h"
#include "tests/bench/bench_model.h"

static void must(bool ok, const struct err *e)
{
    if (!ok) {
        fprintf(stderr, "%s\n", e->text);
        exit(1);
    }
}

struct bench {
    struct backend *b;
    const struct model_plan *plan;
    struct step_row *rows;
    int32_t *tokens, *blocks;
    int32_t blocks_each;
    bool profile;
    struct backend_profile *out; /* of the next steps; NULL: none */
    double bandwidth;
};

static void step(struct bench *t, int32_t n_sequences, int32_t n_tokens, int32_t start)
{
    struct err e = {0};
    struct step_sequence q[256];
    for (int32_t i = 0; i < n_sequences; i++) {
        q[i] = (struct step_sequence){.tokens = t->tokens + (i * 977 + start) % 4096,
                                      .n_tokens = n_tokens,
                                      .start = start,
                                      .blocks = t->blocks + i * t->blocks_each,
                                      .state = -1,
                                      .n_out = 1};
    }
    struct step s = {.sequences = q, .n_sequences = n_sequences, .n_top = 1};
    must(t->out ? vulkan_backend.profile(t->b, &s, t->rows, t->out, &e)
                : vulkan_backend.step(t->b, &s, t->rows, &e),
         &e);
}

static void profiled(struct bench *t, int32_t n_sequences, int32_t n_tokens, int32_t start)
{
    struct backend_profile p = {.n = 0};
    for (int i = 0; i < 2; i++) {
        t->out = &p;
        step(t, n_sequences, n_tokens, start);
    }
    t->out = NULL;
    for (int32_t i = 0; i < p.n; i++)
        printf("  %-24s n=%-4d us=%9.1f each=%7.2f\n", p.at[i].name, p.at[i].n, p.at[i].us,
               p.at[i].us / p.at[i].n);
    printf("  %-24s        us=%9.1f\n", "whole", p.us);
}

static void decode(struct bench *t, int32_t n, int32_t depth)
{
    enum { STEPS = 48 };
    double best = 1e9, sum = 0;
    struct backend_counters before, after;
    step(t, n, 1, depth);
    vulkan_backend.counters(t->b, &before);
    for (int i = 0; i < STEPS; i++) {
        double start = clock_ms();
        step(t, n, 1, depth + i);
        double ms = clock_ms() - start;
        best = ms < best ? ms : best;
        sum += ms;
    }
    vulkan_backend.counters(t->b, &after);
    double bytes = (double)(after.weight_bytes_read - before.weight_bytes_read) / STEPS;
    printf("decode rows=%-3d depth=%-6d ms=%.3f best=%.3f tok/s=%.1f weight_mb=%.1f share=%.1f%%\n",
           n, depth, sum / STEPS, best, n * 1e3 * STEPS / sum, bytes / 1e6,
           100 * bytes / t->bandwidth / (sum / STEPS / 1e3));
    if (t->profile)
        profiled(t, n, 1, depth);
}

static void prefill(struct bench *t, int32_t n, int32_t depth)
{
    /* For a while, since clocks rise slowly after a pause and fall under load; not the step in
     * which kernels are compiled. */
    enum { WARM_MS = 250, WHOLE_MS = 700 };
    double best = 1e9;
    step(t, 1, n, depth);
    const double begin = clock_ms();
    for (double now = begin; now - begin < WHOLE_MS;) {
        step(t, 1, n, depth);
        const double ms = clock_ms() - now;
        now += ms;
        best = now - begin > WARM_MS && ms < best ? ms : best;
    }
    printf("prefill tokens=%-5d depth=%-6d ms=%.2f tok/s=%.0f\n", n, depth, best, n * 1e3 / best);
    if (t->profile)
        profiled(t, 1, n, depth);
}

/* Cost of a chained dispatch, and of a barrier inside one. */
static void chain(struct gpu *g)
{
    struct err e = {0};
    struct gpu_buffer a;
    static const uint32_t sizes[] = {1, 64, 132, 264, 1056};
    must(gpu_buffer_create(
             g, &(struct gpu_buffer_params){.where = GPU_LOCAL, .size = 8 << 20, .name = "bench"},
             &a, &e),
         &e);
    for (int k = 0; k < 5; k++) {
        for (int kind = 0; kind < 2 && !(kind && (sizes[k] > 264 || g->caps.software)); kind++) {
            const uint32_t spec[GPU_MAX_SPEC] = {[SPEC_THREADS] = 256};
            VkPipeline p = gpu_pipeline(g, kind ? "bench_grid" : "bench_chain", spec, &e);
            must(p != NULL, &e);
            const struct push_bench_grid grid = {
                .count = a.address, .a = a.address + 1024, .rounds = 200, .n = sizes[k]};
            const struct push_bench_chain link = {.a = grid.a};
            double best = 1e9;
            for (int i = 0; i < 5; i++) {
                VkCommandBuffer c = gpu_command_begin(g, false, &e);
                vkCmdFillBuffer(c, a.buffer, 0, 1024, 0);
                gpu_barrier(c);
                vkCmdBindPipeline(c, VK_PIPELINE_BIND_POINT_COMPUTE, p);
                vkCmdPushConstants(c, g->layout, VK_SHADER_STAGE_COMPUTE_BIT, 0,
                                   kind ? sizeof grid : sizeof link,
                                   kind ? (const void *)&grid : (const void *)&link);
                for (int j = 0; j < (kind ? 1 : 200); j++) {
                    vkCmdDispatch(c, sizes[k], 1, 1);
                    gpu_barrier(c);
                }
                must(gpu_command_end(g, c, &e), &e);
                double start = clock_ms();
                must(gpu_run(g, c, &e), &e);
                double us = (clock_ms() - start) * 1e3;
                best = us < best ? us : best;
                gpu_command_free(g, &c);
            }
            printf("%s workgroups=%-4u whole_us=%.1f each_us=%.2f\n",
                   kind ? "in-kernel barrier" : "chained dispatch ", sizes[k], best, best / 200);
        }
    }
    gpu_buffer_destroy(g, &a);
}

/* A device of its own that can tell what its compiler made; NULL: there is none. */
static VkDevice telling_device(const struct gpu *g)
{
    const char *extensions[] = {"VK_KHR_pipeline_executable_properties",
                                "VK_EXT_subgroup_size_control", "VK_KHR_cooperative_matrix"};
    VkPhysicalDevicePipelineExecutablePropertiesFeaturesKHR wanted = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_EXECUTABLE_PROPERTIES_FEATURES_KHR,
        .pipelineExecutableInfo = VK_TRUE};
    VkPhysicalDeviceFeatures2 f = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2};
    VkPhysicalDeviceCooperativeMatrixFeaturesKHR matrix = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_KHR,
        .pNext = &wanted};
    VkPhysicalDeviceSubgroupSizeControlFeaturesEXT control = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES_EXT,
        .pNext = &matrix};
    VkPhysicalDeviceVulkan12Features f12 = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES, .pNext = &control};
    VkPhysicalDeviceVulkan11Features f11 = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES, .pNext = &f12};
    f.pNext = &f11;
    f.features.shaderInt64 = VK_TRUE;
    f12.bufferDeviceAddress = f12.timelineSemaphore = f12.shaderFloat16 = f12.shaderInt8 =
        f12.vulkanMemoryModel = f12.vulkanMemoryModelDeviceScope = VK_TRUE;
    f11.storageBuffer16BitAccess = matrix.cooperativeMatrix = control.computeFullSubgroups =
        VK_TRUE;
    float priority = 1;
    VkDeviceQueueCreateInfo queue = {.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
                                     .queueFamilyIndex = g->family,
                                     .queueCount = 1,
                                     .pQueuePriorities = &priority};
    VkDeviceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
                               .pNext = &f,
                               .queueCreateInfoCount = 1,
                               .pQueueCreateInfos = &queue,
                               .enabledExtensionCount = 3,
                               .ppEnabledExtensionNames = extensions};
    VkDevice d;
    return vkCreateDevice(g->physical, &info, NULL, &d) == VK_SUCCESS ? d : NULL;
}

static void print_statistics(const struct gpu *g, VkPipeline p)
{
    PFN_vkGetPipelineExecutableStatisticsKHR get =
        (PFN_vkGetPipelineExecutableStatisticsKHR)(void *)vkGetDeviceProcAddr(
            g->device, "vkGetPipelineExecutableStatisticsKHR");
    VkPipelineExecutableStatisticKHR s[32];
    uint32_t n = 32;
    for (int k = 0; k < 32; k++) {
        s[k] = (VkPipelineExecutableStatisticKHR){
            .sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_STATISTIC_KHR};
    }
    VkPipelineExecutableInfoKHR which = {.sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_INFO_KHR,
                                         .pipeline = p};
    if (p && get && get(g->device, &which, &n, s) >= 0)
        for (uint32_t k = 0; k < n; k++)
            printf(" | %s %llu", s[k].name, (unsigned long long)s[k].value.u64);
}

/* What the driver's compiler made of each pipeline in use: registers, local memory, where it tells.
 */
static void statistics(const struct gpu *g)
{
    struct err ignored;
    fflush(stdout);
    struct gpu other = {.device = telling_device(g), .caps = g->caps, .capture = true};
    if (!other.device)
        return;
    VkPushConstantRange range = {.stageFlags = VK_SHADER_STAGE_COMPUTE_BIT, .size = GPU_PUSH_BYTES};
    VkPipelineLayoutCreateInfo layout = {.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
                                         .pushConstantRangeCount = 1,
                                         .pPushConstantRanges = &range};
    vkCreatePipelineLayout(other.device, &layout, NULL, &other.layout);
    for (int i = 0; i < g->n_pipelines; i++) {
        VkPipeline p = gpu_pipeline(&other, g->pipelines[i].shader, g->pipelines[i].spec, &ignored);
        printf("pipeline %s", g->pipelines[i].shader);
        fflush(stdout);
        for (int k = 0; k < 16; k++)
            printf("%c%u", k ? ',' : ' ', g->pipelines[i].spec[k]);
        print_statistics(&other, p);
        printf("\n");
    }
}

/* Prefill under other tunings. */
static void tune(struct bench *t)
{
    static const uint32_t tries[][3] = {{64, 64, 1}, {64, 32, 1}, {128, 64, 1}};
    for (size_t i = 0; i < sizeof tries / sizeof tries[0]; i++) {
        t->b->tuning.gemm_tile_m = tries[i][0];
        t->b->tuning.gemm_tile_n = tries[i][1];
        t->b->tuning.gemm_buffers = tries[i][2];
        vulkan_step_forget(t->b);
        printf("gemm_tile_m=%u gemm_tile_n=%u buffers=%u\n", tries[i][0], tries[i][1], tries[i][2]);
        prefill(t, 512, 0);
    }
}

struct options {
    const char *format, *rows, *prefills, *products, *attention, *depths;
    int32_t n_layer, start, split_blocks, splits, wide_groups, wide_rows, gemm_rows;
    enum kv_type kv_type;
    bool profile, chain, stats, tune;
};

static struct options parse_options(int argc, char **argv)
{
    struct options o = {.format = "mx8",
                        .rows = "1",
                        .prefills = "",
                        .products = "units",
                        .attention = "tiles",
                        .depths = "64",
                        .n_layer = 48};
    for (int i = 1; i < argc; i++) {
        const char *name = argv[i];
        if (!strcmp(name, "--profile")) {
            o.profile = true;
        } else if (!strcmp(name, "--tune")) {
            o.tune = true;
        } else if (!strcmp(name, "--stats")) {
            o.stats = true;
        } else if (!strcmp(name, "--chain")) {
            o.chain = true;
        } else if (i + 1 < argc) {
            const char *v = argv[++i];
            o.n_layer = !strcmp(name, "--layers") ? atoi(v) : o.n_layer;
            o.format = !strcmp(name, "--format") ? v : o.format;
            o.rows = !strcmp(name, "--rows") ? v : o.rows;
            o.prefills = !strcmp(name, "--prefill") ? v : o.prefills;
            o.depths = !strcmp(name, "--depth") ? v : o.depths;
            o.start = !strcmp(name, "--start") ? atoi(v) : o.start;
            o.splits = !strcmp(name, "--splits") ? atoi(v) : o.splits;
            o.split_blocks = !strcmp(name, "--split-blocks") ? atoi(v) : o.split_blocks;
            o.wide_groups = !strcmp(name, "--wide-groups") ? atoi(v) : o.wide_groups;
            o.wide_rows = !strcmp(name, "--wide-rows") ? atoi(v) : o.wide_rows;
            o.gemm_rows = !strcmp(name, "--gemm-rows") ? atoi(v) : o.gemm_rows;
            o.products = !strcmp(name, "--products") ? v : o.products;
            o.attention = !strcmp(name, "--attention") ? v : o.attention;
            for (enum kv_type k = KV_F16; !strcmp(name, "--kv-type") && k <= KV_K8V4; k++)
                o.kv_type = !strcmp(v, kv_type_name(k)) ? k : o.kv_type;
        }
    }
    return o;
}

/* Of a list with commas. */
static const char *next_number(const char *s)
{
    s += strcspn(s, ",");
    return s + (*s == ',');
}

static int32_t greatest(const char *list)
{
    int32_t most = 0;
    for (const char *s = list; *s; s = next_number(s))
        most = atoi(s) > most ? atoi(s) : most;
    return most;
}

static void open_bench(struct bench *t, const struct options *o)
{
    struct err e = {0};
    const int32_t longest = greatest(o->prefills), deepest = greatest(o->depths),
                  max_rows = longest > 64 ? longest : 64, n_sequences = greatest(o->rows);
    t->profile = o->profile;
    t->plan = bench_model_plan(o->format, o->n_layer);
    t->blocks_each = (deepest + o->start + max_rows + 63) / 32 + 2;
    int32_t n_blocks = t->blocks_each * (n_sequences > 1 ? n_sequences : 1);
    struct backend_params p = {
        .n_blocks = n_blocks, .kv_type = o->kv_type, .max_rows = max_rows, .max_sequences = 64};
    t->b = vulkan_backend.open(t->plan, &p, &e);
    must(t->b != NULL, &e);
    if (strcmp(o->products, "units")) {
        t->b->gpu.caps.cooperative_matrix = false;
        t->b->tuning.wide = t->b->tuning.few = WIDE_NONE;
        t->b->tuning.gemm_min_rows = t->b->tuning.gemm_head_rows = 9;
    }
    if (!strcmp(o->products, "single"))
        t->b->tuning.gemm_min_rows = t->b->tuning.gemm_head_rows = UINT32_MAX;
    if (o->splits)
        t->b->sizes.max_splits = (uint32_t)o->splits;
    if (o->split_blocks)
        t->b->tuning.split_blocks = (uint32_t)o->split_blocks;
    if (o->gemm_rows)
        t->b->tuning.gemm_min_rows = t->b->tuning.gemm_expert_rows = t->b->tuning.gemm_head_rows =
            (uint32_t)o->gemm_rows;
    if (o->wide_groups)
        t->b->tuning.wide_groups = (uint32_t)o->wide_groups;
    if (o->wide_rows)
        t->b->tuning.wide_rows = (uint32_t)o->wide_rows;
    if (!strcmp(o->attention, "rows"))
        t->b->step.tile_rows = 0;
    t->rows = calloc(4096, sizeof *t->rows);
    t->tokens = malloc(65536 * sizeof *t->tokens);
    t->blocks = malloc((size_t)n_blocks * sizeof *t->blocks);
    for (int32_t i = 0; i < 65536; i++)
        t->tokens[i] = (int32_t)((uint32_t)i * 2654435761u % (uint32_t)t->plan->n_vocab);
    for (int32_t i = 0; i < n_blocks; i++)
        t->blocks[i] = i;
    t->bandwidth = vulkan_backend.read_bandwidth(t->b);
}

static void print_device(const struct bench *t, const struct options *o)
{
    const struct gpu_caps *c = &t->b->gpu.caps;
    printf("device=\"%s\" format=%s kv=%s layers=%d read_gbs=%.0f\n",
           vulkan_backend.device_name(t->b), o->format, kv_type_name(t->b->kv_type), o->n_layer,
           t->bandwidth / 1e9);
    printf("subgroup=%u shared=%u float16=%d cooperative_matrix=%d full_subgroups=%d\n",
           c->subgroup, c->max_shared, c->float16, c->cooperative_matrix, c->subgroup_control);
}

int main(int argc, char **argv)
{
    const struct options o = parse_options(argc, argv);
    struct bench t = {0};
    open_bench(&t, &o);
    print_device(&t, &o);
    if (o.chain)
        chain(&t.b->gpu);
    for (const char *depth = o.depths; *depth; depth = next_number(depth))
        for (const char *s = o.rows; *s; s = next_number(s))
            decode(&t, atoi(s), atoi(depth));
    for (const char *s = o.prefills; *s; s = next_number(s))
        prefill(&t, atoi(s), o.start);
    if (o.tune)
        tune(&t);
    if (o.stats)
        statistics(&t.b->gpu);
    vulkan_backend.close(&t.b);
    return 0;
}
