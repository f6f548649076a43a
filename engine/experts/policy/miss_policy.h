/* Decides who computes a layer's experts that are not resident on the device: the device, reading
 * them over the bus, or the CPU. It is arithmetic over rates measured on this machine, which are
 * kept in a small file. Pure functions except for the file; any thread. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/backend/expert_rows.h"

/* The CPU must be this much faster by estimate, because the estimate leaves things out and the
 * device path needs no synchronisation. */
#define MISS_POLICY_MARGIN 1.25

struct miss_rates {  /* all > 0, or not known */
    double bus;      /* bytes per second that shaders read of host memory */
    double sync_s;   /* per layer: synchronising with the host */
    double expert_s; /* the CPU's time for an expert with one row */
    double row_s;    /* and for each further row; >= 0 */
    bool cached;     /* cached host memory is not slower for the device */
    int32_t rows;    /* most rows of a step for the CPU; larger steps always use the bus. 0: none */
};

struct miss_shape {           /* of a step */
    int32_t n_expert, n_used; /* of the layer that has the most experts */
    uint64_t expert_bytes;    /* of one expert, in host memory */
    double missing;           /* share of a step's distinct experts without a slot, 0 to 1 */
};

/* n_expert, n_used and `missing` of a plan; expert_bytes stays 0. slots: share of all experts that
 * have one, 0 to 1. */
struct miss_shape miss_shape_of(const struct model_plan *plan, double slots);
/* Expected distinct experts of a layer for n rows that choose uniformly and independently. */
double miss_policy_distinct(const struct miss_shape *s, int32_t n_rows);
/* Seconds per layer over the bus, and on the CPU. */
double miss_policy_bus_seconds(const struct miss_rates *r, const struct miss_shape *s,
                               int32_t n_rows);
double miss_policy_cpu_seconds(const struct miss_rates *r, const struct miss_shape *s,
                               int32_t n_rows);
/* True if the CPU is faster. False if a rate is unknown, or for more rows than r->rows. */
bool miss_policy_on_cpu(const struct miss_rates *r, const struct miss_shape *s, int32_t n_rows);
/* The range of rows, within 1 .. r->rows, for which the CPU is faster; of several, the last. False:
 * none. */
bool miss_policy_range(const struct miss_rates *r, const struct miss_shape *s, int32_t *first,
                       int32_t *last);
/* "read over the bus", "computed on the cpu up to 8 rows", "computed on the cpu for 2 to 8 rows".
 */
const char *miss_policy_text(bool any, int32_t first, int32_t last, char text[64]);

/* A key of what the rates depend on beside the device: model, threads (0: one per core) and
 * precision. */
uint64_t miss_policy_key(const struct model_plan *plan, int32_t n_threads, unsigned arithmetic);
/* Rates are kept in cache_dir for a day by device and key. False: there are none, or they are too
 * old. */
bool miss_rates_load(const char *cache_dir, const char *device, uint64_t key, struct miss_rates *r);
void miss_rates_save(const char *cache_dir, const char *device, uint64_t key,
                     const struct miss_rates *r);
