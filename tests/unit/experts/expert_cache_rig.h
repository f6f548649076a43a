/* An expert cache over a model, used the way a step uses it. */
#pragma once
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/experts/cache/expert_cache.h"
#include "engine/experts/cache/expert_slots.h"
#include "engine/experts/policy/expert_history.h"
#include "tests/unit/support/expert_models.h"
#include "tests/unit/support/tiny_model.h"

struct rig {
    struct model *model;
    struct expert_layout layout;
    struct expert_cache *store;
};

extern struct err e;
void open_rig(struct rig *r, const char *path, struct expert_cache_params p);
void close_rig(struct rig *r);
const char *demo(void);
struct expert_counters counters(const struct rig *r);

/* The store's table shows the bytes that the model's mapping shows, in the first n matrices. */
void check_matrices(const struct rig *r, int32_t layer, int32_t expert, int n);

void check_bytes(const struct rig *r, int32_t layer, int32_t expert);

/* One layer of a step; returns false when the store says that it failed. */
bool use(struct rig *r, int32_t layer, const int32_t *ids, int32_t n, bool in_order);
