/* The instance, messages of validation layers, and what a device can do. */
#include "engine/vulkan/device/gpu.h"

#include <stdlib.h>
#include <string.h>

#define LOG_MODULE "vulkan"
#include "engine/base/log.h"
#include "engine/vulkan/device/khr_matrices.h"
#include "engine/vulkan/device/khr_matrix_api.h"

bool gpu_fail(struct gpu *g, VkResult r, const struct gpu_call *call, struct err *e)
{
    if (r == VK_ERROR_DEVICE_LOST) {
        g->lost = true;
        return err_set(e, ERR_DEVICE, "the GPU was lost (%.60s, %s:%d)", call->text, call->file,
                       call->line);
    }
    if (r == VK_ERROR_OUT_OF_DEVICE_MEMORY || r == VK_ERROR_OUT_OF_HOST_MEMORY) {
        return err_set(e, ERR_NOMEM, "%s memory ran out (%.60s, %s:%d)",
                       r == VK_ERROR_OUT_OF_DEVICE_MEMORY ? "the GPU's" : "the driver's",
                       call->text, call->file, call->line);
    }
    return err_set(e, ERR_DEVICE, "Vulkan error %d (%.60s, %s:%d)", (int)r, call->text, call->file,
                   call->line);
}

static VKAPI_ATTR VkBool32 VKAPI_CALL on_message(VkDebugUtilsMessageSeverityFlagBitsEXT severity,
                                                 VkDebugUtilsMessageTypeFlagsEXT types,
                                                 const VkDebugUtilsMessengerCallbackDataEXT *data,
                                                 void *context)
{
    if (severity >= VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT)
        log_error("%s", data->pMessage);
    else
        log_warn("%s", data->pMessage);
    return VK_FALSE;
}

static bool has_debug_utils(void)
{
    uint32_t n = 0;
    bool found = false;
    if (vkEnumerateInstanceExtensionProperties(NULL, &n, NULL) != VK_SUCCESS || n == 0)
        return false;
    VkExtensionProperties *list = calloc(n, sizeof *list);
    if (list && vkEnumerateInstanceExtensionProperties(NULL, &n, list) >= 0)
        for (uint32_t i = 0; i < n; i++)
            found = found || !strcmp(list[i].extensionName, VK_EXT_DEBUG_UTILS_EXTENSION_NAME);
    free(list);
    return found;
}

bool gpu_instance_open(struct gpu *g, struct err *e)
{
    uint32_t version = 0;
    vkEnumerateInstanceVersion(&version);
    if (version < VK_API_VERSION_1_2) {
        return err_set(e, ERR_UNSUPPORTED, "the Vulkan loader is %u.%u, 1.2 is needed",
                       VK_API_VERSION_MAJOR(version), VK_API_VERSION_MINOR(version));
    }
    bool debug = has_debug_utils();
    const char *extension = VK_EXT_DEBUG_UTILS_EXTENSION_NAME;
    VkDebugUtilsMessengerCreateInfoEXT messenger = {
        .sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CREATE_INFO_EXT,
        .messageSeverity = VK_DEBUG_UTILS_MESSAGE_SEVERITY_WARNING_BIT_EXT |
                           VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT,
        .messageType = VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT |
                       VK_DEBUG_UTILS_MESSAGE_TYPE_PERFORMANCE_BIT_EXT,
        .pfnUserCallback = on_message,
    };
    VkApplicationInfo application = {.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO,
                                     .pApplicationName = "sluice",
                                     .apiVersion = VK_API_VERSION_1_2};
    VkInstanceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
                                 .pNext = debug ? &messenger : NULL,
                                 .pApplicationInfo = &application,
                                 .enabledExtensionCount = debug ? 1 : 0,
                                 .ppEnabledExtensionNames = &extension};
    VkResult r = vkCreateInstance(&info, NULL, &g->instance);
    if (r != VK_SUCCESS) {
        g->instance = VK_NULL_HANDLE;
        return err_set(e, ERR_UNAVAILABLE, "no Vulkan driver answers (vkCreateInstance: %d)",
                       (int)r);
    }
    if (debug) {
        PFN_vkCreateDebugUtilsMessengerEXT create =
            (PFN_vkCreateDebugUtilsMessengerEXT)(void *)vkGetInstanceProcAddr(
                g->instance, "vkCreateDebugUtilsMessengerEXT");
        if (create && create(g->instance, &messenger, NULL, &g->messenger) != VK_SUCCESS)
            g->messenger = VK_NULL_HANDLE;
    }
    return true;
}

void gpu_instance_close(struct gpu *g)
{
    if (g->messenger) {
        PFN_vkDestroyDebugUtilsMessengerEXT destroy =
            (PFN_vkDestroyDebugUtilsMessengerEXT)(void *)vkGetInstanceProcAddr(
                g->instance, "vkDestroyDebugUtilsMessengerEXT");
        destroy(g->instance, g->messenger, NULL);
    }
    if (g->instance)
        vkDestroyInstance(g->instance, NULL);
    g->messenger = VK_NULL_HANDLE;
    g->instance = VK_NULL_HANDLE;
}

static bool device_has(VkPhysicalDevice d, const char *extension)
{
    uint32_t n = 0;
    bool found = false;
    if (vkEnumerateDeviceExtensionProperties(d, NULL, &n, NULL) != VK_SUCCESS)
        return false;
    VkExtensionProperties *list = calloc(n ? n : 1, sizeof *list);
    if (list && vkEnumerateDeviceExtensionProperties(d, NULL, &n, list) >= 0)
        for (uint32_t i = 0; i < n; i++)
            found = found || !strcmp(list[i].extensionName, extension);
    free(list);
    return found;
}

/* Whether the matrix unit takes products of 16 x n x 16. */
static bool has_matrix_shape(struct gpu *g, VkPhysicalDevice d, uint32_t n_side)
{
    PFN_vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR get =
        (PFN_vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR)(void *)vkGetInstanceProcAddr(
            g->instance, "vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR");
    VkCooperativeMatrixPropertiesKHR list[64];
    uint32_t n = 64;
    for (int i = 0; i < 64; i++) {
        list[i] = (VkCooperativeMatrixPropertiesKHR){
            .sType = VK_STRUCTURE_TYPE_COOPERATIVE_MATRIX_PROPERTIES_KHR};
    }
    if (!get || get(d, &n, list) < 0)
        return false;
    for (uint32_t i = 0; i < n; i++) {
        const VkCooperativeMatrixPropertiesKHR *m = &list[i];
        if (m->MSize == KHR_MATRIX_SIDE && m->NSize == n_side && m->KSize == KHR_MATRIX_SIDE &&
            m->AType == VK_COMPONENT_TYPE_FLOAT16_KHR &&
            m->BType == VK_COMPONENT_TYPE_FLOAT16_KHR &&
            m->CType == VK_COMPONENT_TYPE_FLOAT32_KHR &&
            m->ResultType == VK_COMPONENT_TYPE_FLOAT32_KHR && m->scope == VK_SCOPE_SUBGROUP_KHR) {
            return true;
        }
    }
    return false;
}

/* Of NVIDIA's devices, which alone say so. */
static uint32_t multiprocessors_of(VkPhysicalDevice d)
{
    VkPhysicalDeviceShaderSMBuiltinsPropertiesNV sm = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_SM_BUILTINS_PROPERTIES_NV};
    VkPhysicalDeviceProperties2 p = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2,
                                     .pNext = &sm};
    if (!device_has(d, VK_NV_SHADER_SM_BUILTINS_EXTENSION_NAME))
        return 0;
    vkGetPhysicalDeviceProperties2(d, &p);
    return sm.shaderSMCount;
}

bool gpu_read_caps(struct gpu *g, VkPhysicalDevice d, struct gpu_caps *c, struct err *e)
{
    VkPhysicalDeviceSubgroupProperties subgroup = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES};
    VkPhysicalDeviceMaintenance3Properties limits3 = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_3_PROPERTIES, .pNext = &subgroup};
    VkPhysicalDeviceProperties2 p = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2,
                                     .pNext = &limits3};
    vkGetPhysicalDeviceProperties2(d, &p);
    const VkPhysicalDeviceLimits *limits = &p.properties.limits;
    if (p.properties.apiVersion < VK_API_VERSION_1_2)
        return err_set(e, ERR_UNSUPPORTED, "%s: Vulkan 1.2 is needed", p.properties.deviceName);
    VkPhysicalDeviceVulkan12Features f12 = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES};
    VkPhysicalDeviceFeatures2 f = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2,
                                   .pNext = &f12};
    vkGetPhysicalDeviceFeatures2(d, &f);
    const VkSubgroupFeatureFlags need =
        VK_SUBGROUP_FEATURE_BASIC_BIT | VK_SUBGROUP_FEATURE_ARITHMETIC_BIT |
        VK_SUBGROUP_FEATURE_BALLOT_BIT | VK_SUBGROUP_FEATURE_SHUFFLE_BIT;
    if (!f12.bufferDeviceAddress || !f12.timelineSemaphore || !f12.shaderInt8 ||
        !f.features.shaderInt64 || (subgroup.supportedOperations & need) != need ||
        limits->maxComputeWorkGroupInvocations < 256 ||
        limits->maxComputeSharedMemorySize < 32768) {
        return err_set(e, ERR_UNSUPPORTED,
                       "%s lacks one of: buffer addresses, timeline semaphores, 8- and 64-bit "
                       "integers, subgroup arithmetic and shuffles, "
                       "256 threads, 32 KiB of shared memory",
                       p.properties.deviceName);
    }
    memcpy(c->name, p.properties.deviceName, sizeof c->name);
    c->software = p.properties.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU;
    c->in_ram = c->software || p.properties.deviceType == VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU;
    c->subgroup = subgroup.subgroupSize;
    c->max_threads = limits->maxComputeWorkGroupInvocations;
    c->max_shared = limits->maxComputeSharedMemorySize;
    c->max_allocation = limits3.maxMemoryAllocationSize;
    c->multiprocessors = multiprocessors_of(d);
    c->timestamp_ns = limits->timestampComputeAndGraphics ? limits->timestampPeriod : 0;
    c->memory_budget = device_has(d, VK_EXT_MEMORY_BUDGET_EXTENSION_NAME);
    c->subgroup_control = device_has(d, VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME);
    c->float16 = f12.shaderFloat16;
    /* Our shaders divide their work among subgroups of 32 threads. */
    c->cooperative_matrix = f12.shaderFloat16 && f12.vulkanMemoryModel && c->subgroup == 32 &&
                            device_has(d, VK_KHR_COOPERATIVE_MATRIX_EXTENSION_NAME) &&
                            has_matrix_shape(g, d, KHR_MATRIX_SIDE);
    c->cooperative_few = c->cooperative_matrix && has_matrix_shape(g, d, KHR_MATRIX_FEW);
    return true;
}

void gpu_memory_free(const struct gpu *g, uint64_t *available, uint64_t *total)
{
    VkPhysicalDeviceMemoryBudgetPropertiesEXT budget = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT};
    VkPhysicalDeviceMemoryProperties2 p = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2,
        .pNext = g->caps.memory_budget ? &budget : NULL};
    vkGetPhysicalDeviceMemoryProperties2(g->physical, &p);
    *available = *total = 0;
    for (uint32_t i = 0; i < p.memoryProperties.memoryHeapCount; i++) {
        const VkMemoryHeap *heap = &p.memoryProperties.memoryHeaps[i];
        if (!(heap->flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT))
            continue;
        uint64_t used = g->caps.memory_budget ? budget.heapUsage[i] : 0;
        uint64_t may = g->caps.memory_budget ? budget.heapBudget[i] : heap->size;
        *total += heap->size;
        *available += may > used ? may - used : 0;
    }
}
