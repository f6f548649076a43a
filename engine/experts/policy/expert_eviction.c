/* Chooses the record to evict by recency or by frequency, whichever was wrong less often lately,
 * and caches the least valuable expert of each layer. */
#include "engine/experts/policy/expert_eviction.h"

#include <math.h>
#include <stdlib.h>

#define VOTE_HALF_LIFE 16.0 /* rows of every layer */

bool expert_eviction_init(struct expert_eviction *v, const struct expert_history *h, struct err *e)
{
    const size_t n = (size_t)h->n + 1;
    *v = (struct expert_eviction){.history = h};
    v->layers = calloc((size_t)h->n_layers + 1, sizeof *v->layers);
    v->evictable = calloc(n, sizeof *v->evictable);
    v->rival = malloc(n * sizeof *v->rival);
    v->named_by = calloc(n, sizeof *v->named_by);
    if (!v->layers || !v->evictable || !v->rival || !v->named_by) {
        expert_eviction_fini(v);
        return err_set(e, ERR_NOMEM, "no memory for the eviction of experts");
    }
    for (size_t i = 0; i < n; i++)
        v->rival[i] = -1;
    return true;
}

void expert_eviction_fini(struct expert_eviction *v)
{
    free(v->layers);
    free(v->evictable);
    free(v->rival);
    free(v->named_by);
    *v = (struct expert_eviction){0};
}

void expert_eviction_allow(struct expert_eviction *v, int32_t layer, int32_t expert, bool evictable)
{
    v->evictable[v->history->first[layer] + expert] = evictable;
    v->layers[layer].known = false;
}

void expert_eviction_advance(struct expert_eviction *v, int32_t layer, int32_t rows)
{
    v->frequency_lead *= exp2(-rows / (VOTE_HALF_LIFE * v->history->n_layers));
    v->layers[layer].known = false;
}

void expert_eviction_wanted(struct expert_eviction *v, int32_t layer, int32_t expert)
{
    const int32_t i = v->history->first[layer] + expert, rival = v->rival[i];
    v->layers[layer].known = false;
    if (rival < 0)
        return;
    v->frequency_lead += v->named_by[i] == EVICT_BY_FREQUENCY ? -1 : 1;
    v->rival[i] = v->rival[rival] = -1;
}

enum eviction_rule expert_eviction_rule(const struct expert_eviction *v)
{
    return v->frequency_lead >= 0 ? EVICT_BY_FREQUENCY : EVICT_BY_RECENCY;
}

/* The lowest value is evicted first. Values are comparable over layers at one time. */
static double value(const struct expert_history *h, int32_t layer, int32_t i,
                    enum eviction_rule rule)
{
    const int32_t expert = i - h->first[layer];
    const double recent = expert_history_recency(h, layer, expert);
    return rule == EVICT_BY_RECENCY
               ? recent
               : fmax(recent, expert_history_frequency(h, layer, expert) + EXPERT_FREQUENCY_WEIGHT);
}

static void find_least(struct expert_eviction *v, int32_t layer)
{
    const struct expert_history *h = v->history;
    struct eviction_layer *l = &v->layers[layer];
    double least[EVICT__N] = {0};
    *l = (struct eviction_layer){.least = {-1, -1}, .known = true};
    for (int32_t i = h->first[layer]; i < h->first[layer + 1]; i++)
        for (enum eviction_rule rule = 0; v->evictable[i] && rule < EVICT__N; rule++) {
            const double is = value(h, layer, i, rule);
            if (l->least[rule] >= 0 && is >= least[rule])
                continue;
            least[rule] = is;
            l->least[rule] = i;
        }
}

struct eviction_choice expert_eviction_choose(struct expert_eviction *v, const int32_t *class_of,
                                              int32_t size_class)
{
    const enum eviction_rule decides = expert_eviction_rule(v);
    struct eviction_choice c = {.layer = -1, .expert = -1, .named = {-1, -1}};
    double least[EVICT__N] = {0};
    for (int32_t layer = 0; layer < v->history->n_layers; layer++) {
        if (size_class >= 0 && class_of[layer] != size_class)
            continue;
        if (!v->layers[layer].known)
            find_least(v, layer);
        for (enum eviction_rule rule = 0; rule < EVICT__N; rule++) {
            const int32_t i = v->layers[layer].least[rule];
            const double is = i < 0 ? INFINITY : value(v->history, layer, i, rule);
            if (i < 0 || (c.named[rule] >= 0 && is >= least[rule]))
                continue;
            least[rule] = is;
            c.named[rule] = i;
            if (rule == decides) {
                c.layer = layer;
                c.expert = i - v->history->first[layer];
            }
        }
    }
    return c;
}

void expert_eviction_done(struct expert_eviction *v, const struct eviction_choice *c)
{
    const int32_t recent = c->named[EVICT_BY_RECENCY], frequent = c->named[EVICT_BY_FREQUENCY];
    if (recent == frequent || recent < 0 || frequent < 0 || v->rival[recent] >= 0 ||
        v->rival[frequent] >= 0)
        return;
    v->rival[recent] = frequent;
    v->rival[frequent] = recent;
    v->named_by[recent] = EVICT_BY_RECENCY;
    v->named_by[frequent] = EVICT_BY_FREQUENCY;
}
