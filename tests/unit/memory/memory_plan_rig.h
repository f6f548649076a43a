/* Machines and models that do not exist, for tests of the memory planner. */
#pragma once
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/memory/memory_rates.h"
#include "engine/memory/memory_text.h"

#define MB ((uint64_t)1000000)
#define GB ((uint64_t)1000000000)
#define HOST_SLOT (70 * MB) /* of a device's experts in RAM */
#define BLOCK                                                                                      \
    (2 * (uint64_t)1000000) /* bytes of a KV block in RAM; on the device twice as many             \
                             */

struct fake { /* a backend that takes what this says */
    bool gpu;
    uint64_t weights, experts, state;
    enum err_code refuse;
};

bool fake_estimate(void *context, const struct backend_params *p, struct backend_memory *m,
                   struct err *e);
extern struct fake cpu, gpu;

/* dense and expert bytes of a model with 64 layers */
struct memory_input input_of(uint64_t dense, uint64_t experts, uint64_t ram_total,
                             uint64_t ram_free);

struct memory_plan planned(const struct memory_input *in);
