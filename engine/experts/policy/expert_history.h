/* The use history of each expert: how often and how recently it was wanted, and the checksum of its
 * bytes. It is kept across restarts in one small file of the state folder.
 *
 * A score is a count of rows that decays with a half-life, in rows of its layer. There are three:
 * recency (short half-life) and frequency (longer) decide what to keep (expert_eviction.h);
 * long_term decides what to read first at the next start. They are stored as log2(count) + time /
 * half-life, which does not change while an expert is not used. Each layer has its own clock, so
 * that a long prefill does not age the layers that it has not reached yet.
 *
 * Not thread-safe: the cache's lock guards it. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/err.h"
#include "engine/experts/pack/expert_layout.h"

#define EXPERT_RECENCY_HALF_LIFE 8.0 /* rows; docs/speed/streaming.md has the sweep */
#define EXPERT_FREQUENCY_HALF_LIFE 256.0
#define EXPERT_FREQUENCY_WEIGHT (-6.0) /* log2 of the weight of frequency relative to recency */
#define EXPERT_LONG_TERM_HALF_LIFE 4096.0

struct expert_history {
    int32_t n_layers, n;                     /* n: experts of all layers */
    int32_t *first;                          /* [n_layers + 1] a layer's experts begin here */
    double *clock;                           /* [n_layers] rows that the layer has seen */
    double *recency, *frequency, *long_term; /* [n] scores; -INFINITY: never wanted */
    uint64_t *sums;                          /* [n] checksums; 0: not known yet */
    bool *checked;                           /* [n] verified since the start */
    uint64_t key, files;                     /* of the model, of its files' identities */
};

bool expert_history_init(struct expert_history *h, const struct expert_layout *l, uint64_t model,
                         struct err *e);
void expert_history_fini(struct expert_history *h); /* accepts a zeroed struct */
/* Layers are indices in the layout. Call advance with the rows of the step, then touch for each
 * wanted expert. */
void expert_history_advance(struct expert_history *h, int32_t layer, int32_t rows);
void expert_history_touch(struct expert_history *h, int32_t layer, int32_t expert, int32_t rows,
                          int32_t of_rows);
/* Scores as of now, comparable over layers; a higher one is worth more. */
double expert_history_recency(const struct expert_history *h, int32_t layer, int32_t expert);
double expert_history_frequency(const struct expert_history *h, int32_t layer, int32_t expert);
double expert_history_long_term(const struct expert_history *h, int32_t layer, int32_t expert);

bool expert_history_save(const struct expert_history *h, const char *folder, struct err *e);
/* False: there is no such file, or it cannot be used (*e says why). Checksums are used only if the
 * model's files have not changed since. */
bool expert_history_load(struct expert_history *h, const char *folder, struct err *e);
