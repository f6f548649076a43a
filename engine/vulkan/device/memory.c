/* Buffers, each with its own allocation: there are few and they are large. */
#include "engine/vulkan/device/gpu.h"

#include <string.h>

/* Index of a memory type among `allowed` with all flags, else -1. */
static int find_type(const struct gpu *g, uint32_t allowed, VkMemoryPropertyFlags flags)
{
    for (uint32_t i = 0; i < g->memory.memoryTypeCount; i++)
        if ((allowed >> i & 1) && (g->memory.memoryTypes[i].propertyFlags & flags) == flags)
            return (int)i;
    return -1;
}

static int pick_type(const struct gpu *g, uint32_t allowed, enum gpu_memory where)
{
    const VkMemoryPropertyFlags visible =
        VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
    int type = -1;
    switch (where) {
    case GPU_LOCAL:
        return find_type(g, allowed, VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT);
    case GPU_UPLOAD:
        break;
    case GPU_STEP:
        type = find_type(g, allowed, visible | VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT);
        break;
    case GPU_READBACK:
    case GPU_SHARED:
        type = find_type(g, allowed, visible | VK_MEMORY_PROPERTY_HOST_CACHED_BIT);
        break;
    }
    return type >= 0 ? type : find_type(g, allowed, visible);
}

bool gpu_buffer_create(struct gpu *g, const struct gpu_buffer_params *p, struct gpu_buffer *b,
                       struct err *e)
{
    *b = (struct gpu_buffer){.size = p->size};
    VkBufferCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
        .size = p->size,
        .usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT |
                 VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT};
    VkMemoryAllocateFlagsInfo flags = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO,
                                       .flags = VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT};
    VkMemoryAllocateInfo allocate = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
                                     .pNext = &flags};
    VkMemoryRequirements need;
    if (p->size == 0 || p->size > g->caps.max_allocation) {
        err_set(e, ERR_LIMIT, "%s: a buffer of %llu bytes; the device allows %llu", p->name,
                (unsigned long long)p->size, (unsigned long long)g->caps.max_allocation);
        goto fail;
    }
    VKTRY(vkCreateBuffer(g->device, &info, NULL, &b->buffer));
    vkGetBufferMemoryRequirements(g->device, b->buffer, &need);
    int type = pick_type(g, need.memoryTypeBits, p->where);
    if (type < 0) {
        err_set(e, ERR_DEVICE, "%s: the device has no memory of the right kind", p->name);
        goto fail;
    }
    allocate.allocationSize = need.size;
    allocate.memoryTypeIndex = (uint32_t)type;
    VKTRY(vkAllocateMemory(g->device, &allocate, NULL, &b->memory));
    VKTRY(vkBindBufferMemory(g->device, b->buffer, b->memory, 0));
    if (p->where != GPU_LOCAL)
        VKTRY(vkMapMemory(g->device, b->memory, 0, VK_WHOLE_SIZE, 0, &b->map));
    VkBufferDeviceAddressInfo address = {.sType = VK_STRUCTURE_TYPE_BUFFER_DEVICE_ADDRESS_INFO,
                                         .buffer = b->buffer};
    b->address = vkGetBufferDeviceAddress(g->device, &address);
    if (g->set_name) {
        g->set_name(g->device, &(VkDebugUtilsObjectNameInfoEXT){
                                   .sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_OBJECT_NAME_INFO_EXT,
                                   .objectType = VK_OBJECT_TYPE_BUFFER,
                                   .objectHandle = (uint64_t)b->buffer,
                                   .pObjectName = p->name});
    }
    return true;
fail:
    gpu_buffer_destroy(g, b);
    err_prefix(e, "%s", p->name);
    return false;
}

void gpu_buffer_destroy(struct gpu *g, struct gpu_buffer *b)
{
    if (b->buffer)
        vkDestroyBuffer(g->device, b->buffer, NULL);
    if (b->memory)
        vkFreeMemory(g->device, b->memory, NULL); /* unmaps */
    memset(b, 0, sizeof *b);
}
