/* Compute pipelines: one layout for all, found by shader and constants, compiled once, kept on disk
 * in the driver's own form. */
#include "engine/vulkan/device/gpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LOG_MODULE "vulkan"
#include "engine/base/file.h"
#include "engine/base/log.h"
#include "engine/vulkan/device/khr_matrices.h"
#include "engine/vulkan/device/pipeline_file.h"
#include "engine/vulkan/device/shader.h"

static void cache_path(struct gpu *g, const VkPhysicalDeviceProperties *p, const char *dir)
{
    char name[64], path[4096];
    struct err ignored;
    snprintf(name, sizeof name, "pipelines-%04x-%04x-%08x.bin", p->vendorID, p->deviceID,
             p->driverVersion);
    if (dir && file_join(path, sizeof path, dir, name, &ignored))
        g->cache_path = strdup(path);
}

bool gpu_pipelines_open(struct gpu *g, const char *cache_dir, struct err *e)
{
    struct buf data = {0};
    VkPhysicalDeviceProperties p;
    vkGetPhysicalDeviceProperties(g->physical, &p);
    cache_path(g, &p, cache_dir);
    if (g->cache_path)
        pipeline_file_read(g->cache_path, &p, &data);
    g->cache_bytes = data.len;
    VkPipelineCacheCreateInfo cache = {.sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO,
                                       .initialDataSize = data.len,
                                       .pInitialData = data.data};
    VkPushConstantRange range = {.stageFlags = VK_SHADER_STAGE_COMPUTE_BIT, .size = GPU_PUSH_BYTES};
    VkPipelineLayoutCreateInfo layout = {.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
                                         .pushConstantRangeCount = 1,
                                         .pPushConstantRanges = &range};
    VkResult r = vkCreatePipelineCache(g->device, &cache, NULL, &g->cache);
    buf_fini(&data);
    VKTRY(r);
    VKTRY(vkCreatePipelineLayout(g->device, &layout, NULL, &g->layout));
    return true;
fail:
    return false;
}

void gpu_pipelines_keep(struct gpu *g)
{
    size_t size = 0;
    struct buf data = {0};
    struct err e = {0};
    if (!g->cache_path || !g->cache || g->lost ||
        vkGetPipelineCacheData(g->device, g->cache, &size, NULL) != VK_SUCCESS ||
        size <= g->cache_bytes) {
        return;
    }
    if (buf_reserve(&data, size) &&
        vkGetPipelineCacheData(g->device, g->cache, &size, data.data) == VK_SUCCESS) {
        VkPhysicalDeviceProperties p;
        vkGetPhysicalDeviceProperties(g->physical, &p);
        data.len = size;
        if (pipeline_file_write(g->cache_path, &p, &data, &e))
            g->cache_bytes = size;
        else
            log_warn("pipelines are not kept: %s", e.text);
    }
    buf_fini(&data);
}

void gpu_pipelines_close(struct gpu *g)
{
    gpu_pipelines_keep(g);
    for (int i = 0; i < g->n_pipelines; i++)
        vkDestroyPipeline(g->device, g->pipelines[i].pipeline, NULL);
    free(g->pipelines);
    free(g->cache_path);
    vkDestroyPipelineLayout(g->device, g->layout, NULL);
    vkDestroyPipelineCache(g->device, g->cache, NULL);
    g->pipelines = NULL;
    g->cache_path = NULL;
    g->n_pipelines = g->cap_pipelines = 0;
    g->layout = VK_NULL_HANDLE;
    g->cache = VK_NULL_HANDLE;
}

static const struct shader *find_shader(const char *name)
{
    for (int i = 0; i < shader_table_n; i++)
        if (!strcmp(shader_table[i].name, name))
            return &shader_table[i];
    return NULL;
}

static VkPipeline compile(struct gpu *g, const struct shader *s, const uint32_t *spec,
                          struct err *e)
{
    VkShaderModule module = VK_NULL_HANDLE;
    VkPipeline pipeline = VK_NULL_HANDLE;
    struct buf khr = {0};
    if (khr_matrices_used(s) && !khr_matrices_of(s, &khr, e))
        goto fail;
    VkSpecializationMapEntry entries[GPU_MAX_SPEC];
    for (uint32_t i = 0; i < GPU_MAX_SPEC; i++)
        entries[i] = (VkSpecializationMapEntry){.constantID = i, .offset = i * 4, .size = 4};
    VkSpecializationInfo constants = {.mapEntryCount = GPU_MAX_SPEC,
                                      .pMapEntries = entries,
                                      .dataSize = GPU_MAX_SPEC * 4,
                                      .pData = spec};
    VkShaderModuleCreateInfo code = {.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO,
                                     .codeSize = khr.len ? khr.len : s->bytes,
                                     .pCode =
                                         khr.len ? (const uint32_t *)(void *)khr.data : s->code};
    VKTRY(vkCreateShaderModule(g->device, &code, NULL, &module));
    VkComputePipelineCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
        .flags = g->capture ? VK_PIPELINE_CREATE_CAPTURE_STATISTICS_BIT_KHR : 0,
        .stage = {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                  .flags = g->caps.subgroup_control
                               ? VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT_EXT
                               : 0,
                  .stage = VK_SHADER_STAGE_COMPUTE_BIT,
                  .module = module,
                  .pName = "main",
                  .pSpecializationInfo = &constants},
        .layout = g->layout};
    VKTRY(vkCreateComputePipelines(g->device, g->cache, 1, &info, NULL, &pipeline));
    if (g->set_name) {
        g->set_name(g->device, &(VkDebugUtilsObjectNameInfoEXT){
                                   .sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_OBJECT_NAME_INFO_EXT,
                                   .objectType = VK_OBJECT_TYPE_PIPELINE,
                                   .objectHandle = (uint64_t)pipeline,
                                   .pObjectName = s->name});
    }
fail:
    vkDestroyShaderModule(g->device, module, NULL);
    buf_fini(&khr);
    return pipeline;
}

VkPipeline gpu_pipeline(struct gpu *g, const char *shader, const uint32_t spec[GPU_MAX_SPEC],
                        struct err *e)
{
    for (int i = 0; i < g->n_pipelines; i++) {
        struct gpu_pipeline *p = &g->pipelines[i];
        if (!strcmp(p->shader, shader) && !memcmp(p->spec, spec, sizeof p->spec))
            return p->pipeline;
    }
    const struct shader *s = find_shader(shader);
    if (!s) {
        err_set(e, ERR_UNSUPPORTED, "no Vulkan kernel is called %s", shader);
        return VK_NULL_HANDLE;
    }
    if (g->n_pipelines == g->cap_pipelines) {
        int cap = g->cap_pipelines ? g->cap_pipelines * 2 : 64;
        struct gpu_pipeline *more = realloc(g->pipelines, (size_t)cap * sizeof *more);
        if (!more) {
            err_set(e, ERR_NOMEM, "no memory for pipelines");
            return VK_NULL_HANDLE;
        }
        g->pipelines = more;
        g->cap_pipelines = cap;
    }
    VkPipeline pipeline = compile(g, s, spec, e);
    if (pipeline) {
        struct gpu_pipeline *p = &g->pipelines[g->n_pipelines++];
        p->shader = s->name;
        memcpy(p->spec, spec, sizeof p->spec);
        p->pipeline = pipeline;
    }
    return pipeline;
}
