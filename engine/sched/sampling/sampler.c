/* Applies bias, penalties and filters to one row of logits and draws one token from it. */
#include "engine/sched/sampling/sampler.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/sched/sampling/random.h"
#include "engine/sched/sampling/topk.h"
#include "engine/sched/sampling/typical.h"

#define IN_PROMPT 0x80000000u

struct sampler_workspace {
    int32_t n_vocab;
    float *logits; /* [n_vocab] the row after bias and penalties */
    float *weight; /* [n_vocab] exp((logit - max) / temperature), of a row or of the list */
    struct candidate *list; /* [n_vocab] the best, in order */
};

struct sampler {
    struct engine_sampling params; /* params.bias is a copy of ours */
    int32_t n_vocab;
    bool penalties;
    uint64_t position; /* tokens picked so far */
    /* With penalties only: [n_vocab] times seen in the answer, and IN_PROMPT; the ids with a count,
     * in order of sight. */
    uint32_t *count;
    int32_t *seen;
    int32_t n_seen, cap_seen;
    /* With a penalty_window only: [n_text] prompt (~id) and answer (id); the counts are
     * recomputed for each token. */
    int32_t *text;
    int32_t n_text, cap_text;
    const struct token_rules *rules; /* NULL: none */
};

struct sampler_workspace *sampler_workspace_create(int32_t n_vocab, struct err *e)
{
    struct sampler_workspace *w = calloc(1, sizeof *w);
    if (w) {
        w->n_vocab = n_vocab;
        w->logits = calloc((size_t)n_vocab, sizeof *w->logits);
        w->list = malloc((size_t)n_vocab * sizeof *w->list);
        w->weight = malloc((size_t)n_vocab * sizeof *w->weight);
    }
    if (!w || !w->logits || !w->list || !w->weight) {
        err_set(e, ERR_NOMEM, "no memory for sampling over %d tokens", n_vocab);
        sampler_workspace_destroy(&w);
    }
    return w;
}

void sampler_workspace_destroy(struct sampler_workspace **w)
{
    if (!*w)
        return;
    free((*w)->logits);
    free((*w)->list);
    free((*w)->weight);
    free(*w);
    *w = NULL;
}

struct sampler *sampler_create(const struct engine_sampling *params, int32_t n_vocab, struct err *e)
{
    struct sampler *s = calloc(1, sizeof *s);
    if (!s)
        goto nomem;
    s->params = *params;
    s->params.bias = NULL;
    s->n_vocab = n_vocab;
    if (params->n_bias > 0) {
        struct engine_bias *bias = malloc((size_t)params->n_bias * sizeof *bias);
        if (!bias)
            goto nomem;
        memcpy(bias, params->bias, (size_t)params->n_bias * sizeof *bias);
        s->params.bias = bias;
    }
    for (int32_t i = 0; i < params->n_bias; i++)
        if (params->bias[i].id < 0 || params->bias[i].id >= n_vocab) {
            err_field(e, ERR_INPUT, "logit_bias", "token %d is outside the vocabulary of %d",
                      params->bias[i].id, n_vocab);
            sampler_destroy(&s);
            return NULL;
        }
    s->penalties = params->repetition_penalty != 1 || params->presence_penalty != 0 ||
                   params->frequency_penalty != 0;
    if (s->penalties) {
        s->count = calloc((size_t)n_vocab, sizeof *s->count);
        if (!s->count)
            goto nomem;
    }
    return s;
nomem:
    err_set(e, ERR_NOMEM, "no memory for a sampler");
    sampler_destroy(&s);
    return NULL;
}

void sampler_destroy(struct sampler **s)
{
    if (!*s)
        return;
    free((void *)(*s)->params.bias);
    free((*s)->count);
    free((*s)->seen);
    free((*s)->text);
    free(*s);
    *s = NULL;
}

static bool push(int32_t **list, int32_t *n, int32_t *cap, int32_t v)
{
    if (*n == *cap) {
        int32_t more = *cap ? *cap * 2 : 256;
        int32_t *grown = realloc(*list, (size_t)more * sizeof *grown);
        if (!grown)
            return false;
        *list = grown;
        *cap = more;
    }
    (*list)[(*n)++] = v;
    return true;
}

/* Without memory for one more distinct id, that id is not penalised: a slightly worse answer is
 * better than none. */
static void count_token(struct sampler *s, int32_t id, uint32_t mark)
{
    if (s->count[id] || push(&s->seen, &s->n_seen, &s->cap_seen, id))
        s->count[id] = mark ? s->count[id] | IN_PROMPT : s->count[id] + 1;
}

/* A token of the prompt (mark IN_PROMPT) or of the answer (mark 0). */
static void observe(struct sampler *s, int32_t id, uint32_t mark)
{
    if (!s->penalties || id < 0 || id >= s->n_vocab)
        return;
    if (s->params.penalty_window)
        push(&s->text, &s->n_text, &s->cap_text, mark ? ~id : id);
    else
        count_token(s, id, mark);
}

static void count_window(struct sampler *s)
{
    for (int32_t i = 0; i < s->n_seen; i++)
        s->count[s->seen[i]] = 0;
    s->n_seen = 0;
    for (int32_t i = s->n_text > s->params.penalty_window ? s->n_text - s->params.penalty_window
                                                          : 0;
         i < s->n_text; i++)
        count_token(s, s->text[i] < 0 ? ~s->text[i] : s->text[i], s->text[i] < 0 ? IN_PROMPT : 0);
}

void sampler_set_rules(struct sampler *s, const struct token_rules *rules)
{
    s->rules = rules;
}

void sampler_add_prompt(struct sampler *s, const int32_t *ids, int32_t n)
{
    for (int32_t i = 0; i < n; i++)
        observe(s, ids[i], IN_PROMPT);
}

bool sampler_wants_logits(const struct sampler *s)
{
    if (s->penalties || s->params.n_bias || (s->rules && token_rules_active(s->rules)))
        return true;
    return s->params.temperature > 0 && (s->params.top_k == 0 || s->params.top_k > BACKEND_MAX_TOP);
}

int32_t sampler_n_top(const struct sampler *s, int32_t top_logprobs)
{
    int32_t n = top_logprobs > 1 ? top_logprobs : 1;
    if (s->params.temperature > 0 && !sampler_wants_logits(s) && s->params.top_k > n)
        n = s->params.top_k;
    return n < s->n_vocab ? n : s->n_vocab;
}

/* A NaN or overflow of the backend must cost one token its chance, not break the whole
 * distribution. */
static float sanitize(float v)
{
    if (isnan(v))
        return -INFINITY;
    return v > FLT_MAX ? FLT_MAX : v;
}

static void apply_penalties(const struct sampler *s, float *logits)
{
    const struct engine_sampling *params = &s->params;
    for (int32_t i = 0; i < params->n_bias; i++)
        logits[params->bias[i].id] = sanitize(logits[params->bias[i].id] + params->bias[i].bias);
    for (int32_t i = 0; i < s->n_seen; i++) {
        int32_t id = s->seen[i];
        uint32_t n = s->count[id] & ~IN_PROMPT;
        float v = logits[id];
        v = v > 0 ? v / params->repetition_penalty : v * params->repetition_penalty;
        if (n)
            v -= params->presence_penalty + params->frequency_penalty * (float)n;
        logits[id] = sanitize(v);
    }
    if (s->rules)
        token_rules_apply(s->rules, logits, s->n_vocab);
}

/* Draws among n weights; u in [0, 1). */
static int32_t draw(const float *weight, int32_t n, double total, double u)
{
    double left = u * total;
    int32_t last = 0;
    for (int32_t i = 0; i < n; i++) {
        if (weight[i] <= 0)
            continue;
        last = i; /* rounding may leave a remainder after the last weight */
        left -= (double)weight[i];
        if (left < 0)
            return i;
    }
    return last;
}

/* 1 / temperature, finite: the greatest logit's distance of 0 must stay 0 */
static float inverse_temperature(const struct sampler *s)
{
    float sharpness = 1 / s->params.temperature;
    return sharpness < FLT_MAX ? sharpness : FLT_MAX;
}

/* top_p, min_p and the draw over w->list, which is in order; its weights sum to at most `total`,
 * the rest being below them. n >= 1, and a finite best logit. */
static int32_t draw_ordered(const struct sampler *s, struct sampler_workspace *w, int32_t n,
                            double total, double u)
{
    double kept = 0;
    int32_t k = 0;
    for (int32_t i = 0; i < n; i++)
        w->weight[i] = topk_weight(w->list[i].logit, w->list[0].logit, inverse_temperature(s));
    while (k < n &&
           (k == 0 || (kept < (double)s->params.top_p * total && w->weight[k] >= s->params.min_p)))
        kept += (double)w->weight[k++];
    return w->list[draw(w->weight, k, kept, u)].id;
}

static bool wants_typical(const struct sampler *s)
{
    return s->params.typical_p > 0 && s->params.typical_p < 1;
}

static double list_total(const struct sampler *s, const struct sampler_workspace *w, int32_t n)
{
    double total = 0;
    for (int32_t i = 0; i < n; i++)
        total += (double)topk_weight(w->list[i].logit, w->list[0].logit, inverse_temperature(s));
    return total;
}

/* Applies typical_p to `list`, which is w->list, then draws as draw_ordered does. -1: the list is
 * too short to decide. */
static int32_t draw_typical(const struct sampler *s, struct sampler_workspace *w,
                            const struct typical *t, const struct typical_list *list, double u)
{
    struct typical_range kept;
    if (!typical_interval(t, list, &kept))
        return -1;
    memmove(w->list, w->list + kept.from, (size_t)kept.n * sizeof *w->list);
    return draw_ordered(s, w, kept.n, list_total(s, w, kept.n), u);
}

static int32_t draw_top_k(const struct sampler *s, struct sampler_workspace *w, int32_t k, double u)
{
    if (!wants_typical(s))
        return draw_ordered(s, w, k, list_total(s, w, k), u);
    struct typical t = {.max = w->list[0].logit, .sharpness = inverse_temperature(s)};
    const struct typical_list list = {.at = w->list, .n = k, .complete = true};
    for (int32_t i = 0; i < k; i++)
        typical_add(&t, w->list[i].logit, topk_weight(w->list[i].logit, t.max, t.sharpness));
    typical_want(&t, s->params.typical_p);
    return draw_typical(s, w, &t, &list, u);
}

/* top_p without top_k. Sorting the whole vocabulary would be slow, so only tokens above a floor are
 * sorted, and the floor is lowered until they hold enough of the total weight. */
static int32_t draw_nucleus(const struct sampler *s, struct sampler_workspace *w, float max,
                            double u)
{
    double total = topk_weights(w->logits, w->n_vocab, max, inverse_temperature(s), w->weight);
    for (float floor = 1e-2f;; floor *= 1e-2f) {
        double held = 0;
        int32_t n = 0;
        bool all =
            floor < FLT_MIN || floor <= s->params.min_p; /* nothing lower may be kept anyway */
        float least = all ? s->params.min_p : floor;
        for (int32_t i = 0; i < w->n_vocab; i++) {
            if (w->weight[i] <= 0 || w->weight[i] < least)
                continue;
            held += (double)w->weight[i];
            w->list[n++] = (struct candidate){w->logits[i], i};
        }
        if (!all && held < (double)s->params.top_p * total)
            continue;
        topk_sort(w->list, n);
        return draw_ordered(s, w, n, total, u);
    }
}

/* typical_p without top_k, with the same lowered floor, until the kept range lies above it. */
static int32_t draw_typical_all(const struct sampler *s, struct sampler_workspace *w, float max,
                                double u)
{
    struct typical t = {.max = max, .sharpness = inverse_temperature(s)};
    topk_weights(w->logits, w->n_vocab, max, t.sharpness, w->weight);
    for (int32_t i = 0; i < w->n_vocab; i++)
        typical_add(&t, w->logits[i], w->weight[i]);
    typical_want(&t, s->params.typical_p);
    for (float floor = 1e-2f;; floor *= 1e-2f) {
        bool all = floor < FLT_MIN;
        int32_t n = 0;
        for (int32_t i = 0; i < w->n_vocab; i++)
            if (w->weight[i] > 0 && (all || w->weight[i] >= floor))
                w->list[n++] = (struct candidate){w->logits[i], i};
        topk_sort(w->list, n);
        const struct typical_list list = {.at = w->list, .n = n, .complete = all};
        const int32_t id = draw_typical(s, w, &t, &list, u);
        if (id >= 0)
            return id;
    }
}

/* Without top_k and top_p the tokens need no order. */
static int32_t draw_plain(const struct sampler *s, struct sampler_workspace *w, float max, double u)
{
    double total = topk_weights(w->logits, w->n_vocab, max, inverse_temperature(s), w->weight);
    if (s->params.min_p > 0) {
        total = 0;
        for (int32_t i = 0; i < w->n_vocab; i++) {
            if (w->weight[i] < s->params.min_p)
                w->weight[i] = 0;
            total += (double)w->weight[i];
        }
    }
    return draw(w->weight, w->n_vocab, total, u);
}

/* Over w's adjusted logits: the place in them. */
static int32_t draw_from(const struct sampler *s, struct sampler_workspace *w, double u)
{
    int32_t best = topk_argmax(w->logits, w->n_vocab);
    float max = w->logits[best];
    if (s->params.temperature <= 0 || max == -INFINITY)
        return best;
    int32_t k =
        s->params.top_k < w->n_vocab ? s->params.top_k : w->n_vocab; /* fewer may be allowed */
    bool wide = s->params.top_k == 0 || s->params.top_k >= s->n_vocab;
    if (wide && wants_typical(s))
        return draw_typical_all(s, w, max, u);
    if (wide)
        return s->params.top_p < 1 ? draw_nucleus(s, w, max, u) : draw_plain(s, w, max, u);
    topk_select(w->logits, w->n_vocab, k, w->list);
    return draw_top_k(s, w, k, u);
}

static int32_t pick_from_logits(const struct sampler *s, struct sampler_workspace *w,
                                const float *row, double u)
{
    for (int32_t i = 0; i < w->n_vocab; i++)
        w->logits[i] = sanitize(row[i]);
    apply_penalties(s, w->logits);
    return draw_from(s, w, u);
}

/* Few tokens are allowed: their logits are gathered at the front, and only those are examined. */
static int32_t pick_from_list(const struct sampler *s, struct sampler_workspace *w,
                              const float *row, const struct grammar_mask *m, double u)
{
    struct sampler_workspace few = *w;
    for (int32_t i = 0; i < m->n; i++)
        w->logits[m->list[i]] = sanitize(row[m->list[i]]);
    apply_penalties(s, w->logits); /* changes other logits too, which are not read */
    for (int32_t i = 0; i < m->n; i++)
        w->logits[i] = w->logits[m->list[i]]; /* ascending: i <= list[i] */
    few.n_vocab = m->n;
    return m->list[draw_from(s, &few, u)];
}

static int32_t pick_from_bits(const struct sampler *s, struct sampler_workspace *w,
                              const float *row, const struct grammar_mask *m, double u)
{
    for (int32_t i = 0; i < w->n_vocab; i++)
        w->logits[i] = m->bits[i >> 5] >> (i & 31) & 1 ? sanitize(row[i]) : -INFINITY;
    apply_penalties(s, w->logits);
    int32_t id = draw_from(s, w, u);
    for (int32_t i = 0; !grammar_mask_has(m, id) && i < w->n_vocab;
         i++) /* no allowed token has a finite logit */
        if (grammar_mask_has(m, i))
            id = i;
    return id;
}

static int32_t pick_from_candidates(const struct sampler *s, struct sampler_workspace *w,
                                    const struct step_row *row, int32_t n_top, double u)
{
    int32_t n = s->params.top_k < n_top ? s->params.top_k : n_top;
    if (s->params.temperature <= 0 || sanitize(row->top_logits[0]) == -INFINITY)
        return row->top_ids[0];
    for (int32_t i = 0; i < n; i++)
        w->list[i] = (struct candidate){sanitize(row->top_logits[i]), row->top_ids[i]};
    return draw_top_k(s, w, n, u);
}

float sampler_logprob(float logit, float log_sum_exp)
{
    float v = logit - log_sum_exp;
    if (!(v > SAMPLER_NO_LOGPROB)) /* NaN and -inf as well */
        return SAMPLER_NO_LOGPROB;
    return v < 0 ? v : 0;
}

static void pick(const struct sampler *s, struct sampler_workspace *w,
                 const struct sampler_input *in, double u, struct engine_token *out)
{
    const struct step_row *row = in->row;
    const struct grammar_mask *allowed = in->allowed;
    const int32_t n_top = in->n_top, top_logprobs = in->top_logprobs;
    int32_t id = allowed && allowed->list  ? pick_from_list(s, w, row->logits, allowed, u)
                 : allowed                 ? pick_from_bits(s, w, row->logits, allowed, u)
                 : sampler_wants_logits(s) ? pick_from_logits(s, w, row->logits, u)
                                           : pick_from_candidates(s, w, row, n_top, u);
    if (id < 0 || id >= s->n_vocab) /* a backend's candidate list without any finite logit */
        id = 0;
    if (s->rules && !allowed)
        id = token_rules_nearest(s->rules, id, s->n_vocab);
    float logit = row->logits ? row->logits[id] : -INFINITY;
    for (int32_t i = 0; !row->logits && i < n_top; i++)
        if (row->top_ids[i] == id)
            logit = row->top_logits[i];
    out->id = id;
    out->logprob = sampler_logprob(logit, row->log_sum_exp);
    out->n_top = top_logprobs < n_top ? top_logprobs : n_top;
    if (out->n_top < 0)
        out->n_top = 0;
    for (int32_t i = 0; i < out->n_top; i++) {
        out->top[i].id = row->top_ids[i];
        out->top[i].logprob = sampler_logprob(row->top_logits[i], row->log_sum_exp);
    }
}

void sampler_pick(struct sampler *s, struct sampler_workspace *w, const struct sampler_input *in,
                  struct engine_token *out)
{
    if (s->params.penalty_window)
        count_window(s);
    pick(s, w, in, random_uniform(s->params.seed, s->position++), out);
    observe(s, out->id, 0);
}

void sampler_foresee(const struct sampler *s, struct sampler_workspace *w,
                     const struct sampler_input *in, int32_t ahead, struct engine_token *out)
{
    pick(s, w, in, random_uniform(s->params.seed, s->position + (uint64_t)ahead), out);
}
