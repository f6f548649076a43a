/* One Vulkan device as this room uses it: one compute queue, buffers reached by address, pipelines
 * that share one layout (128 bytes of push constants, no descriptors), one command submitted at a
 * time.
 *
 * Who owns what: struct gpu owns everything made from it except buffers; it may be moved. Threads:
 * one owner, the engine's loop. A call that loses the device sets `lost`; from then on everything
 * fails with ERR_DEVICE. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <vulkan/vulkan.h>

#include "engine/backend/backend.h"
#include "engine/base/err.h"

#define GPU_PUSH_BYTES 128
#define GPU_UUID_LENGTH 36
#define GPU_ID_BYTES BACKEND_DEVICE_ID_BYTES
#define GPU_MAX_SPEC 44

struct gpu_caps {
    char name[VK_MAX_PHYSICAL_DEVICE_NAME_SIZE];
    char id[GPU_ID_BYTES];    /* the driver's UUID */
    bool software;            /* a CPU pretends: right, not fast */
    bool in_ram;              /* its memory is RAM: integrated or software */
    uint32_t subgroup;        /* threads of a subgroup */
    uint32_t max_threads;     /* of a workgroup */
    uint32_t max_shared;      /* bytes */
    uint64_t max_allocation;  /* bytes of one buffer */
    uint32_t multiprocessors; /* 0: the device does not say */
    float timestamp_ns;       /* 0: no timestamps */
    bool memory_budget;       /* VK_EXT_memory_budget */
    bool float16;             /* arithmetic on halves in shaders */
    bool cooperative_matrix; /* f16 x f16 -> f32, 16x16x16, one subgroup (VK_KHR_cooperative_matrix)
                              */
    bool cooperative_few;    /* the same in 16x8x16 */
    bool subgroup_control;   /* full subgroups can be asked for */
};

struct gpu_pipeline { /* cached by shader and constants */
    const char *shader;
    uint32_t spec[GPU_MAX_SPEC];
    VkPipeline pipeline;
};

struct gpu {
    const char
        *wanted; /* by the caller, until it is open: as backend_probe.device; NULL: the best */
    VkInstance instance;
    VkDebugUtilsMessengerEXT messenger;
    VkPhysicalDevice physical;
    VkDevice device;
    VkQueue queue;
    uint32_t family;
    VkPhysicalDeviceMemoryProperties memory;
    struct gpu_caps caps;
    PFN_vkSetDebugUtilsObjectNameEXT set_name; /* NULL without the extension */
    bool lost;

    VkCommandPool pool;
    VkSemaphore timeline;
    uint64_t submitted; /* value of the last submission */

    VkPipelineCache cache;
    VkPipelineLayout layout;
    struct gpu_pipeline *pipelines;
    int n_pipelines, cap_pipelines;
    char *cache_path;   /* NULL: not kept */
    size_t cache_bytes; /* as read: written back when it grew */
    bool capture;       /* benches: keep the compiler's statistics */
};

/* Checked call: on failure says which call failed and jumps to `fail`. */
#define VKTRY(call)                                                                                \
    do {                                                                                           \
        VkResult vk_result_ = (call);                                                              \
        if (vk_result_ != VK_SUCCESS) {                                                            \
            gpu_fail(g, vk_result_, &(struct gpu_call){#call, __FILE__, __LINE__}, e);             \
            goto fail;                                                                             \
        }                                                                                          \
    } while (0)

struct gpu_call { /* a call of Vulkan, for messages */
    const char *text, *file;
    int line;
};

/* Sets *e (ERR_DEVICE, ERR_NOMEM) from a VkResult, and g->lost. Always false. */
bool gpu_fail(struct gpu *g, VkResult r, const struct gpu_call *call, struct err *e);

/* --- instance.c, device.c */
bool gpu_open(struct gpu *g, const char *cache_dir,
              struct err *e);  /* g zeroed by the caller but for `wanted`; fails clean */
void gpu_close(struct gpu *g); /* accepts a zeroed struct */
bool gpu_instance_open(struct gpu *g, struct err *e);
/* What the device can do. ERR_UNSUPPORTED: it can't do what the shaders need. */
bool gpu_read_caps(struct gpu *g, VkPhysicalDevice d, struct gpu_caps *c, struct err *e);
/* choice.c: of those that are `wanted` and can do what the shaders need the best: discrete before
 * integrated before virtual before software; of several the one with the most free memory. Fails
 * with the reason of the last one refused. Fills caps. */
bool gpu_pick(struct gpu *g, struct err *e);
/* choice.c: does `which`, as wanted, mean the device with this id, perhaps among others? */
bool gpu_is_named(const struct gpu *g, const char *which, const char *id);
void gpu_instance_close(struct gpu *g);
/* Bytes free for us and in all of the device's own memory, as far as the driver tells. */
void gpu_memory_free(const struct gpu *g, uint64_t *available, uint64_t *total);

/* --- memory.c */
enum gpu_memory {
    GPU_LOCAL,    /* the device's own; no address on the host */
    GPU_UPLOAD,   /* written by the host, read by the device */
    GPU_STEP,     /* the same, in the device's own memory where that is possible (small) */
    GPU_READBACK, /* written by the device, read by the host */
    GPU_SHARED,   /* in RAM, cached by the processor: read by both */
};

struct gpu_buffer {
    VkBuffer buffer;
    VkDeviceMemory memory;
    VkDeviceAddress address;
    void *map; /* NULL for GPU_LOCAL */
    uint64_t size;
};

struct gpu_buffer_params {
    enum gpu_memory where;
    uint64_t size;
    const char *name; /* shows up in debuggers and in messages */
};

/* Memory is not cleared. */
bool gpu_buffer_create(struct gpu *g, const struct gpu_buffer_params *p, struct gpu_buffer *b,
                       struct err *e);
void gpu_buffer_destroy(struct gpu *g, struct gpu_buffer *b); /* accepts a zeroed struct */

/* --- command.c */
VkCommandBuffer gpu_command_begin(struct gpu *g, bool reusable,
                                  struct err *e); /* NULL on failure */
bool gpu_command_end(struct gpu *g, VkCommandBuffer c, struct err *e);
void gpu_command_free(struct gpu *g, VkCommandBuffer *c); /* accepts NULL; not while it runs */
/* Shaders and copies after this barrier see the results of all that came before it. */
void gpu_barrier(VkCommandBuffer c);
/* Submits without waiting; what is submitted later comes after it where a barrier says so. */
bool gpu_submit(struct gpu *g, VkCommandBuffer c, struct err *e);
/* Submits and waits; spins for a moment first, since a step is shorter than a wake-up. */
bool gpu_run(struct gpu *g, VkCommandBuffer c, struct err *e);

/* --- pipeline.c */
bool gpu_pipelines_open(struct gpu *g, const char *cache_dir, struct err *e);
void gpu_pipelines_close(struct gpu *g);
/* Writes what was compiled since it was read, so that a process that is killed has kept it. */
void gpu_pipelines_keep(struct gpu *g);
/* spec: values of constants 0 .. GPU_MAX_SPEC - 1. Compiled on first use, then kept. VK_NULL_HANDLE
 * on failure. */
VkPipeline gpu_pipeline(struct gpu *g, const char *shader, const uint32_t spec[GPU_MAX_SPEC],
                        struct err *e);
