/* Where a step's time goes: a timestamp at every barrier of a recorded step. For measurements; off
 * in service. Same thread as the backend. */
#pragma once
#include "engine/vulkan/device/gpu.h"

#define PROFILE_MAX 4096

struct profile {
    VkQueryPool pool;
    int n;
    const char *label[PROFILE_MAX]; /* of the op before the timestamp; static strings */
};

/* ERR_UNSUPPORTED where the device's queue has no timestamps. */
bool profile_open(struct profile *p, struct gpu *g, struct err *e);
void profile_close(struct profile *p, struct gpu *g); /* accepts a zeroed struct */
void profile_begin(struct profile *p, VkCommandBuffer c);
void profile_mark(struct profile *p, VkCommandBuffer c, const char *label);
/* After the step ran: the microseconds before each timestamp but the first, us[n]; returns n. */
int profile_read(struct profile *p, struct gpu *g, double us[PROFILE_MAX], struct err *e);
