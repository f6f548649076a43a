/* Goes through the next tokens with a smaller model: reads what is new of each text, then one token
 * of each at a time, in steps that all texts share. */
#include "engine/draft/draft_model.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/clock.h"
#define LOG_MODULE "draft"
#include "engine/base/log.h"
#include "engine/draft/drafter.h"

#define SIZES 8        /* steps with 1, 2, 3 to 4, .., 65 and more rows */
#define SMOOTH_N 16    /* measurements that a smoothed time stands for */
#define OUTLIER 1.5    /* a longer step was disturbed, and counts as this many times usual */
#define FIRST_ROW 0.25 /* of a step's fixed part, per further row, before it was measured */

struct seat {
    struct draft_model *model;
    int32_t *blocks;     /* [window / BACKEND_BLOCK_TOKENS] */
    int32_t state, kept; /* recurrent states: that steps move on; as it was before drafts did */
    int32_t from;        /* place in the text of the seat's position 0 */
    int32_t n_read;      /* tokens from there on that were gone through */
    int32_t ahead[DRAFT_MAX]; /* drafted ones behind them that were gone through as well */
    int32_t n_ahead;
    bool went_ahead; /* recurrent: `kept` is what was read */
    bool taken;
};

struct step_time {
    double ms;
    int32_t n; /* measurements, up to where it no longer matters */
};

struct draft_model {
    struct draft_model_params params;
    struct seat *seats;              /* [n_seats] */
    int32_t *blocks;                 /* of all seats */
    struct step_sequence *sequences; /* [n_seats] */
    struct step_row *rows;           /* [n_seats] */
    struct draft_ask **members;      /* [n_seats] of the step being built */
    float *wide;                     /* [target_vocab] a row's logits, where its own are fewer */
    struct step_time times[SIZES];
    struct draft_model_counts counts;
};

struct draft_model *draft_model_create(const struct draft_model_params *p, struct err *e)
{
    struct draft_model *m = calloc(1, sizeof *m);
    const int32_t each = p->window / BACKEND_BLOCK_TOKENS;
    const size_t n = (size_t)p->n_seats;
    assert(p->n_seats > 0 && p->window >= 2 * DRAFT_FRESH);
    if (!m)
        goto nomem;
    m->params = *p;
    m->counts.seats = p->n_seats;
    m->seats = calloc(n, sizeof *m->seats);
    m->blocks = calloc(n * (size_t)each, sizeof *m->blocks);
    m->sequences = calloc(n, sizeof *m->sequences);
    m->rows = calloc(n, sizeof *m->rows);
    m->members = calloc(n, sizeof *m->members);
    m->wide =
        p->n_vocab < p->target_vocab ? malloc((size_t)p->target_vocab * sizeof *m->wide) : NULL;
    if (!m->seats || !m->blocks || !m->sequences || !m->rows || !m->members ||
        (p->n_vocab < p->target_vocab && !m->wide))
        goto nomem;
    for (int32_t i = 0; i < p->n_seats * each; i++)
        m->blocks[i] = i;
    for (int32_t i = 0; i < p->n_seats; i++)
        m->seats[i] = (struct seat){
            .model = m, .blocks = m->blocks + i * each, .state = i, .kept = p->n_seats + i};
    return m;
nomem:
    err_set(e, ERR_NOMEM, "no memory for the draft model's seats");
    draft_model_destroy(&m);
    return NULL;
}

void draft_model_destroy(struct draft_model **at)
{
    struct draft_model *m = *at;
    if (!m)
        return;
    assert(!m->counts.taken);
    free(m->seats);
    free(m->blocks);
    free(m->sequences);
    free(m->rows);
    free(m->members);
    free(m->wide);
    free(m);
    *at = NULL;
}

struct draft_model_counts draft_model_counts(const struct draft_model *m)
{
    return m->counts;
}

static void *take_seat(struct draft_model *m, struct err *e)
{
    for (int32_t i = 0; i < m->params.n_seats; i++)
        if (!m->seats[i].taken) {
            m->seats[i].taken = true;
            m->seats[i].from = m->seats[i].n_read = m->seats[i].n_ahead = 0;
            m->seats[i].went_ahead = false;
            m->counts.taken++;
            return &m->seats[i];
        }
    err_set(e, ERR_LIMIT, "all %d seats of the draft model are taken", m->params.n_seats);
    return NULL;
}

static void leave_seat(void *state)
{
    struct seat *seat = state;
    if (!seat)
        return;
    seat->taken = false;
    seat->model->counts.taken--;
}

/* What was drafted and came true is gone through already, but for recurrent states, which are not
 * there any more. At least the text's last token is left, whose row is wanted. */
static void follow(struct seat *seat, const struct draft_text *text)
{
    const struct draft_model_params *p = &seat->model->params;
    int32_t at = seat->from + seat->n_read;
    if (p->n_recurrent)
        seat->n_ahead = 0;
    for (int32_t i = 0; i < seat->n_ahead && at < text->n_tokens; i++, at++)
        if (text->tokens[at] != seat->ahead[i])
            break;
    seat->n_ahead = 0;
    if (at >= text->n_tokens && !p->n_recurrent)
        at = text->n_tokens - 1;
    seat->n_read = at - seat->from;
    if (at < text->n_tokens && text->n_tokens - at <= DRAFT_FRESH &&
        text->n_tokens - seat->from + DRAFT_MAX <= p->window)
        return;
    seat->from = text->n_tokens > DRAFT_FRESH ? text->n_tokens - DRAFT_FRESH : 0;
    seat->n_read = 0;
}

static int32_t size_of(int32_t rows)
{
    int32_t size = 0;
    for (int32_t most = 1; rows > most && size < SIZES - 1; most *= 2)
        size++;
    return size;
}

static void note_time(struct draft_model *m, int32_t rows, double ms)
{
    struct step_time *t = &m->times[size_of(rows)];
    m->counts.steps++;
    m->counts.rows += (uint64_t)rows;
    m->counts.ms += ms;
    if (t->n && ms > OUTLIER * t->ms)
        ms = OUTLIER * t->ms;
    if (t->n < SMOOTH_N)
        t->n++;
    t->ms += (ms - t->ms) / t->n;
}

/* By the nearest size that was measured. */
static double expected_ms(const struct draft_model *m, int32_t rows)
{
    const int32_t size = size_of(rows);
    for (int32_t i = 0; i < SIZES; i++)
        for (int32_t sign = -1; sign <= 1; sign += 2) {
            const int32_t at = size + sign * i;
            if (at >= 0 && at < SIZES && m->times[at].n)
                return m->times[at].ms * (1 + FIRST_ROW * rows) / (1 + FIRST_ROW * (1 << at));
        }
    return 0;
}

static struct draft_price price_of(const struct draft_model *m, const void *state,
                                   const struct draft_text *text)
{
    struct seat seat = {.model = (struct draft_model *)(uintptr_t)m};
    if (state)
        seat = *(const struct seat *)state;
    follow(&seat, text);
    const double one = expected_ms(m, 1);
    const double read = expected_ms(m, text->n_tokens - seat.from - seat.n_read);
    return (struct draft_price){.read = read > one ? read - one : 0, .first = one, .further = one};
}

/* One step over the members. Returns the candidates of a row; 0: it failed, and so did they. */
static int32_t run_step(struct draft_model *m, int32_t n, int32_t rows)
{
    struct err e = {0};
    struct step step = {.sequences = m->sequences, .n_sequences = n, .n_top = 1};
    for (int32_t i = 0; i < n; i++)
        if (m->members[i]->picker.n_top > step.n_top)
            step.n_top = m->members[i]->picker.n_top;
    if (step.n_top > m->params.n_vocab)
        step.n_top = m->params.n_vocab;
    const double start = clock_ms();
    if (m->params.ops->step(m->params.backend, &step, m->rows, &e)) {
        note_time(m, rows, clock_ms() - start);
        return step.n_top;
    }
    log_warn("the draft model fails: %s", e.text);
    for (int32_t i = 0; i < n; i++)
        m->members[i]->failed = true;
    return 0;
}

/* Which logits the job's sampler may read: as many as its own model has. */
static void widen(struct draft_model *m, struct step_row *row)
{
    const struct draft_model_params *p = &m->params;
    if (!m->wide || !row->logits)
        return;
    memcpy(m->wide, row->logits, (size_t)p->n_vocab * sizeof *m->wide);
    for (int32_t i = p->n_vocab; i < p->target_vocab; i++)
        m->wide[i] = -INFINITY;
    row->logits = m->wide;
}

static enum draft_ground ground_of(double p)
{
    static const double least[] = {0.3, 0.5, 0.7, 0.85, 0.95, 0.99};
    int g = DRAFT_SURE_0;
    for (size_t i = 0; i < sizeof least / sizeof least[0] && p >= least[i]; i++)
        g++;
    return (enum draft_ground)g;
}

/* Adds the row's token to the draft. False: the draft ends. */
static bool add_token(struct draft_model *m, struct draft_ask *ask, struct step_row *row,
                      int32_t n_top, double *chance)
{
    struct draft *d = &ask->out;
    struct engine_token token;
    widen(m, row);
    if (!ask->picker.pick(ask->picker.context, row, n_top, d->n, &token) || token.id < 0 ||
        token.id >= m->params.target_vocab)
        return false;
    d->ground[d->n] = ground_of(exp((double)token.logprob));
    *chance *= ask->share[d->ground[d->n]];
    d->ids[d->n++] = token.id;
    return d->n < ask->most && *chance >= ask->least && token.id < m->params.n_vocab;
}

static void add_member(struct draft_model *m, int32_t at, struct draft_ask *ask,
                       const int32_t *tokens, int32_t n, int32_t start, bool out)
{
    struct seat *seat = ask->state;
    m->members[at] = ask;
    m->sequences[at] = (struct step_sequence){.tokens = tokens,
                                              .n_tokens = n,
                                              .start = start,
                                              .blocks = seat->blocks,
                                              .state = m->params.n_recurrent ? seat->state : -1,
                                              .n_out = out,
                                              .want_logits = out && ask->picker.want_logits};
}

/* A step over what is new of the texts, as much as fits. Returns the members; 0: all is read. */
static int32_t build_reading(struct draft_model *m, struct draft_ask *asks, int32_t n,
                             int32_t *rows)
{
    int32_t members = 0;
    *rows = 0;
    for (int32_t i = 0; i < n && *rows < DRAFT_STEP_ROWS; i++) {
        struct seat *seat = asks[i].state;
        const int32_t at = seat->from + seat->n_read, left = asks[i].text.n_tokens - at;
        const int32_t take = left < DRAFT_STEP_ROWS - *rows ? left : DRAFT_STEP_ROWS - *rows;
        if (asks[i].failed || !left)
            continue;
        add_member(m, members++, &asks[i], asks[i].text.tokens + at, take, seat->n_read,
                   take == left);
        *rows += take;
    }
    return members;
}

static bool copy_state(const struct draft_model *m, int32_t from, int32_t to)
{
    struct err e = {0};
    if (m->params.ops->copy_state(m->params.backend, from, to, &e))
        return true;
    log_warn("the draft model's state is lost: %s", e.text);
    return false;
}

/* A recurrent state can't be taken back, so it is copied before drafts move it on, */
static bool go_ahead(const struct draft_model *m, struct seat *seat)
{
    if (m->params.n_recurrent)
        seat->went_ahead = copy_state(m, seat->state, seat->kept);
    return !m->params.n_recurrent || seat->went_ahead;
}

/* and copied back before the text is read on. */
static bool come_back(const struct draft_model *m, struct seat *seat)
{
    const bool ahead = seat->went_ahead;
    seat->went_ahead = false;
    return !ahead || !seat->n_read || copy_state(m, seat->kept, seat->state);
}

/* What the draft model has no token for it cannot read. */
static bool can_read(const struct draft_model *m, const struct draft_text *text, int32_t from)
{
    while (from < text->n_tokens && text->tokens[from] < m->params.n_vocab)
        from++;
    return from == text->n_tokens;
}

static void read_texts(struct draft_model *m, struct draft_ask *asks, int32_t n, double *chances,
                       bool *goes_on)
{
    int32_t rows, members;
    while ((members = build_reading(m, asks, n, &rows)) > 0) {
        const int32_t n_top = run_step(m, members, rows);
        for (int32_t i = 0, row = 0; n_top && i < members; i++) {
            struct draft_ask *ask = m->members[i];
            struct seat *seat = ask->state;
            const int32_t which = (int32_t)(ask - asks);
            seat->n_read += m->sequences[i].n_tokens;
            if (!m->sequences[i].n_out)
                continue;
            goes_on[which] =
                add_token(m, ask, &m->rows[row++], n_top, &chances[which]) && go_ahead(m, seat);
        }
    }
}

/* One more token of each draft that goes on. False: none does. */
static bool extend(struct draft_model *m, struct draft_ask *asks, int32_t n, double *chances,
                   bool *goes_on)
{
    int32_t members = 0;
    for (int32_t i = 0; i < n; i++) {
        struct seat *seat = asks[i].state;
        if (!goes_on[i] || asks[i].failed)
            continue;
        const int32_t *last = &asks[i].out.ids[asks[i].out.n - 1];
        add_member(m, members++, &asks[i], last, 1, seat->n_read + seat->n_ahead, true);
        seat->ahead[seat->n_ahead++] = *last;
    }
    const int32_t n_top = members ? run_step(m, members, members) : 0;
    for (int32_t i = 0; n_top && i < members; i++) {
        const int32_t which = (int32_t)(m->members[i] - asks);
        goes_on[which] = add_token(m, m->members[i], &m->rows[i], n_top, &chances[which]);
    }
    return n_top > 0;
}

static void model_draft(struct draft_model *m, struct draft_ask *asks, int32_t n)
{
    double chances[DRAFT_SEATS];
    bool goes_on[DRAFT_SEATS] = {false};
    assert(n <= DRAFT_SEATS && n <= m->params.n_seats);
    for (int32_t i = 0; i < n; i++) {
        struct seat *seat = asks[i].state;
        follow(seat, &asks[i].text);
        chances[i] = 1;
        asks[i].failed =
            !come_back(m, seat) || !can_read(m, &asks[i].text, seat->from + seat->n_read);
    }
    read_texts(m, asks, n, chances, goes_on);
    while (extend(m, asks, n, chances, goes_on))
        ;
}

const struct drafter model_drafter = {
    .name = "draft",
    .foresees = true,
    .seated = true,
    .create = take_seat,
    .destroy = leave_seat,
    .draft = model_draft,
    .price = price_of,
};
