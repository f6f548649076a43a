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
#include "engine/draft/draft_model_state.h"

#define SMOOTH_N 16     /* measurements that a smoothed time stands for */
#define OUTLIER 1.5     /* a longer step was disturbed, and counts as this many times usual */
#define HEAD_WINDOW 64  /* tokens of an answer by which the head is cut, */
#define HEAD_OTHERS 16  /* of which one in so many may not be covered; */
#define HEAD_LEAST 4096 /* fewer of them save nothing */
#define FIRST_ROW 0.25  /* of a step's fixed part, per further row, before it was measured */

uint64_t draft_model_seat_bytes(const struct draft_model_params *p)
{
    return (uint64_t)p->n_seats * (DRAFT_HIDDEN_ROWS + 1) * (uint64_t)p->d_hidden * sizeof(float);
}

static void place_seats(struct draft_model *m, int32_t each)
{
    const struct draft_model_params *p = &m->params;
    const size_t rows = DRAFT_HIDDEN_ROWS * (size_t)p->d_hidden;
    for (int32_t i = 0; i < p->n_seats * each; i++)
        m->blocks[i] = i;
    for (int32_t i = 0; i < p->n_seats; i++) {
        struct draft_seat *seat = &m->seats[i];
        *seat = (struct draft_seat){
            .model = m, .blocks = m->blocks + i * each, .state = i, .kept = p->n_seats + i};
        if (!p->d_hidden)
            continue;
        seat->hidden = m->hidden + (size_t)i * (rows + (size_t)p->d_hidden);
        seat->fed = seat->hidden + rows;
    }
}

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
    m->rows = calloc(DRAFT_STEP_ROWS, sizeof *m->rows);
    m->members = calloc(n, sizeof *m->members);
    m->wide =
        p->n_vocab < p->target_vocab ? malloc((size_t)p->target_vocab * sizeof *m->wide) : NULL;
    m->hidden = p->d_hidden ? malloc(draft_model_seat_bytes(p)) : NULL;
    if (!m->seats || !m->blocks || !m->sequences || !m->rows || !m->members ||
        (p->d_hidden && !m->hidden) || (p->n_vocab < p->target_vocab && !m->wide))
        goto nomem;
    place_seats(m, each);
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
    free(m->hidden);
    free(m->wide);
    free(m);
    *at = NULL;
}

enum draft_kind draft_model_kind(const struct draft_model *m)
{
    return m->params.block      ? DRAFT_KIND_BLOCK
           : m->params.d_hidden ? DRAFT_KIND_LAYER
                                : DRAFT_KIND_MODEL;
}

struct draft_model_counts draft_model_counts(const struct draft_model *m)
{
    return m->counts;
}

static int32_t size_of(int32_t rows)
{
    int32_t size = 0;
    for (int32_t most = 1; rows > most && size < DRAFT_SIZES - 1; most *= 2)
        size++;
    return size;
}

static void note_time(struct draft_model *m, int32_t rows, double ms, bool context)
{
    struct draft_step_time *t = &m->times[size_of(rows)];
    m->counts.steps++;
    m->counts.rows += (uint64_t)rows;
    m->counts.ms += ms;
    if (context) {
        m->context_ms += (ms / rows - m->context_ms) / (m->context_ms > 0 ? SMOOTH_N : 1);
        return;
    }
    if (t->n && ms > OUTLIER * t->ms) {
        m->counts.late_ms += ms - OUTLIER * t->ms;
        ms = OUTLIER * t->ms;
    }
    if (t->n < SMOOTH_N)
        t->n++;
    t->ms += (ms - t->ms) / t->n;
}

/* By the nearest size that was measured. */
double draft_model_expected_ms(const struct draft_model *m, int32_t rows)
{
    const int32_t size = size_of(rows);
    for (int32_t i = 0; i < DRAFT_SIZES; i++)
        for (int32_t sign = -1; sign <= 1; sign += 2) {
            const int32_t at = size + sign * i;
            if (at >= 0 && at < DRAFT_SIZES && m->times[at].n)
                return m->times[at].ms * (1 + FIRST_ROW * rows) / (1 + FIRST_ROW * (1 << at));
        }
    return 0;
}

static struct draft_price price_of(const struct draft_model *m, const void *state,
                                   const struct draft_text *text)
{
    const double one = draft_model_expected_ms(m, 1);
    const double read = draft_model_expected_ms(m, draft_seat_unread(m, state, text));
    return (struct draft_price){.read = read > one ? read - one : 0, .first = one, .further = one};
}

/* True: nearly all tokens of the answer so far are among the first n. */
static bool are_below(const struct draft_text *text, int32_t n)
{
    int32_t from = text->n_tokens - HEAD_WINDOW, others = 0;
    if (from < text->n_prompt)
        from = text->n_prompt;
    for (int32_t i = from; i < text->n_tokens; i++)
        others += text->tokens[i] >= n;
    return others <= 1 + (text->n_tokens - from) / HEAD_OTHERS;
}

/* Tokens that drafts are looked for among. Most of a small drafter's time is the head; vocabularies
 * have their frequent tokens first, so half of them, and half of that, hold nearly all of most
 * texts, and a token that is not there costs one draft. */
static int32_t head_tokens(const struct draft_model *m, int32_t n)
{
    int32_t tokens = m->params.n_vocab;
    for (int32_t less; (less = tokens / 2) >= HEAD_LEAST; tokens = less)
        for (int32_t i = 0; i < n; i++)
            if (!are_below(&m->members[i]->text, less))
                return tokens;
    return tokens;
}

int32_t draft_model_run(struct draft_model *m, int32_t n, int32_t rows, bool context)
{
    struct err e = {0};
    struct step step = {
        .sequences = m->sequences, .n_sequences = n, .n_top = 1, .context = context};
    for (int32_t i = 0; i < n; i++)
        if (m->members[i]->picker.n_top > step.n_top)
            step.n_top = m->members[i]->picker.n_top;
    step.n_head = head_tokens(m, n);
    if (step.n_top > step.n_head)
        step.n_top = step.n_head;
    const double start = clock_ms();
    if (m->params.ops->step(m->params.backend, &step, m->rows, &e)) {
        note_time(m, rows, clock_ms() - start, context);
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

bool draft_model_add_token(struct draft_model *m, struct draft_ask *ask, struct step_row *row,
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
    struct draft_seat *seat = ask->state;
    m->members[at] = ask;
    m->sequences[at] = (struct step_sequence){.tokens = tokens,
                                              .n_tokens = n,
                                              .start = start,
                                              .blocks = seat->blocks,
                                              .state = m->params.n_recurrent ? seat->state : -1,
                                              .n_out = out,
                                              .want_logits = out && ask->picker.want_logits};
}

/* A next-token layer's member goes on from these rows, and leaves its own last one. */
static void give_hidden(struct draft_model *m, int32_t at, const float *given)
{
    struct step_sequence *q = &m->sequences[at];
    const struct draft_seat *seat = m->members[at]->state;
    if (!m->params.d_hidden)
        return;
    q->given = given;
    q->hidden = q->n_out ? seat->fed : NULL;
    q->n_hidden = q->n_out;
}

/* A step over what is new of the texts, as much as fits. Returns the members; 0: all is read. */
static int32_t build_reading(struct draft_model *m, struct draft_ask *asks, int32_t n,
                             int32_t *rows)
{
    int32_t members = 0;
    *rows = 0;
    for (int32_t i = 0; i < n && *rows < DRAFT_STEP_ROWS; i++) {
        struct draft_seat *seat = asks[i].state;
        const int32_t at = seat->from + seat->n_read, left = asks[i].text.n_tokens - at;
        const int32_t take = left < DRAFT_STEP_ROWS - *rows ? left : DRAFT_STEP_ROWS - *rows;
        if (asks[i].failed || seat->blind || left <= 0)
            continue;
        add_member(m, members, &asks[i], asks[i].text.tokens + at, take, seat->n_read,
                   take == left);
        give_hidden(m, members++, draft_seat_hidden(seat, at));
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
static bool go_ahead(const struct draft_model *m, struct draft_seat *seat)
{
    if (m->params.n_recurrent)
        seat->went_ahead = copy_state(m, seat->state, seat->kept);
    return !m->params.n_recurrent || seat->went_ahead;
}

/* and copied back before the text is read on. */
static bool come_back(const struct draft_model *m, struct draft_seat *seat)
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
        const int32_t n_top = draft_model_run(m, members, rows, false);
        for (int32_t i = 0, row = 0; n_top && i < members; i++) {
            struct draft_ask *ask = m->members[i];
            struct draft_seat *seat = ask->state;
            const int32_t which = (int32_t)(ask - asks);
            seat->n_read += m->sequences[i].n_tokens;
            if (!m->sequences[i].n_out)
                continue;
            goes_on[which] =
                draft_model_add_token(m, ask, &m->rows[row++], n_top, &chances[which]) &&
                go_ahead(m, seat);
        }
    }
}

/* One more token of each draft that goes on. False: none does. */
static bool extend(struct draft_model *m, struct draft_ask *asks, int32_t n, double *chances,
                   bool *goes_on)
{
    int32_t members = 0;
    for (int32_t i = 0; i < n; i++) {
        struct draft_seat *seat = asks[i].state;
        if (!goes_on[i] || asks[i].failed)
            continue;
        const int32_t *last = &asks[i].out.ids[asks[i].out.n - 1];
        add_member(m, members, &asks[i], last, 1, seat->n_read + seat->n_ahead, true);
        give_hidden(m, members++, seat->fed);
        seat->ahead[seat->n_ahead++] = *last;
    }
    const int32_t n_top = members ? draft_model_run(m, members, members, false) : 0;
    for (int32_t i = 0; n_top && i < members; i++) {
        const int32_t which = (int32_t)(m->members[i] - asks);
        goes_on[which] =
            draft_model_add_token(m, m->members[i], &m->rows[i], n_top, &chances[which]);
    }
    return n_top > 0;
}

static void model_draft(struct draft_model *m, struct draft_ask *asks, int32_t n)
{
    double chances[DRAFT_SEATS];
    bool goes_on[DRAFT_SEATS] = {false};
    assert(n <= DRAFT_SEATS && n <= m->params.n_seats);
    for (int32_t i = 0; i < n; i++) {
        struct draft_seat *seat = asks[i].state;
        asks[i].text = draft_seat_reads(m, asks[i].text);
        draft_seat_follow(seat, &asks[i].text);
        chances[i] = 1;
        asks[i].failed = !come_back(m, seat) ||
                         (!seat->blind && !can_read(m, &asks[i].text, seat->from + seat->n_read));
    }
    read_texts(m, asks, n, chances, goes_on);
    while (extend(m, asks, n, chances, goes_on))
        ;
}

const struct drafter layer_drafter = {
    .name = "mtp",
    .foresees = true,
    .seated = true,
    .create = draft_seat_take,
    .destroy = draft_seat_leave,
    .draft = model_draft,
    .price = price_of,
    .hidden = draft_seat_place_hidden,
};

const struct drafter model_drafter = {
    .name = "draft",
    .foresees = true,
    .seated = true,
    .create = draft_seat_take,
    .destroy = draft_seat_leave,
    .draft = model_draft,
    .price = price_of,
};
