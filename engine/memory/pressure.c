/* Shrinks the expert cache at once when memory runs short, and lets it grow back in small steps
 * after a calm period, so that it does not oscillate. */
#include "engine/memory/pressure.h"

#define STALLED_PERCENT 20.0

static uint64_t min_u64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

void pressure_init(struct pressure *p, uint64_t planned, uint64_t smallest, uint64_t low,
                   const struct machine_stress *now)
{
    *p = (struct pressure){
        .planned = planned, .least = smallest, .low = low, .budget = planned, .last = *now};
}

/* The bytes to free now: what is missing, and a margin so that the next second is not as tight.
 * Limit hits and stall time count only where little memory is left, because a group full of file
 * pages hits its limit too. */
static uint64_t bytes_to_free(const struct pressure *p, uint64_t available,
                              const struct machine_stress *stress)
{
    uint64_t margin = p->planned / 16;
    if (available < p->low)
        return p->low - available + margin;
    bool hits = stress->limit_hits > p->last.limit_hits || stress->kills > p->last.kills;
    if (available < 2 * p->low && (hits || stress->stalled > STALLED_PERCENT))
        return margin;
    return 0;
}

bool pressure_step(struct pressure *p, uint64_t available, const struct machine_stress *stress,
                   uint64_t resident, double now_s)
{
    uint64_t give = bytes_to_free(p, available, stress), before = p->budget;
    p->last = *stress;
    if (give) {
        uint64_t held = min_u64(p->budget, resident);
        uint64_t to = held > give ? held - give : 0;
        p->budget = to > p->least ? to : min_u64(p->least, p->budget);
        p->shrinks += p->budget < before;
        p->changed_s = now_s;
        return p->budget != before;
    }
    if (p->budget >= p->planned || now_s - p->changed_s < PRESSURE_CALM_S)
        return false;
    uint64_t step = min_u64(p->planned / 32 + 1, p->planned - p->budget);
    if (available < 2 * p->low + step)
        return false;
    p->budget += step;
    p->changed_s = now_s;
    return true;
}
