/* Limits the prompt rows of a step by time: it smooths the measured time per row and divides the
 * allowed time by it. */
#include "engine/sched/policy/prefill_budget.h"

/* How long a step may compute prompt rows. With answers running, readers see the gap; without, it
 * only delays a cancellation. */
#define MS_BESIDE_ANSWERS 100.0
#define MS_ALONE 500.0
#define FIRST_ROWS 256 /* before the first measurement; keeps a step short on a slow device */
#define MOST_ROWS 1e9
#define KEPT 0.7 /* weight of the old value in the smoothed one */

static double smooth(double known, double now)
{
    return KEPT * known + (1 - KEPT) * now;
}

void prefill_budget_note(struct prefill_budget *p, const struct prefill_budget_step *s)
{
    if (s->prefill_rows < PREFILL_BUDGET_MIN_ROWS)
        return;
    double computing = s->ms > s->waited_ms ? s->ms - s->waited_ms : 0;
    double row_ms = computing / s->prefill_rows;
    p->reading_ms = p->row_ms > 0 ? smooth(p->reading_ms, s->reading_ms) : s->reading_ms;
    p->row_ms = p->row_ms > 0 ? smooth(p->row_ms, row_ms) : row_ms;
}

int32_t prefill_budget_rows(const struct prefill_budget *p, bool beside_answers)
{
    double ms = beside_answers ? MS_BESIDE_ANSWERS : MS_ALONE;
    if (p->row_ms <= 0)
        return FIRST_ROWS;
    if (ms < p->reading_ms)
        ms = p->reading_ms;
    double rows = ms / p->row_ms;
    return rows < 1 ? 1 : rows > MOST_ROWS ? (int32_t)MOST_ROWS : (int32_t)rows;
}
