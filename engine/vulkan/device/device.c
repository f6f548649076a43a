/* The logical device: features that the shaders use, the queue, and the order in which parts open
 * and close. */
#include "engine/vulkan/device/gpu.h"

#include <string.h>

#include "engine/vulkan/device/khr_matrix_api.h"

static bool pick_family(struct gpu *g, struct err *e)
{
    VkQueueFamilyProperties list[32];
    uint32_t n = 32;
    int best = -1;
    vkGetPhysicalDeviceQueueFamilyProperties(g->physical, &n, list);
    for (uint32_t i = 0; i < n; i++) {
        /* A family that only computes is not shared with a desktop. */
        bool compute = list[i].queueFlags & VK_QUEUE_COMPUTE_BIT,
             graphics = list[i].queueFlags & VK_QUEUE_GRAPHICS_BIT;
        if (compute && (best < 0 || !graphics)) {
            best = (int)i;
            if (!graphics)
                break;
        }
    }
    if (best < 0)
        return err_set(e, ERR_UNSUPPORTED, "%s has no compute queue", g->caps.name);
    g->family = (uint32_t)best;
    if (list[best].timestampValidBits == 0)
        g->caps.timestamp_ns = 0;
    return true;
}

/* What a device that was just created gives: its queue, its kinds of memory, and a function of the
 * validation layers. */
static void get_handles(struct gpu *g)
{
    vkGetDeviceQueue(g->device, g->family, 0, &g->queue);
    vkGetPhysicalDeviceMemoryProperties(g->physical, &g->memory);
    if (g->messenger)
        g->set_name = (PFN_vkSetDebugUtilsObjectNameEXT)(void *)vkGetInstanceProcAddr(
            g->instance, "vkSetDebugUtilsObjectNameEXT");
}

static bool create_device(struct gpu *g, struct err *e)
{
    const char *extensions[8];
    uint32_t n_extensions = 0;
    VkPhysicalDeviceCooperativeMatrixFeaturesKHR matrix = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_KHR,
        .cooperativeMatrix = VK_TRUE};
    VkPhysicalDeviceSubgroupSizeControlFeaturesEXT control = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES_EXT};
    VkPhysicalDeviceFeatures2 probe = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2,
                                       .pNext = &control};
    if (g->caps.subgroup_control) {
        vkGetPhysicalDeviceFeatures2(g->physical, &probe);
        g->caps.subgroup_control = control.computeFullSubgroups;
    }
    VkPhysicalDeviceVulkan12Features f12 = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES,
        .bufferDeviceAddress = VK_TRUE,
        .timelineSemaphore = VK_TRUE,
        .shaderInt8 = VK_TRUE,
        .shaderFloat16 = g->caps.float16,
        .vulkanMemoryModel = g->caps.cooperative_matrix,
        .vulkanMemoryModelDeviceScope = g->caps.cooperative_matrix};
    VkPhysicalDeviceVulkan11Features f11 = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES,
        .pNext = &f12,
        .storageBuffer16BitAccess = g->caps.cooperative_matrix};
    VkPhysicalDeviceFeatures2 features = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2,
                                          .pNext = &f11,
                                          .features.shaderInt64 = VK_TRUE};
    if (g->caps.cooperative_matrix) {
        extensions[n_extensions++] = VK_KHR_COOPERATIVE_MATRIX_EXTENSION_NAME;
        f12.pNext = &matrix;
    }
    if (g->caps.subgroup_control) {
        extensions[n_extensions++] = VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME;
        control.subgroupSizeControl = VK_FALSE;
        control.pNext = f12.pNext;
        f12.pNext = &control;
    }
    if (g->caps.memory_budget)
        extensions[n_extensions++] = VK_EXT_MEMORY_BUDGET_EXTENSION_NAME;
    float priority = 1;
    VkDeviceQueueCreateInfo queue = {.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
                                     .queueFamilyIndex = g->family,
                                     .queueCount = 1,
                                     .pQueuePriorities = &priority};
    VkDeviceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
                               .pNext = &features,
                               .queueCreateInfoCount = 1,
                               .pQueueCreateInfos = &queue,
                               .enabledExtensionCount = n_extensions,
                               .ppEnabledExtensionNames = extensions};
    VKTRY(vkCreateDevice(g->physical, &info, NULL, &g->device));
    get_handles(g);
    return true;
fail:
    g->device = VK_NULL_HANDLE;
    return false;
}

bool gpu_open(struct gpu *g, const char *cache_dir, struct err *e)
{
    if (!gpu_instance_open(g, e) || !gpu_pick(g, e) || !pick_family(g, e) || !create_device(g, e))
        goto fail;
    VkCommandPoolCreateInfo pool = {.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
                                    .queueFamilyIndex = g->family};
    VKTRY(vkCreateCommandPool(g->device, &pool, NULL, &g->pool));
    VkSemaphoreTypeCreateInfo type = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO,
                                      .semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE};
    VkSemaphoreCreateInfo semaphore = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO,
                                       .pNext = &type};
    VKTRY(vkCreateSemaphore(g->device, &semaphore, NULL, &g->timeline));
    if (!gpu_pipelines_open(g, cache_dir, e))
        goto fail;
    return true;
fail:
    gpu_close(g);
    return false;
}

void gpu_close(struct gpu *g)
{
    if (g->device) {
        vkDeviceWaitIdle(g->device);
        gpu_pipelines_close(g);
        vkDestroySemaphore(g->device, g->timeline, NULL);
        vkDestroyCommandPool(g->device, g->pool, NULL);
        vkDestroyDevice(g->device, NULL);
    }
    gpu_instance_close(g);
    memset(g, 0, sizeof *g);
}
