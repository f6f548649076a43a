/* What is known about each expert from its use: how much and how lately it was wanted, and the checksum of its bytes.
 * Kept across restarts in one small file of the state folder.
 *
 * A score is a count of rows that halves every so many rows of its layer. Three are kept: a lively one, mostly recency,
 * and a usual one, mostly frequency, say what to keep (expert_eviction.h); a steady one says what to begin with at the next
 * start. Stored as log2(count) + time / half-life, which does not change while nothing happens. Layers have clocks of
 * their own, so that a long prefill does not make the layers that it has not reached yet look old.
 *
 * Not thread-safe: the cache's lock guards it. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/err.h"
#include "engine/experts/pack/expert_layout.h"

#define EXPERT_RECENCY_HALF_LIFE 8.0 /* rows; docs/speed/streaming.md has the sweep */
#define EXPERT_FREQUENCY_HALF_LIFE 256.0
#define EXPERT_FREQUENCY_WEIGHT (-6.0) /* what the usual count counts for beside the lively one, as a power of two */
#define EXPERT_LONG_TERM_HALF_LIFE 4096.0

struct expert_history {
    int32_t n_layers, n; /* n: experts of all layers */
    int32_t *first;      /* [n_layers + 1] a layer's experts begin here */
    double *clock;       /* [n_layers] rows that the layer has seen */
    double *recency, *frequency, *long_term; /* [n] -INFINITY: never wanted */
    uint64_t *sums;      /* [n] checksum; 0: not learnt yet */
    bool *checked;       /* [n] read and found right since the start */
    uint64_t key, files; /* of the model, of its files' identities */
};

bool expert_history_init(struct expert_history *h, const struct expert_layout *l, uint64_t model, struct err *e);
void expert_history_fini(struct expert_history *h); /* accepts a zeroed struct */
/* Layers by their index in the layout. First the step's rows, then each wanted expert's. */
void expert_history_advance(struct expert_history *h, int32_t layer, int32_t rows);
void expert_history_touch(struct expert_history *h, int32_t layer, int32_t expert, int32_t rows, int32_t of_rows);
/* Higher: keep. Comparable over layers, now. */
double expert_history_recency(const struct expert_history *h, int32_t layer, int32_t expert);
/* The same by the usual score, and by the steady one. */
double expert_history_frequency(const struct expert_history *h, int32_t layer, int32_t expert);
double expert_history_long_term(const struct expert_history *h, int32_t layer, int32_t expert);

bool expert_history_save(const struct expert_history *h, const char *folder, struct err *e);
/* False: no such file, or it is of no use here (then *e says why). Checksums are taken over only when the files are the
 * same as then. */
bool expert_history_load(struct expert_history *h, const char *folder, struct err *e);
