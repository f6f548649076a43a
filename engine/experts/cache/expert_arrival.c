/* Handles records that have arrived from the disk: verifies their checksums and enters their
 * addresses into the tables of the plan. */
#include <inttypes.h>

#include "engine/base/file.h"
#include "engine/experts/cache/expert_cache_internal.h"

/* One in so many reads of records that were verified before is verified again. */
#define CHECK_EVERY 64

/* Compares a record with its known checksum. If there is none, it is computed later, when there is
 * nothing better to do: see expert_cache_checksum_one(). */
static bool verify(struct expert_cache *s, struct expert_slot *slot,
                   const struct weight_planes where[EXPERT_MATRIX__N], struct err *e)
{
    const struct expert_layer *layer = &s->params.layout->layers[slot->layer];
    int32_t i = s->history.first[slot->layer] + slot->expert;
    if (!s->history.sums[i]) {
        slot->checksum_pending = s->n_unverified < s->slots.n;
        if (slot->checksum_pending)
            s->unverified[s->n_unverified++] = (int32_t)(slot - s->slots.slots);
        return true;
    }
    if (s->history.checked[i]) {
        if (++s->reads_since_check < CHECK_EVERY)
            return true;
        s->reads_since_check = 0;
    }
    uint64_t sum = expert_record_checksum(layer->weights, where);
    s->history.checked[i] = s->history.sums[i] == sum;
    return s->history.checked[i] ||
           err_set(e, ERR_IO, "checksum mismatch: read %016" PRIx64 ", expected %016" PRIx64, sum,
                   s->history.sums[i]);
}

bool expert_cache_checksum_one(struct expert_cache *s)
{
    while (s->n_unverified) {
        struct expert_slot *slot = &s->slots.slots[s->unverified[--s->n_unverified]];
        if (!slot->checksum_pending)
            continue;
        const int32_t i = s->history.first[slot->layer] + slot->expert;
        struct weight_planes where[EXPERT_MATRIX__N];
        for (int m = 0; m < EXPERT_MATRIX__N; m++)
            where[m] = *expert_cache_table_entry(s, slot->layer, m, slot->expert);
        slot->checksum_pending = false;
        s->history.sums[i] =
            expert_record_checksum(s->params.layout->layers[slot->layer].weights, where);
        s->history.checked[i] = true;
        return true;
    }
    return false;
}

void expert_cache_enter_gate_up(struct expert_cache *s, const struct expert_job *job)
{
    const struct expert_slot *slot = job->owner;
    for (int m = 0; m < EXPERT_DOWN; m++)
        *expert_cache_table_entry(s, slot->layer, m, slot->expert) =
            expert_record_planes(job->record, (enum expert_matrix)m, slot->memory);
}

bool expert_cache_enter(struct expert_cache *s, struct expert_job *job, struct err *e)
{
    struct expert_slot *slot = job->owner;
    const struct expert_layer *layer = &s->params.layout->layers[slot->layer];
    struct weight_planes where[EXPERT_MATRIX__N];
    struct err why = job->err;
    for (int m = 0; m < EXPERT_MATRIX__N; m++)
        where[m] = expert_record_planes(job->record, (enum expert_matrix)m, slot->memory);
    if (job->failed || !verify(s, slot, where, &why)) {
        s->counters.failures++;
        if (e)
            err_set(e, ERR_IO, "layer %d, expert %d (%s): %s", layer->layer, slot->expert,
                    file_base_name(s->params.layout->files[job->record->parts[0].file].path),
                    why.text);
        expert_cache_evict(s, slot);
        return false;
    }
    for (int m = 0; m < EXPERT_MATRIX__N; m++)
        *expert_cache_table_entry(s, slot->layer, m, slot->expert) = where[m];
    slot->state = SLOT_READY;
    expert_cache_update_evictable(s, slot);
    return true;
}
