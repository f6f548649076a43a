/* Which experts the rows of a measurement go to. Random weights route every token at random, which
 * no trained model does and which leaves an expert cache nothing to keep; a trace of a known kind
 * says what a cache would do.
 *
 *   iid         every token draws its experts uniformly: the worst case of any cache
 *   calibrated  each of a token's experts is, with probability r, copied from a recent token (its
 * lag is geometric, going on with p, at most m), else drawn by Zipf's law with exponent z over an
 * order of the layer's experts. What was drawn twice is drawn again. The numbers depend on the
 * count of experts: experts    z    r    p     m     hit rates of an LRU cache of N experts a layer
 *                      128    0.9  0.6   0.5   8     N = 8: 46 %, 24: 76 %, 49: 85 %, 81: 93 %
 *                      256    0.8  0.72  0.65  14    N = 16: 65 %, 32: 79 %, 64: 85 %, 96: 89 %,
 * 128: 92 % 512    0.6  0.7   0.75  16    N = 64: 75 %, 128: 81 % Those of 128 and 512 lie near
 * what was published for Qwen3-30B-A3B and a model with 512 experts; the row for 256 has no such
 * witness. switch      calibrated, and every 200 tokens the order changes: the subject does
 *
 * Create, renew: one thread. The lookup is pure: any thread. */
#pragma once
#include <stdint.h>

#include "engine/base/err.h"
#include "engine/model/plan.h"

#define ROUTING_KINDS "model|iid|calibrated|switch"
#define ROUTING_SWITCH_TOKENS 200

enum routing_kind {
    ROUTING_MODEL /* the model's own router: no trace */,
    ROUTING_IID,
    ROUTING_CALIBRATED,
    ROUTING_SWITCH
};

struct routing;

struct routing_params {
    const struct model_plan *plan; /* its layers with experts; outlives the trace */
    enum routing_kind kind;        /* not ROUTING_MODEL */
    uint64_t seed;
    double guess; /* share of a layer's experts that the layer before knows, 0 to 1: by rank up to
                     a fifth more at first and as much less at last, as far as that stays within 0
                     to 1; in place of the others it names experts that are not wanted: two in five
                     that a recent token used, the others any. docs/speed/streaming.md: as a trained
                     model does */
    int32_t n_sequences;
    int32_t n_positions; /* of each; the trace starts anew after 16,384, or after fewer where it
                            would pass 256 MiB */
};

/* One of ROUTING_KINDS. */
enum routing_kind routing_kind_of(const char *name);
struct routing *routing_create(const struct routing_params *p, struct err *e);
void routing_destroy(struct routing **r); /* accepts NULL */
/* Other draws, same popularity of experts: a repeat must not find what the one before it left in
 * the cache. */
void routing_renew(struct routing *r, uint64_t round);
/* Sequence i of a step has the trace of sequence first + i. */
void routing_first(struct routing *r, int32_t first);
/* Every token goes where the one at this position does: what is resident once stays so. -1: the
 * trace again. */
void routing_hold(struct routing *r, int32_t position);
/* backend_params.route and guess; context is the struct routing. */
void routing_route(void *context, int32_t layer, int32_t sequence, int32_t position, int32_t *ids);
void routing_guess(void *context, int32_t layer, int32_t sequence, int32_t position, int32_t *ids);
