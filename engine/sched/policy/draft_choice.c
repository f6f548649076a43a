/* Compares the expected tokens per millisecond of steps with more and more drafted rows. */
#include "engine/sched/policy/draft_choice.h"

#include <math.h>

#define HABIT_KEPT 0.95 /* a change of the text is known after some twenty drafts */
#define OFTEN_KEPT 0.99
#define PRIOR_TRIES 4.0  /* of its own that weigh as much as what is known of all jobs */
#define SMOOTH_N 8       /* measurements that the smoothed time of a plain step stands for */
#define SMOOTH_MORE 16   /* and that of what drafted rows add, which is less than it varies */
#define OUTLIER 1.5      /* a longer step was disturbed, and counts as this many times usual */
#define MOST_LATE 8.0    /* plain steps: the most that its lateness beyond that counts as */
#define LATE_DRAFTS 16   /* steps with drafts over which lateness is smoothed, */
#define LATE_PLAIN 64    /* and plain ones */
#define LATE_PRIOR 8     /* undisturbed plain steps, with which each of both begins */
#define LATE_KEPT 0.9995 /* by each plain step: who disturbed may have gone */
#define LEAST_PLAIN 3    /* plain steps to be timed before the first draft */
#define STALE 1024       /* steps after which a time is to be measured again */
#define STALE_FEW 64     /* the same where fewer than ENOUGH were, any of which was disturbed */
#define ENOUGH 3
#define STALE_PLAIN 64
#define FIRST_SLOPE 0.06 /* of a plain step, per row: hopeful, so that it is tried */
#define FIRST_TRY 3      /* rows of the first try; then twice as many as were measured */
#define MARGIN 1.02      /* what a choice must promise to win */
#define MOST_LOST 3.0    /* plain steps */
#define MOST_WON 24.0    /* what was won may be lost again: all in all that is no loss */
#define PAID 0.0045      /* of a plain step's time, for another try */

#define FOUND_SHARE 0.4 /* of what was found in a text */

/* Before anything is known; 0: FOUND_SHARE. */
static const double first_share[DRAFT_GROUND__N] = {
    [DRAFT_FORCED] = 0.7,  [DRAFT_ONLY] = 1,       [DRAFT_SURE_0] = 0.15,
    [DRAFT_SURE_30] = 0.4, [DRAFT_SURE_50] = 0.6,  [DRAFT_SURE_70] = 0.75,
    [DRAFT_SURE_85] = 0.9, [DRAFT_SURE_95] = 0.95, [DRAFT_SURE_99] = 0.98,
};

void draft_habit_note(struct draft_habit *h, enum draft_ground g, bool right)
{
    h->right[g] = h->right[g] * HABIT_KEPT + right;
    h->tried[g] = h->tried[g] * HABIT_KEPT + 1;
    if (g < DRAFT_SURE_0)
        return;
    for (int k = DRAFT_SURE_0; k < DRAFT_GROUND__N; k++)
        h->often[k] *= OFTEN_KEPT;
    h->often[g]++;
}

double draft_habit_share(const struct draft_habit *own, const struct draft_habit *all,
                         enum draft_ground g)
{
    const double first = first_share[g] > 0 ? first_share[g] : FOUND_SHARE;
    /* What was believed at first is forgotten as fast as what was seen. */
    const double before = 1 - (1 - HABIT_KEPT) * all->tried[g];
    const double known = (all->right[g] + before * first) / (all->tried[g] + before);
    return (own->right[g] + PRIOR_TRIES * known) / (own->tried[g] + PRIOR_TRIES);
}

static int32_t load_of(int32_t rows)
{
    int32_t load = 0;
    for (int32_t most = 1; rows > most && load < DRAFT_LOADS - 1; most *= 2)
        load++;
    return load;
}

static bool known(const struct draft_costs *c, const struct draft_cost *cost)
{
    return cost->n && c->n_notes - cost->at < (cost->n < ENOUGH ? STALE_FEW : STALE);
}

static double within(double v, double least, double most)
{
    return v < least ? least : v > most ? most : v;
}

static void measure(const struct draft_costs *c, struct draft_cost *cost, double ms, int32_t most)
{
    if (cost->n < most)
        cost->n++;
    cost->ms += (ms - cost->ms) / cost->n;
    cost->at = c->n_notes;
}

/* The first step of its size may have to prepare what later ones find (with a GPU); it says nothing
 * of them if it took longer than its rows would one by one. */
static bool prepared(const struct draft_cost *plain, const struct draft_cost *more, int32_t drafted,
                     double ms)
{
    return drafted && !more->at && ms > OUTLIER * plain->ms * (1 + drafted);
}

/* What counts of a step's time: that it was disturbed is no fault of the drafts in it. */
static double believed(const struct draft_costs *c, struct draft_cost *plain,
                       struct draft_cost *more, int32_t drafted, double ms)
{
    struct draft_cost *own = drafted ? more : plain;
    if (own->n && c->n_notes - own->at >= STALE)
        own->n = 0;
    if (!plain->n || !own->n)
        return ms;
    const double usual = plain->ms + (drafted ? more->ms : 0);
    if (own->n < ENOUGH && OUTLIER * ms < usual)
        own->n = 0; /* it was those before that were disturbed */
    return ms > OUTLIER * usual ? OUTLIER * usual : ms;
}

static double lateness(const struct draft_late *l, double prior_ms)
{
    return 1 + (l->late_ms > 0 ? l->late_ms / (l->ms + prior_ms) : 0);
}

double draft_costs_late(const struct draft_costs *c)
{
    const double late =
        lateness(&c->late_drafts, c->late_prior_ms) / lateness(&c->late_plain, c->late_prior_ms);
    return late > 1 ? late : 1;
}

static void note_late(struct draft_late *l, double late_ms, double ms, int32_t smooth)
{
    l->late_ms += late_ms - l->late_ms / smooth;
    l->ms += ms - l->ms / smooth;
}

/* In plain steps, since a debt of many answers' steps is otherwise forgotten beside one's limits.
 */
static void settle(struct draft_costs *c, const struct draft_step *s, double plain, double ms)
{
    /* Drafts that are made anyway are no loss of the choice where none of them was verified. */
    double won = -s->draft_ms;
    if (s->drafted)
        won += plain * s->tokens / s->rows - ms * draft_costs_late(c) - s->free_ms;
    else
        won += PAID * ms;
    c->balance = within(c->balance + won / plain, -2 * MOST_LOST, MOST_WON);
}

void draft_costs_note(struct draft_costs *c, const struct draft_step *s)
{
    const bool after_drafts = c->after_drafts;
    c->after_drafts = s->drafted > 0;
    c->n_notes++;
    if (s->rows > DRAFT_JOBS_MAX)
        return;
    struct draft_cost *plain = &c->plain[s->rows];
    const int32_t drafted = s->drafted < DRAFT_ROWS_MAX ? s->drafted : DRAFT_ROWS_MAX;
    struct draft_cost *more = &c->more[load_of(s->rows)][drafted];
    double ms = believed(c, plain, more, drafted, s->ms);
    double late = s->ms - ms;
    /* Plain steps follow each other; one that stands alone takes longer, and drafts would look good
     * beside it. */
    const bool alone = plain->n && after_drafts;
    if (!drafted) {
        if (!alone || ms < plain->ms)
            measure(c, plain, ms, SMOOTH_N);
    } else if (plain->n && prepared(plain, more, drafted, ms)) {
        ms = OUTLIER * plain->ms;
        more->at = c->n_notes;
    } else if (plain->n) {
        measure(c, more, ms - plain->ms, SMOOTH_MORE);
    }
    late = within(late + s->draft_late_ms, 0, MOST_LATE * plain->ms);
    if (drafted || after_drafts || s->draft_late_ms > 0)
        note_late(&c->late_drafts, late, ms + s->draft_ms, LATE_DRAFTS);
    else
        note_late(&c->late_plain, late, ms, LATE_PLAIN);
    if (!drafted)
        c->late_drafts.late_ms *= LATE_KEPT;
    c->late_prior_ms = LATE_PRIOR * plain->ms;
    if (plain->n)
        settle(c, s, plain->ms, ms);
}

double draft_costs_ms(const struct draft_costs *c, int32_t rows, int32_t drafted)
{
    if (rows > DRAFT_JOBS_MAX || !c->plain[rows].n)
        return 0;
    const double plain = c->plain[rows].ms;
    const struct draft_cost *more = c->more[load_of(rows)];
    int32_t below = drafted, above = drafted;
    while (below && !known(c, &more[below]))
        below--;
    while (above <= DRAFT_ROWS_MAX && !known(c, &more[above]))
        above++;
    const double from = below ? more[below].ms : 0;
    double slope = FIRST_SLOPE * plain;
    if (above <= DRAFT_ROWS_MAX && above > below)
        slope = (more[above].ms - from) / (above - below);
    else if (below)
        slope = from / below;
    const double ms =
        plain + within(from + within(slope, 0, INFINITY) * (drafted - below), 0, INFINITY);
    return drafted ? ms * draft_costs_late(c) : ms;
}

/* Rows that may be tried: what was measured tells little of steps with many more. */
static int32_t most_tried(const struct draft_costs *c, int32_t rows)
{
    const struct draft_cost *more = c->more[load_of(rows)];
    int32_t largest = 0;
    for (int32_t n = 1; n <= DRAFT_ROWS_MAX; n++)
        if (known(c, &more[n]))
            largest = n;
    return largest ? 2 * largest : FIRST_TRY;
}

bool draft_costs_may_try(const struct draft_costs *c, int32_t rows)
{
    if (rows > DRAFT_JOBS_MAX)
        return false;
    const struct draft_cost *plain = &c->plain[rows];
    return plain->n >= LEAST_PLAIN && c->n_notes - plain->at < STALE_PLAIN &&
           c->balance >= -MOST_LOST;
}

/* The offer whose next token is the most likely to come true, with that chance; -1: none is left.
 */
static int32_t best_offer(const struct draft_offer *offers, const double *chance, int32_t n,
                          double *best)
{
    int32_t found = -1;
    *best = 0;
    for (int32_t i = 0; i < n; i++) {
        if (offers[i].taken == offers[i].n)
            continue;
        double own = chance[i] * offers[i].share[offers[i].taken];
        if (found < 0 || own > *best) {
            found = i;
            *best = own;
        }
    }
    return found;
}

void draft_choice_make(const struct draft_costs *c, int32_t rows, struct draft_offer *offers,
                       int32_t n_offers, int32_t most)
{
    int32_t order[DRAFT_ROWS_MAX], chosen = 0;
    double chance[DRAFT_ROWS_MAX], expected = rows;
    for (int32_t i = 0; i < n_offers; i++)
        offers[i].taken = 0;
    if (!draft_costs_may_try(c, rows))
        return;
    if (most > DRAFT_ROWS_MAX)
        most = DRAFT_ROWS_MAX;
    if (most > most_tried(c, rows))
        most = most_tried(c, rows);
    if (n_offers > DRAFT_ROWS_MAX)
        n_offers = DRAFT_ROWS_MAX;
    for (int32_t i = 0; i < n_offers; i++)
        chance[i] = 1;
    double best = rows / draft_costs_ms(c, rows, 0) * MARGIN;
    for (int32_t n = 1; n <= most; n++) {
        double own;
        int32_t i = best_offer(offers, chance, n_offers, &own);
        if (i < 0)
            break;
        chance[i] = own;
        expected += own;
        offers[i].taken++;
        order[n - 1] = i;
        double rate = expected / draft_costs_ms(c, rows, n);
        if (rate > best) {
            best = rate;
            chosen = n;
        }
    }
    for (int32_t i = 0; i < n_offers; i++)
        offers[i].taken = 0;
    for (int32_t n = 0; n < chosen; n++)
        offers[order[n]].taken++;
}
