/* Weighs a draft by how its drafter did before. */
#include "engine/sched/policy/draft_worth.h"

#define KNOWN 6.0         /* drafted tokens from which on a drafter's habit says anything */
#define LONGEST_PAUSE 256 /* it doubles up to this, or, where a token is dear, further */
#define RAREST_TRIAL 2048 /* however dear it is */
#define TRIAL_SHARE 0.001 /* of the time may go into trials, once it has doubled so far */
#define MARGIN 0.03       /* of a plain step: what it must promise to win */
#define LEARNING 8        /* trials that follow each other at the beginning */
#define LOOK_IDLE 16      /* divided by the answers, and one: steps in each of which a draft is */
#define LOOK_RAREST 8     /* looked for; then half as often, and so on to once in so many */
#define OWN_WEIGHT 4.0    /* of the job's own drafts against those of all, in how sure it is */

struct outlook { /* over the grounds of a drafter that computes */
    double often[DRAFT_GROUND__N], share[DRAFT_GROUND__N]; /* of its tokens; that come true */
};

static bool look_out(const struct draft_habit *own, const struct draft_habit *all,
                     struct outlook *o)
{
    double sum = 0;
    for (int g = DRAFT_SURE_0; g <= DRAFT_SURE_99; g++)
        sum += all->often[g];
    if (sum < KNOWN)
        return false;
    sum = 0;
    for (int g = DRAFT_SURE_0; g <= DRAFT_SURE_99; g++) {
        o->often[g] = all->often[g] + OWN_WEIGHT * own->often[g];
        o->share[g] = draft_habit_share(own, all, (enum draft_ground)g);
        sum += o->often[g];
    }
    for (int g = DRAFT_SURE_0; g <= DRAFT_SURE_99; g++)
        o->often[g] /= sum;
    return true;
}

/* What one more token is expected to win, behind a draft with this chance. It is verified only
 * where that pays, which is known once it is made. */
static double win(const struct outlook *o, double chance, double plain, double row)
{
    double ms = 0;
    for (int g = DRAFT_SURE_0; g <= DRAFT_SURE_99; g++) {
        const double own = chance * o->share[g] * plain - row;
        ms += own > 0 ? o->often[g] * own : 0;
    }
    return ms;
}

static double mean_share(const struct outlook *o)
{
    double sum = 0;
    for (int g = DRAFT_SURE_0; g <= DRAFT_SURE_99; g++)
        sum += o->often[g] * o->share[g];
    return sum;
}

/* A drafted row where they are cheapest: the first ones of a step often are not. */
static double row_ms(const struct draft_costs *c, int32_t rows)
{
    const double plain = draft_costs_ms(c, rows, 0);
    double least = draft_costs_ms(c, rows, 1) - plain;
    for (int32_t n = 2; n <= 8; n *= 2) {
        const double each = (draft_costs_ms(c, rows, n) - plain) / n;
        least = each < least ? each : least;
    }
    return least > 0 ? least : 0;
}

struct draft_worth draft_worth_of(const struct draft_habit *own, const struct draft_habit *all,
                                  const struct draft_costs *c, int32_t rows, double steps,
                                  const struct draft_price *price)
{
    struct draft_worth w = {.least = 2};
    struct outlook o;
    const double plain = draft_costs_ms(c, rows, 0) / rows;
    const double row = row_ms(c, rows);
    if (price->first <= 0 || plain <= 0 || !look_out(own, all, &o))
        return w;
    const double share = mean_share(&o);
    w.ms = win(&o, 1, plain, row) - price->first - price->read / (steps > 1 ? steps : 1) -
           (MARGIN + draft_costs_late(c) - 1) * plain;
    /* Where no further token pays, which is common beside others, all is known. */
    if (win(&o, share, plain, row) <= price->further && w.ms <= 0)
        return w;
    for (double chance = 1; chance > 0 && win(&o, chance, plain, row) > price->further;
         chance -= 0.05)
        w.least = chance;
    double chance = share;
    for (int32_t n = 1; n < price->most && chance > w.least; n++, chance *= share)
        w.ms += win(&o, chance, plain, row) - price->further;
    return w;
}

static uint64_t longest_pause(const struct draft_costs *c, int32_t rows,
                              const struct draft_price *price)
{
    const double plain = draft_costs_ms(c, rows, 0);
    if (plain <= 0)
        return LONGEST_PAUSE;
    const double steps =
        ((price->read + price->first) / plain + draft_costs_late(c) - 1) / TRIAL_SHARE;
    return steps < LONGEST_PAUSE  ? LONGEST_PAUSE
           : steps < RAREST_TRIAL ? (uint64_t)steps
                                  : RAREST_TRIAL;
}

bool draft_trials_take(struct draft_trials *t, const struct draft_costs *c, int32_t rows,
                       const struct draft_price *price)
{
    if (c->n_notes < t->next)
        return false;
    const uint64_t longest = longest_pause(c, rows, price);
    t->pause = t->pause < LEARNING ? t->pause + 1 : t->pause * 2 < longest ? t->pause * 2 : longest;
    t->next = c->n_notes + (t->pause < LEARNING ? 1 : t->pause);
    return true;
}

void draft_trials_won(struct draft_trials *t)
{
    if (t->pause > LEARNING)
        t->pause = t->pause / 2 > LEARNING ? t->pause / 2 : LEARNING;
}

double draft_offer_ms(const struct draft_costs *c, int32_t rows, const struct draft_offer *o)
{
    const double plain = draft_costs_ms(c, rows, 0);
    double chance = 1, tokens = 0, best = 0;
    for (int32_t i = 0; i < o->n; i++) {
        chance *= o->share[i];
        tokens += chance;
        const double ms = tokens * plain / rows - (draft_costs_ms(c, rows, i + 1) - plain);
        best = ms > best ? ms : best;
    }
    return best;
}

bool draft_look_due(int32_t idle, int32_t rows)
{
    int32_t every = 1;
    for (int32_t from = 1 + LOOK_IDLE / rows; idle >= from && every < LOOK_RAREST; from *= 2)
        every *= 2;
    return idle % every == 0;
}
