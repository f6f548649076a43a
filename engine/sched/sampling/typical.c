/* Finds the range of tokens whose surprise is nearest to the distribution's entropy. */
#include "engine/sched/sampling/typical.h"

#include <math.h>

static double scaled(const struct typical *t, float logit)
{
    return (double)(logit - t->max) * (double)t->sharpness;
}

void typical_add(struct typical *t, float logit, float weight)
{
    if (weight <= 0) /* its x may be minus infinity */
        return;
    t->total += (double)weight;
    t->sum += (double)weight * scaled(t, logit);
}

void typical_want(struct typical *t, float typical_p)
{
    t->mean = t->sum / t->total;
    t->wanted = (double)typical_p * t->total;
}

bool typical_interval(const struct typical *t, const struct typical_list *l,
                      struct typical_range *kept)
{
    const struct candidate *list = l->at;
    const int32_t n = l->n;
    int32_t low = 0, high;
    double held = 0;
    while (low < n && scaled(t, list[low].logit) >= t->mean)
        low++;
    for (high = low; held < t->wanted || high == low;) {
        if (high == n && !l->complete)
            return false;
        double above = low > 0 ? scaled(t, list[low - 1].logit) - t->mean : INFINITY;
        double below = high < n ? t->mean - scaled(t, list[high].logit) : INFINITY;
        if (isinf(above) && isinf(below))
            break; /* rounding: all that have a weight are kept */
        int32_t next = above <= below ? --low : high++; /* equally near: the likelier */
        held += (double)topk_weight(list[next].logit, t->max, t->sharpness);
    }
    *kept = (struct typical_range){.from = low, .n = high - low};
    return true;
}
