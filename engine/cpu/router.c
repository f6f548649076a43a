/* Plain C, the specification of every other router: scores, groups, the best experts, their
 * weights. */
#include "engine/cpu/router.h"

#include <math.h>
#include <stdbool.h>

/* The n best of `scores` by value, lower index first among equals; taken ones become -inf. */
static void pick(float *scores, int32_t n_scores, int32_t n, int32_t *ids)
{
    for (int32_t i = 0; i < n; i++) {
        int32_t best = 0;
        for (int32_t e = 1; e < n_scores; e++)
            if (scores[e] > scores[best])
                best = e;
        ids[i] = best;
        scores[best] = -INFINITY;
    }
}

static void softmax(float *v, int32_t n)
{
    float top = v[0], sum = 0;
    for (int32_t i = 1; i < n; i++)
        top = v[i] > top ? v[i] : top;
    for (int32_t i = 0; i < n; i++)
        sum += v[i] = expf(v[i] - top);
    for (int32_t i = 0; i < n; i++)
        v[i] /= sum;
}

/* Leaves only the experts of the best groups; a group's score is the sum of its two best. */
static void mask_groups(const struct moe_plan *m, float *scores)
{
    int32_t size = m->n_expert / m->n_group, kept[ROUTER_MAX_EXPERTS];
    float group[ROUTER_MAX_EXPERTS];
    bool keep[ROUTER_MAX_EXPERTS] = {false};
    for (int32_t g = 0; g < m->n_group; g++) {
        float first = -INFINITY, second = -INFINITY;
        for (int32_t e = g * size; e < (g + 1) * size; e++) {
            if (scores[e] > first) {
                second = first;
                first = scores[e];
            } else if (scores[e] > second) {
                second = scores[e];
            }
        }
        group[g] = size > 1 ? first + second : first;
    }
    pick(group, m->n_group, m->n_group_used, kept);
    for (int32_t i = 0; i < m->n_group_used; i++)
        keep[kept[i]] = true;
    for (int32_t e = 0; e < m->n_expert; e++)
        if (!keep[e / size])
            scores[e] = -INFINITY;
}

static void sort_descending(int32_t *ids, float *weights, int32_t n)
{
    for (int32_t i = 1; i < n; i++) {
        int32_t id = ids[i], j = i;
        float weight = weights[i];
        for (; j && (weights[j - 1] < weight || (weights[j - 1] == weight && ids[j - 1] > id));
             j--) {
            ids[j] = ids[j - 1];
            weights[j] = weights[j - 1];
        }
        ids[j] = id;
        weights[j] = weight;
    }
}

void router_choose(const struct moe_plan *m, int32_t n_used, const float *logits,
                   const struct router_choice *out, float *scratch)
{
    int32_t *ids = out->ids;
    float *weights = out->weights;
    float *value = scratch, *score = scratch + m->n_expert, sum = 0;
    for (int32_t e = 0; e < m->n_expert; e++)
        value[e] = logits[e] + (m->router_bias.at ? m->router_bias.at[e] : 0);
    if (m->score == ROUTER_SOFTMAX)
        softmax(value, m->n_expert);
    else if (m->score == ROUTER_SIGMOID)
        for (int32_t e = 0; e < m->n_expert; e++)
            value[e] = 1 / (1 + expf(-value[e]));
    for (int32_t e = 0; e < m->n_expert; e++)
        score[e] = value[e] + (m->select_bias.at ? m->select_bias.at[e] : 0);
    if (m->n_group > 1)
        mask_groups(m, score);
    pick(score, m->n_expert, n_used, ids);
    for (int32_t i = 0; i < n_used; i++)
        weights[i] = value[ids[i]];
    if (m->score == ROUTER_TOPK_SOFTMAX)
        softmax(weights, n_used);
    for (int32_t i = 0; i < n_used; i++)
        sum += weights[i];
    if (!m->normalize)
        sum = 1;
    else if (m->score == ROUTER_SIGMOID)
        sum += 1e-20f;
    for (int32_t i = 0; i < n_used; i++)
        weights[i] = weights[i] / sum * m->scale;
    sort_descending(ids, weights, n_used);
}
