/* Draws routing traces by the laws of the header's table and looks experts up in them. */
#include "fcgi/cli/bench/routing.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/hash.h"
#include "engine/sched/sampling/random.h"

#define MAX_POSITIONS 16384
#define MAX_BYTES ((size_t)256 << 20)
#define MAX_USED 64

struct law { /* what the header's table says */
    double zipf, reuse, more;
    int32_t max_lag;
};

struct routing {
    struct routing_params params;
    int32_t length;      /* positions kept of each sequence */
    int32_t first, held; /* held: position, or -1 */
    size_t *layer_at;    /* [n_layer] where a layer's ids begin within a position */
    size_t per_position; /* ids of all layers */
    uint16_t *ids;       /* [n_sequences, length, per_position] */
    double *popularity;  /* [widest n_expert] cumulative, last 1 */
    uint16_t *order;     /* [widest n_expert] */
};

struct draw { /* one stream of random numbers */
    uint64_t key, at;
};

static double uniform(struct draw *d)
{
    return random_uniform(d->key, d->at++);
}

static int32_t below(struct draw *d, int32_t n)
{
    return (int32_t)(uniform(d) * n);
}

static struct draw stream(const struct routing *r, uint64_t what, uint64_t a, uint64_t b)
{
    const uint64_t words[4] = {r->params.seed, what, a, b};
    return (struct draw){.key = hash64(words, sizeof words, 0)};
}

static struct law law_for(const struct moe_plan *m, enum routing_kind kind)
{
    if (kind == ROUTING_IID)
        return (struct law){0};
    if (m->n_expert < 192)
        return (struct law){0.9, 0.6, 0.5, 8};
    if (m->n_expert < 384)
        return (struct law){0.8, 0.72, 0.65, 14};
    return (struct law){0.6, 0.7, 0.75, 16};
}

static void set_popularity(struct routing *r, int32_t n, double exponent)
{
    double sum = 0;
    for (int32_t i = 0; i < n; i++)
        r->popularity[i] = sum += pow(i + 1, -exponent);
    for (int32_t i = 0; i < n; i++)
        r->popularity[i] /= sum;
}

static void shuffle(struct routing *r, int32_t n, struct draw *d)
{
    for (int32_t i = 0; i < n; i++)
        r->order[i] = (uint16_t)i;
    for (int32_t i = n - 1; i > 0; i--) {
        int32_t j = below(d, i + 1);
        uint16_t kept = r->order[i];
        r->order[i] = r->order[j];
        r->order[j] = kept;
    }
}

static uint16_t popular(const struct routing *r, int32_t n, struct draw *d)
{
    double u = uniform(d);
    int32_t low = 0, high = n - 1; /* the first whose sum is above u */
    while (low < high) {
        int32_t middle = (low + high) / 2;
        if (r->popularity[middle] > u)
            high = middle;
        else
            low = middle + 1;
    }
    return r->order[low];
}

/* Where one layer's ids of a position lie, and where the same layer's ids of the position before.
 */
static uint16_t *ids_at(const struct routing *r, int32_t sequence, int32_t position, int32_t layer)
{
    size_t row = (size_t)sequence * (size_t)r->length + (size_t)position;
    return r->ids + row * r->per_position + r->layer_at[layer];
}

static bool holds(const uint16_t *ids, int32_t n, uint16_t id)
{
    for (int32_t i = 0; i < n; i++)
        if (ids[i] == id)
            return true;
    return false;
}

/* One token at one layer. The ids of the token `lag` before lie lag * per_position before its own.
 */
struct place {
    const struct moe_plan *moe;
    struct law law;
    const uint16_t *ids;
    int32_t position;
};

/* Draws one of a recent token's ids; -1 where the trace does not reach that far back. */
static int32_t recent(const struct routing *r, const struct place *p, struct draw *d)
{
    int32_t lag = 1;
    while (lag < p->law.max_lag && uniform(d) < p->law.more)
        lag++;
    return lag <= p->position ? p->ids[-(ptrdiff_t)r->per_position * lag + below(d, p->moe->n_used)]
                              : -1;
}

static uint16_t candidate(const struct routing *r, const struct place *p, struct draw *d)
{
    const int32_t id = p->law.reuse > 0 && uniform(d) < p->law.reuse ? recent(r, p, d) : -1;
    return id >= 0 ? (uint16_t)id : popular(r, p->moe->n_expert, d);
}

static void fill_layer(struct routing *r, int32_t sequence, int32_t layer, uint64_t round)
{
    const struct moe_plan *m = &r->params.plan->layers[layer].moe;
    struct law law = law_for(m, r->params.kind);
    struct draw d = stream(r, 1 + round, (uint64_t)sequence, (uint64_t)layer);
    set_popularity(r, m->n_expert, law.zipf);
    for (int32_t t = 0; t < r->length; t++) {
        bool turn = r->params.kind == ROUTING_SWITCH && t % ROUTING_SWITCH_TOKENS == 0;
        if (t == 0 || turn) { /* every sequence of one subject has the same favourites */
            struct draw order =
                stream(r, 0, (uint64_t)(t / ROUTING_SWITCH_TOKENS), (uint64_t)layer);
            shuffle(r, m->n_expert, &order);
        }
        uint16_t *ids = ids_at(r, sequence, t, layer);
        const struct place place = {.moe = m, .law = law, .ids = ids, .position = t};
        for (int32_t i = 0; i < m->n_used; i++) {
            do
                ids[i] = candidate(r, &place, &d);
            while (holds(ids, i, ids[i]));
        }
    }
}

void routing_renew(struct routing *r, uint64_t round)
{
    for (int32_t s = 0; s < r->params.n_sequences; s++)
        for (int32_t i = 0; i < r->params.plan->n_layer; i++)
            if (r->params.plan->layers[i].ffn == FFN_MOE)
                fill_layer(r, s, i, round);
}

static bool allocate(struct routing *r, struct err *e)
{
    const struct model_plan *plan = r->params.plan;
    int32_t widest = 0;
    r->layer_at = calloc((size_t)plan->n_layer, sizeof *r->layer_at);
    if (!r->layer_at)
        return err_set(e, ERR_NOMEM, "no memory for a routing trace");
    for (int32_t i = 0; i < plan->n_layer; i++) {
        const struct moe_plan *m = &plan->layers[i].moe;
        if (plan->layers[i].ffn != FFN_MOE)
            continue;
        r->layer_at[i] = r->per_position;
        r->per_position += (size_t)m->n_used;
        widest = m->n_expert > widest ? m->n_expert : widest;
        if (m->n_used > MAX_USED || m->n_expert > UINT16_MAX)
            return err_set(e, ERR_UNSUPPORTED, "layer %d uses %d of %d experts", i, m->n_used,
                           m->n_expert);
    }
    if (!widest)
        return err_set(e, ERR_INPUT, "the model has no routed experts");
    size_t most = MAX_BYTES / (r->per_position * sizeof *r->ids * (size_t)r->params.n_sequences);
    r->length = r->params.n_positions < MAX_POSITIONS ? r->params.n_positions : MAX_POSITIONS;
    if ((size_t)r->length > most)
        r->length = (int32_t)most;
    if (r->length < 1)
        return err_set(e, ERR_LIMIT, "%d sequences are too many for a routing trace",
                       r->params.n_sequences);
    r->ids = malloc((size_t)r->params.n_sequences * (size_t)r->length * r->per_position *
                    sizeof *r->ids);
    r->popularity = malloc((size_t)widest * sizeof *r->popularity);
    r->order = malloc((size_t)widest * sizeof *r->order);
    return (r->ids && r->popularity && r->order) ||
           err_set(e, ERR_NOMEM, "no memory for a routing trace");
}

struct routing *routing_create(const struct routing_params *p, struct err *e)
{
    struct routing *r = calloc(1, sizeof *r);
    if (!r) {
        err_set(e, ERR_NOMEM, "no memory for a routing trace");
        return NULL;
    }
    r->params = *p;
    r->held = -1;
    if (allocate(r, e))
        routing_renew(r, 0);
    else
        routing_destroy(&r);
    return r;
}

void routing_destroy(struct routing **r)
{
    if (!*r)
        return;
    free((*r)->layer_at);
    free((*r)->ids);
    free((*r)->popularity);
    free((*r)->order);
    free(*r);
    *r = NULL;
}

enum routing_kind routing_kind_of(const char *name)
{
    return !strcmp(name, "iid")          ? ROUTING_IID
           : !strcmp(name, "calibrated") ? ROUTING_CALIBRATED
           : !strcmp(name, "switch")     ? ROUTING_SWITCH
                                         : ROUTING_MODEL;
}

void routing_first(struct routing *r, int32_t first)
{
    r->first = first;
}

void routing_hold(struct routing *r, int32_t position)
{
    r->held = position;
}

/* What a step's row is told of a layer, and its position in the trace. */
static const uint16_t *trace_at(const struct routing *r, int32_t layer, int32_t sequence,
                                int32_t position, int32_t *at)
{
    *at = (r->held < 0 ? position : r->held) % r->length;
    return ids_at(r, (r->first + sequence) % r->params.n_sequences, *at, layer);
}

void routing_route(void *context, int32_t layer, int32_t sequence, int32_t position, int32_t *ids)
{
    const struct routing *r = context;
    int32_t at;
    const uint16_t *trace = trace_at(r, layer, sequence, position, &at);
    for (int32_t i = 0; i < r->params.plan->layers[layer].moe.n_used; i++)
        ids[i] = trace[i];
}

#define SURER 0.2        /* the first guess than the mean of all */
#define WRONG_RECENT 0.4 /* of wrong guesses: what a recent token used; the others: any */

/* That the guess of this rank is right. */
static double guess_share(const struct routing *r, const struct moe_plan *m, int32_t rank)
{
    const double mean = r->params.guess, most = mean < 1 - mean ? mean : 1 - mean,
                 by = most < SURER ? most : SURER;
    return m->n_used > 1 ? mean + by * (1 - 2.0 * rank / (m->n_used - 1)) : mean;
}

static int32_t wrong_guess(const struct routing *r, int32_t layer, int32_t sequence,
                           int32_t position, struct draw *d)
{
    const struct moe_plan *m = &r->params.plan->layers[layer].moe;
    struct place place = {.moe = m, .law = law_for(m, r->params.kind)};
    int32_t id = -1;
    place.ids = trace_at(r, layer, sequence, position, &place.position);
    if (place.law.reuse > 0 && uniform(d) < WRONG_RECENT)
        id = recent(r, &place, d);
    return id >= 0 ? id : below(d, m->n_expert);
}

void routing_guess(void *context, int32_t layer, int32_t sequence, int32_t position, int32_t *ids)
{
    const struct routing *r = context;
    const struct moe_plan *m = &r->params.plan->layers[layer].moe;
    int32_t spare =
        m->n_expert - m->n_used; /* experts that are not wanted, to guess wrongly with */
    struct draw d =
        stream(r, (uint64_t)1 << 32 | (uint64_t)layer, (uint64_t)sequence, (uint64_t)position);
    uint16_t wanted[MAX_USED];
    routing_route(context, layer, sequence, position, ids);
    for (int32_t i = 0; i < m->n_used; i++)
        wanted[i] = (uint16_t)ids[i];
    for (int32_t i = 0; i < m->n_used; i++) {
        if (uniform(&d) < guess_share(r, m, i) || spare < m->n_used)
            continue;
        bool again = true;
        while (again) {
            ids[i] = wrong_guess(r, layer, sequence, position, &d);
            again = holds(wanted, m->n_used, (uint16_t)ids[i]);
            for (int32_t k = 0; k < i; k++)
                again = again || ids[k] == ids[i];
        }
    }
}
