/* Accounts for experts that a device keeps in its own memory: the cache counts them, ranks them
 * and says how much memory they may take. */
#include <math.h>
#include <stdlib.h>

#include "engine/experts/cache/expert_cache_internal.h"

void expert_cache_count_device_hits(struct expert_cache *s, int32_t layer,
                                    const struct expert_want *wants, int32_t n, int32_t rows)
{
    pthread_mutex_lock(&s->lock);
    expert_cache_record_use(s, s->layer_of[layer], wants, n, rows);
    s->counters.asked += (uint64_t)n;
    s->counters.hits += (uint64_t)n;
    pthread_mutex_unlock(&s->lock);
}

void expert_cache_set_device_resident(struct expert_cache *s,
                                      const struct expert_device_resident *resident)
{
    pthread_mutex_lock(&s->lock);
    s->device_resident = *resident;
    pthread_mutex_unlock(&s->lock);
}

uint64_t expert_cache_device_share(const struct expert_cache *s)
{
    struct expert_cache *open = (struct expert_cache *)s; /* for the lock alone */
    pthread_mutex_lock(&open->lock);
    uint64_t bytes = s->device_share;
    pthread_mutex_unlock(&open->lock);
    return bytes;
}

int32_t expert_cache_least_valuable(const struct expert_cache *s, const struct expert_id *of,
                                    int32_t n, int32_t except)
{
    struct expert_cache *open = (struct expert_cache *)s;
    int32_t worst = -1;
    double least = 0;
    pthread_mutex_lock(&open->lock);
    for (int32_t i = 0; i < n; i++) {
        if (of[i].layer < 0 || of[i].layer == except)
            continue;
        double rank = expert_history_recency(&s->history, s->layer_of[of[i].layer], of[i].expert);
        if (worst < 0 || rank < least) {
            least = rank;
            worst = i;
        }
    }
    pthread_mutex_unlock(&open->lock);
    return worst;
}

void expert_cache_count_warm(struct expert_cache *s)
{
    struct expert_counters *c = &s->counters;
    pthread_mutex_lock(&s->lock);
    c->warm_bytes += c->miss_bytes;
    c->miss_bytes = c->asked = c->hits = c->misses = c->wait_ns = 0;
    pthread_mutex_unlock(&s->lock);
}

int32_t expert_cache_hottest(const struct expert_cache *s, struct expert_id *out, int32_t cap)
{
    struct expert_cache *open = (struct expert_cache *)s;
    struct hot_expert *list = malloc((size_t)s->history.n * sizeof *list);
    if (!list)
        return 0;
    pthread_mutex_lock(&open->lock);
    int32_t n = expert_cache_list_hottest(open, list);
    n = n < cap ? n : cap;
    for (int32_t i = 0; i < n; i++)
        out[i] = (struct expert_id){s->params.layout->layers[list[i].layer].layer, list[i].expert};
    pthread_mutex_unlock(&open->lock);
    free(list);
    return n;
}
