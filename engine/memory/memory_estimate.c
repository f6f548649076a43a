/* Turns measured rates into an estimated decode rate. Everything here is arithmetic; the
 * measuring is in memory_rates.c. */
#include "engine/memory/memory_rates.h"

#include <math.h>

/* Experts copied into slots per expert read over the bus, for one stream, by the share of experts
 * in slots. With many slots the least valuable resident has long decayed, so every newcomer
 * replaces it (0.53 at 0.73, 1.0 from 0.866 on; calibrated traces, two models). */
#define COPIES_AT 0.73
#define COPIES 0.53
#define COPIES_RISE ((1 - COPIES) / (0.866 - COPIES_AT))

/* LRU over all layers, over the calibrated routing traces of models with 128, 256 and 512 experts
 * (fcgi/cli/bench/routing.h). */
#define CURVES 3
static const double curve_experts[CURVES] = {128, 256, 512};
static const struct {
    double share, hit[CURVES];
} curve[] = {{0, {0, 0, 0}},
             {0.0625, {0.315, 0.616, 0.626}},
             {0.125, {0.660, 0.789, 0.751}},
             {0.1875, {0.750, 0.823, 0.782}},
             {0.25, {0.790, 0.848, 0.807}},
             {0.375, {0.847, 0.887, 0.850}},
             {0.5, {0.890, 0.918, 0.888}},
             {0.625, {0.925, 0.943, 0.922}},
             {0.75, {0.954, 0.965, 0.951}},
             {1, {1, 1, 1}}};

static double on_curve(int which, double share)
{
    const int n = sizeof curve / sizeof curve[0];
    for (int i = 1; i < n; i++)
        if (share <= curve[i].share) {
            double part = (share - curve[i - 1].share) / (curve[i].share - curve[i - 1].share);
            return curve[i - 1].hit[which] + part * (curve[i].hit[which] - curve[i - 1].hit[which]);
        }
    return 1;
}

double memory_hit_rate(double share, int32_t n_expert)
{
    if (!(share > 0))
        return 0;
    for (int i = 1; i < CURVES; i++)
        if (n_expert < curve_experts[i]) {
            double part =
                n_expert > curve_experts[i - 1] ? log2(n_expert / curve_experts[i - 1]) : 0;
            return (1 - part) * on_curve(i - 1, share) + part * on_curve(i, share);
        }
    return on_curve(CURVES - 1, share);
}

static double seconds(uint64_t bytes, double rate)
{
    return rate > 0 ? (double)bytes / rate : 0;
}

static double slot_copies(double in_slots)
{
    double share = COPIES + (in_slots - COPIES_AT) * COPIES_RISE;
    return share < 0 ? 0 : share > 1 ? 1 : share;
}

/* Seconds for a token's experts if all are in memory. With slots on a device, resident experts run
 * at its own rate and the others at the rate of the bus; those copied into a slot cross the bus
 * once more. */
static double expert_seconds(const struct memory_model *m, const struct memory_plan *p,
                             const struct backend_speed *s, double in_slots)
{
    bool split =
        s->link > 0 && (p->strategy == STRATEGY_HYBRID || p->strategy == STRATEGY_SSD_STREAMING);
    double own = seconds(m->active_experts, s->experts);
    if (!split)
        return own;
    return in_slots * own +
           (1 - in_slots) * (1 + slot_copies(in_slots)) *
               seconds(m->active_experts, s->link < s->experts ? s->link : s->experts);
}

static double share_of(uint64_t part, uint64_t whole)
{
    return whole ? (double)part / (double)whole : 0;
}

static double larger(double a, double b)
{
    return a > b ? a : b;
}

/* The expected number of layers of a token that miss an expert. */
static double layers_missing(const struct memory_model *m, double missing)
{
    return m->n_moe * (1 - pow(1 - missing, m->n_used));
}

/* Seconds of all layers when resident experts are computed while missing ones are read. A layer's
 * reads start when its router has chosen: a layer with many misses waits, and the disk is idle
 * while a layer without misses runs. So this is the mean over the number of misses, each
 * independent of the others. `computed`: all experts; `read`: the missing ones; `latency`: before
 * the first read of a layer. */
static double overlapped_seconds(const struct memory_model *m, double computed, double read,
                                 double latency, double missing)
{
    if (m->n_moe < 1 || m->n_used < 1 || missing <= 0 || missing >= 1)
        return larger(computed * (1 - missing), read + layers_missing(m, missing) * latency);
    const double layer_computed = computed / m->n_moe,
                 one_read = read / (m->n_moe * m->n_used * missing);
    double mean = 0, p = pow(1 - missing, m->n_used); /* that k are missing */
    for (int32_t k = 0; k <= m->n_used; k++) {
        mean += p * larger(layer_computed * (m->n_used - k) / m->n_used,
                           k ? latency + one_read * k : 0);
        p *= (double)(m->n_used - k) / (k + 1) * missing / (1 - missing);
    }
    return mean * m->n_moe;
}

struct memory_estimate memory_estimate_make(const struct memory_model *m,
                                            const struct memory_plan *p,
                                            const struct memory_rates *r, int32_t depth,
                                            double hit_rate)
{
    struct memory_estimate out = {.hit_rate = 1};
    const struct backend_speed *s = &r->speed;
    bool streams = p->strategy == STRATEGY_SSD_STREAMING, hybrid = p->strategy == STRATEGY_HYBRID;
    if (!(s->dense > 0) || (m->active_experts && !(s->experts > 0)) ||
        (streams && !(r->disk.bytes_per_s > 0)) || (hybrid && !(s->link > 0)))
        return out;
    double dense = seconds(m->active_dense, s->dense) +
                   seconds(p->kv_per_token * (uint64_t)depth, s->memory) + m->n_layer * s->layer_s;
    double in_slots = memory_hit_rate(share_of(p->device_experts, m->experts), m->n_expert);
    if (streams || hybrid)
        out.hit_rate = hit_rate >= 0 ? hit_rate
                       : hybrid
                           ? in_slots
                           : memory_hit_rate(share_of(p->expert_cache, m->cache_most), m->n_expert);
    if (streams)
        out.disk = r->disk;
    double experts =
        expert_seconds(m, p, s, in_slots < out.hit_rate && streams ? in_slots : out.hit_rate);
    uint64_t missed = streams ? (uint64_t)((double)m->active_experts * (1 - out.hit_rate)) : 0;
    out.compute_s = dense + experts;
    double missing = streams ? 1 - out.hit_rate : 0;
    double read =
        seconds(missed, r->disk.bytes_per_s * MEMORY_DISK_IN_STEPS) + seconds(missed, s->unpack);
    out.disk_s = read + layers_missing(m, missing) * r->disk.latency_s;
    double total = s->waits ? out.compute_s + out.disk_s
                            : dense + experts * missing +
                                  overlapped_seconds(m, experts, read, r->disk.latency_s, missing);
    out.tokens_per_s = total > 0 ? 1 / total : 0;
    return out;
}
