/* fake_backend.h: a backend for scheduler tests. */
#include "tests/unit/support/fake_backend.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct cell {
    int32_t token, position, n_experts;
};

struct state {
    uint64_t h;
    int32_t position; /* tokens that it has seen */
};

struct provisional {  /* a sequence whose state waits for keep_rows */
    int32_t state, n; /* n 0: it does not, or no longer */
    int32_t tokens[BACKEND_PROVISIONAL_ROWS];
};

struct backend {
    int32_t n_blocks, n_states, max_rows, max_sequences;
    struct cell (*kv)[BACKEND_BLOCK_TOKENS]; /* [n_blocks] */
    struct state *states;                    /* [n_states] */
    struct backend_counters counters;
    struct fake_faults faults;
    int32_t last_rows, last_sequences;
    struct provisional *held;            /* [max_sequences] of the last step */
    float *logits;                       /* [max_rows][FAKE_VOCAB] */
    int32_t (*top_ids)[BACKEND_MAX_TOP]; /* [max_rows] */
    float (*top_logits)[BACKEND_MAX_TOP];
};

static uint64_t mix(uint64_t h)
{
    h ^= h >> 31;
    h *= 0x9E3779B97F4A7C15u;
    h ^= h >> 29;
    h *= 0xBF58476D1CE4E5B9u;
    return h ^ h >> 32;
}

static uint64_t extend(uint64_t h, int32_t token)
{
    return mix(h * 31 + (uint64_t)token + 1);
}

static void logits_of(uint64_t h, float *logits)
{
    for (int32_t i = 0; i < FAKE_VOCAB; i++)
        logits[i] = (float)(mix(h + (uint64_t)i * 0x12345) % 4096) /
                    512.0f;                       /* ties happen: 0 .. 8 in steps */
    logits[FAKE_EOS] = mix(h) % 61 == 0 ? 9 : -9; /* an end now and then */
}

void fake_logits(const int32_t *tokens, int32_t n, float *logits)
{
    uint64_t h = 0;
    for (int32_t i = 0; i < n; i++)
        h = extend(h, tokens[i]);
    logits_of(h, logits);
}

int32_t fake_greedy(const int32_t *tokens, int32_t n)
{
    float logits[FAKE_VOCAB];
    int32_t best = 0;
    fake_logits(tokens, n, logits);
    for (int32_t i = 1; i < FAKE_VOCAB; i++)
        if (logits[i] > logits[best])
            best = i;
    return best;
}

struct backend *fake_open(int32_t n_blocks, int32_t n_states, int32_t max_rows,
                          int32_t max_sequences)
{
    struct backend *b = calloc(1, sizeof *b);
    b->n_blocks = n_blocks;
    b->n_states = n_states;
    b->states = calloc((size_t)n_states + 1, sizeof *b->states);
    b->max_rows = max_rows;
    b->max_sequences = max_sequences;
    b->kv = malloc((size_t)n_blocks * sizeof *b->kv);
    memset(b->kv, 0xff, (size_t)n_blocks * sizeof *b->kv);
    b->held = calloc((size_t)max_sequences, sizeof *b->held);
    b->logits = malloc((size_t)max_rows * FAKE_VOCAB * sizeof *b->logits);
    b->top_ids = malloc((size_t)max_rows * sizeof *b->top_ids);
    b->top_logits = malloc((size_t)max_rows * sizeof *b->top_logits);
    return b;
}

static void fake_close(struct backend **b)
{
    free((*b)->kv);
    free((*b)->states);
    free((*b)->held);
    free((*b)->logits);
    free((*b)->top_ids);
    free((*b)->top_logits);
    free(*b);
    *b = NULL;
}

static bool store(struct backend *b, const struct step_sequence *q, struct err *e)
{
    for (int32_t i = 0; i < q->n_tokens; i++) {
        int32_t position = q->start + i;
        int32_t block = q->blocks[position / BACKEND_BLOCK_TOKENS];
        if (block < 0 || block >= b->n_blocks)
            return err_set(e, ERR_INTERNAL, "block %d is outside the pool", block);
        b->kv[block][position % BACKEND_BLOCK_TOKENS] =
            (struct cell){q->tokens[i], position, q->n_experts};
    }
    return true;
}

/* The recurrent state goes on from where it stood: at the right place, or the step fails. */
static bool advance_state(struct backend *b, const struct step_sequence *q,
                          struct provisional *held, struct err *e)
{
    held->n = 0;
    if (!b->n_states)
        return q->state == -1 || err_set(e, ERR_INTERNAL, "a state for a model without");
    if (q->state < 0 || q->state >= b->max_sequences)
        return err_set(e, ERR_INTERNAL, "state %d is no slot's", q->state);
    struct state *s = &b->states[q->state];
    if (!q->start)
        *s = (struct state){0};
    if (s->position != q->start)
        return err_set(e, ERR_INTERNAL, "state stands at %d, the step begins at %d", s->position,
                       q->start);
    if (q->provisional) {
        held->state = q->state;
        held->n = q->n_tokens;
        memcpy(held->tokens, q->tokens, (size_t)q->n_tokens * sizeof *held->tokens);
        return true;
    }
    for (int32_t i = 0; i < q->n_tokens; i++)
        s->h = extend(s->h, q->tokens[i]);
    s->position += q->n_tokens;
    return true;
}

/* Of the tokens up to the sequence's row `row`. */
static bool history(const struct backend *b, const struct step_sequence *q, int32_t row,
                    uint64_t *h, struct err *e)
{
    *h = 0;
    for (int32_t i = 0; i < q->start + row + 1; i++) {
        struct cell c = b->kv[q->blocks[i / BACKEND_BLOCK_TOKENS]][i % BACKEND_BLOCK_TOKENS];
        if (c.position != i)
            return err_set(e, ERR_INTERNAL, "position %d reads a cell of position %d", i,
                           c.position);
        if (c.n_experts != q->n_experts)
            return err_set(e, ERR_INTERNAL, "position %d was made with %d experts, not %d", i,
                           c.n_experts, q->n_experts);
        *h = extend(*h, c.token);
    }
    if (b->n_states && !q->provisional && row == q->n_tokens - 1 && b->states[q->state].h != *h)
        return err_set(e, ERR_INTERNAL, "state and KV disagree at %d", q->start + q->n_tokens);
    return true;
}

/* Into a sorted list of n - 1 or, its last one falling out, of n; of equal ones the first stays. */
static void keep_top(float *logits, int32_t *ids, int32_t n, int32_t id, float v)
{
    int32_t k = n - 1;
    for (; k > 0 && v > logits[k - 1]; k--) {
        logits[k] = logits[k - 1];
        ids[k] = ids[k - 1];
    }
    logits[k] = v;
    ids[k] = id;
}

static void fill_row(struct backend *b, int32_t at, uint64_t h, int32_t n_top, bool want,
                     struct step_row *row)
{
    float *logits = b->logits + (size_t)at * FAKE_VOCAB;
    double sum = 0;
    int32_t n = 0;
    logits_of(h, logits);
    for (int32_t i = 0; i < FAKE_VOCAB; i++) {
        sum += exp((double)logits[i]);
        if (n < n_top)
            n++;
        else if (!n || logits[i] <= b->top_logits[at][n - 1])
            continue;
        keep_top(b->top_logits[at], b->top_ids[at], n, i, logits[i]);
    }
    *row = (struct step_row){.top_ids = b->top_ids[at],
                             .top_logits = b->top_logits[at],
                             .log_sum_exp = (float)log(sum),
                             .logits = want ? logits : NULL};
}

static bool has_token(const struct step *s, int32_t token)
{
    for (int32_t i = 0; i < s->n_sequences; i++)
        for (int32_t k = 0; token && k < s->sequences[i].n_tokens; k++)
            if (s->sequences[i].tokens[k] == token)
                return true;
    return false;
}

static bool fake_step(struct backend *b, const struct step *s, struct step_row *rows, struct err *e)
{
    int32_t n_rows = 0, n_tokens = 0;
    if ((int)++b->counters.steps == b->faults.at_step)
        return err_set(e, b->faults.code, "the fault that was asked for");
    if (s->n_sequences < 1 || s->n_sequences > b->max_sequences || s->n_top < 1 ||
        s->n_top > BACKEND_MAX_TOP)
        return err_set(e, ERR_INTERNAL, "%d sequences, %d candidates", s->n_sequences, s->n_top);
    for (int32_t i = 0; i < s->n_sequences; i++) {
        n_tokens += s->sequences[i].n_tokens;
        if (s->sequences[i].n_tokens < 1 || !store(b, &s->sequences[i], e) ||
            !advance_state(b, &s->sequences[i], &b->held[i], e))
            return false;
    }
    if (n_tokens > b->max_rows)
        return err_set(e, ERR_INTERNAL, "%d rows, at most %d", n_tokens, b->max_rows);
    if (has_token(s, b->faults.token))
        return err_set(e, b->faults.code, "the fault that was asked for");
    for (int32_t i = 0; i < s->n_sequences; i++) {
        const struct step_sequence *q = &s->sequences[i];
        for (int32_t k = q->n_out ? q->n_tokens - q->n_out : q->n_tokens - 1; k < q->n_tokens;
             k++) {
            uint64_t h;
            if (!history(b, q, k, &h, e))
                return false;
            if (q->n_out) {
                fill_row(b, n_rows, h, s->n_top, q->want_logits, &rows[n_rows]);
                n_rows++;
            }
        }
    }
    b->counters.rows += (uint64_t)n_tokens;
    b->last_rows = n_tokens;
    b->last_sequences = s->n_sequences;
    return true;
}

static bool fake_keep_rows(struct backend *b, int32_t sequence, int32_t rows, struct err *e)
{
    struct provisional *held = &b->held[sequence];
    if (rows < 1 || rows > held->n)
        return err_set(e, ERR_INTERNAL, "%d rows of %d are to be kept", rows, held->n);
    for (int32_t i = 0; i < rows; i++)
        b->states[held->state].h = extend(b->states[held->state].h, held->tokens[i]);
    b->states[held->state].position += rows;
    held->n = 0;
    return true;
}

static bool fake_copy_state(struct backend *b, int32_t from, int32_t to, struct err *e)
{
    if (from < 0 || to < 0 || from >= b->n_states || to >= b->n_states)
        return err_set(e, ERR_INTERNAL, "no state %d or %d", from, to);
    b->states[to] = b->states[from];
    return true;
}

static void fake_format(const struct backend *b, char *out, size_t size)
{
    strncpy(out, "fake", size);
}

static size_t fake_block_bytes(const struct backend *b)
{
    return sizeof *b->kv;
}

static size_t fake_state_bytes(const struct backend *b)
{
    return b->n_states ? sizeof *b->states : 0;
}

static bool fake_save_blocks(struct backend *b, const int32_t *blocks, int32_t n, void *const *to,
                             struct err *e)
{
    for (int32_t i = 0; i < n; i++)
        memcpy(to[i], b->kv[blocks[i]], sizeof *b->kv);
    return true;
}

static bool fake_load_blocks(struct backend *b, const int32_t *blocks, int32_t n,
                             const void *const *from, struct err *e)
{
    for (int32_t i = 0; i < n; i++)
        memcpy(b->kv[blocks[i]], from[i], sizeof *b->kv);
    return true;
}

static bool fake_save_state(struct backend *b, int32_t state, void *to, struct err *e)
{
    memcpy(to, &b->states[state], sizeof *b->states);
    return true;
}

static bool fake_load_state(struct backend *b, int32_t state, const void *from, struct err *e)
{
    memcpy(&b->states[state], from, sizeof *b->states);
    return true;
}

static const struct backend_content fake_content = {.format = fake_format,
                                                    .block_bytes = fake_block_bytes,
                                                    .state_bytes = fake_state_bytes,
                                                    .save_blocks = fake_save_blocks,
                                                    .load_blocks = fake_load_blocks,
                                                    .save_state = fake_save_state,
                                                    .load_state = fake_load_state};

static void fake_counters(const struct backend *b, struct backend_counters *c)
{
    *c = b->counters;
}

void fake_set_faults(struct backend *b, struct fake_faults f)
{
    b->faults = f;
}

int32_t fake_last_rows(const struct backend *b)
{
    return b->last_rows;
}

int32_t fake_last_sequences(const struct backend *b)
{
    return b->last_sequences;
}

const struct backend_ops fake_backend = {.name = "fake",
                                         .close = fake_close,
                                         .step = fake_step,
                                         .keep_rows = fake_keep_rows,
                                         .copy_state = fake_copy_state,
                                         .content = &fake_content,
                                         .counters = fake_counters};
