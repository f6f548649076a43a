/* Which of the machine's devices is taken: the one that was named, or the best. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/buf.h"
#include "engine/vulkan/device/gpu.h"

#define MAX_DEVICES 16
#define ID_DIGITS 8    /* of an id, from which on it may be cut off */
#define PLACE_DIGITS 2 /* more are a part of a name: 4090 */

struct choice {
    VkPhysicalDevice device;
    VkPhysicalDeviceType type;
    char name[VK_MAX_PHYSICAL_DEVICE_NAME_SIZE], id[GPU_ID_BYTES];
    bool meant;
};

struct choices {
    struct choice at[MAX_DEVICES];
    uint32_t n;
};

static int rank_of(VkPhysicalDeviceType t)
{
    return t == VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU     ? 4
           : t == VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU ? 3
           : t == VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU    ? 2
                                                         : 1;
}

/* The driver's UUID. Two that have the same, as one driver that is installed twice has, differ by
 * their places. */
static void name_device(struct choices *all, struct choice *c)
{
    VkPhysicalDeviceIDProperties id = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ID_PROPERTIES};
    VkPhysicalDeviceProperties2 p = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2,
                                     .pNext = &id};
    const uint8_t *u = id.deviceUUID;
    vkGetPhysicalDeviceProperties2(c->device, &p);
    c->type = p.properties.deviceType;
    memcpy(c->name, p.properties.deviceName, sizeof c->name);
    snprintf(c->id, sizeof c->id,
             "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", u[0], u[1],
             u[2], u[3], u[4], u[5], u[6], u[7], u[8], u[9], u[10], u[11], u[12], u[13], u[14],
             u[15]);
    int same = 0;
    for (struct choice *o = all->at; o < c; o++)
        same += !strncmp(o->id, c->id, GPU_UUID_LENGTH);
    if (same)
        snprintf(c->id + GPU_UUID_LENGTH, sizeof c->id - GPU_UUID_LENGTH, "/%d", same % 10);
}

static bool find_devices(const struct gpu *g, struct choices *all, struct err *e)
{
    VkPhysicalDevice list[MAX_DEVICES];
    all->n = MAX_DEVICES;
    const VkResult r = vkEnumeratePhysicalDevices(g->instance, &all->n, list);
    if ((r != VK_SUCCESS && r != VK_INCOMPLETE) || all->n == 0)
        return err_set(e, ERR_UNAVAILABLE, "no Vulkan device was found");
    for (uint32_t i = 0; i < all->n; i++) {
        all->at[i] = (struct choice){.device = list[i], .meant = true};
        name_device(all, &all->at[i]);
    }
    return true;
}

/* nvidia-smi, from which people copy, writes GPU- before a UUID. */
static const char *as_id(const char *which)
{
    const bool prefixed =
        !strncasecmp(which, "GPU-", 4) && strspn(which + 4, "0123456789abcdefABCDEF") >= ID_DIGITS;
    return prefixed ? which + 4 : which;
}

static bool is_named(const struct choice *c, uint32_t place, const char *which)
{
    const size_t length = strlen(which);
    if (length <= PLACE_DIGITS && strspn(which, "0123456789") == length)
        return (uint32_t)atoi(which) == place;
    const char *id = as_id(which);
    return (strlen(id) >= ID_DIGITS && !strncasecmp(c->id, id, strlen(id))) ||
           strcasestr(c->name, which);
}

/* The one whose whole id it is alone, though another's may begin with that. */
static void leave_named(struct choices *all, const char *which)
{
    const char *id = as_id(which);
    bool whole = false;
    for (uint32_t i = 0; i < all->n; i++)
        whole |= !strcasecmp(all->at[i].id, id);
    for (uint32_t i = 0; i < all->n; i++)
        all->at[i].meant = whole ? !strcasecmp(all->at[i].id, id) : is_named(&all->at[i], i, which);
}

static bool refuse(const struct choices *all, const char *which, struct err *e)
{
    char list[400];
    size_t used = 0;
    for (uint32_t i = 0; i < all->n && used < sizeof list; i++)
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%u: %.60s (%s)", i ? ", " : "",
                                 i, all->at[i].name, all->at[i].id);
    return err_field(e, ERR_INPUT, "device", "'%.60s' is no GPU of this machine, which has %s",
                     which, list);
}

static uint64_t free_memory(const struct gpu *g, const struct choice *c,
                            const struct gpu_caps *caps)
{
    const struct gpu as = {.instance = g->instance, .physical = c->device, .caps = *caps};
    uint64_t available, total;
    gpu_memory_free(&as, &available, &total);
    return available;
}

bool gpu_pick(struct gpu *g, struct err *e)
{
    struct choices all;
    int best = 0;
    uint64_t most = 0;
    bool named = false;
    if (!find_devices(g, &all, e))
        return false;
    if (g->wanted)
        leave_named(&all, g->wanted);
    for (uint32_t i = 0; i < all.n; i++) {
        const struct choice *c = &all.at[i];
        const int rank = rank_of(c->type);
        struct gpu_caps caps = {0};
        if (!c->meant)
            continue;
        named = true;
        if (rank < best || !gpu_read_caps(g, c->device, &caps, e))
            continue;
        const uint64_t available = free_memory(g, c, &caps);
        if (rank == best && available <= most)
            continue;
        best = rank;
        most = available;
        memcpy(caps.id, c->id, sizeof caps.id);
        g->physical = c->device;
        g->caps = caps;
    }
    return named ? best > 0 : refuse(&all, g->wanted, e);
}

bool gpu_is_named(const struct gpu *g, const char *which, const char *id)
{
    struct choices all;
    struct err ignored;
    if (!find_devices(g, &all, &ignored))
        return false;
    leave_named(&all, which);
    for (uint32_t i = 0; i < all.n; i++)
        if (all.at[i].meant && !strcmp(all.at[i].id, id))
            return true;
    return false;
}
