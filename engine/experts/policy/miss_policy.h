/* Who computes a layer's experts that the device has no slot for: the device over its bus, or the processor. Arithmetic
 * over rates that were measured on this machine, and the small file that keeps these rates. Pure functions but for the
 * file; any thread. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/backend/expert_rows.h"

/* The processor must be so much faster by estimate: what is estimated leaves things out, and the device's way waits for
 * nobody. */
#define MISS_POLICY_MARGIN 1.25

struct miss_rates { /* all > 0, or not known */
    double bus;       /* bytes per second that shaders read of host memory */
    double sync_s; /* of one layer: stopping for the host, and going on */
    double expert_s;  /* the processor, an expert with one row: its bytes through the kernels */
    double row_s;     /* and for each further row of it; >= 0 */
    bool cached;      /* host memory of the kind that the processor caches is not slower for the device */
    int32_t rows;     /* of a step at most: those of more go over the bus whatever the rates are. 0: none */
};

struct miss_shape { /* of a step */
    int32_t n_expert, n_used; /* of the layer that has the most experts */
    uint64_t expert_bytes;    /* of one, as it lies in host memory */
    double missing;           /* part of a step's distinct experts that have no slot, 0 to 1 */
};

/* n_expert, n_used and `missing` of a plan; expert_bytes stays 0. slots: part of all experts that have one, 0 to 1. */
struct miss_shape miss_shape_of(const struct model_plan *plan, double slots);
/* Distinct experts of a layer that n rows use, if they choose alike and independently. */
double miss_policy_distinct(const struct miss_shape *s, int32_t n_rows);
/* Seconds of a layer by either way. */
double miss_policy_bus_seconds(const struct miss_rates *r, const struct miss_shape *s, int32_t n_rows);
double miss_policy_cpu_seconds(const struct miss_rates *r, const struct miss_shape *s, int32_t n_rows);
/* False as well where a rate is not known, and for more rows than may. */
bool miss_policy_on_cpu(const struct miss_rates *r, const struct miss_shape *s, int32_t n_rows);
/* The rows, 1 .. r->rows, for which it is the processor: the longest run of them that reaches furthest. False: none. */
bool miss_policy_range(const struct miss_rates *r, const struct miss_shape *s, int32_t *first, int32_t *last);
/* "read over the bus", "computed on the cpu up to 8 rows", "computed on the cpu for 2 to 8 rows". */
const char *miss_policy_text(bool any, int32_t first, int32_t last, char text[64]);

/* What rates depend on beside the device: model, threads (0: one per core) and the precision of activations. */
uint64_t miss_policy_key(const struct model_plan *plan, int32_t n_threads, bool exact);
/* Kept in cache_dir for a day under device and key. False: not there, or too old. */
bool miss_rates_load(const char *cache_dir, const char *device, uint64_t key, struct miss_rates *r);
void miss_rates_save(const char *cache_dir, const char *device, uint64_t key, const struct miss_rates *r);
