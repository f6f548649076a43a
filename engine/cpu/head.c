/* See head.h. Wanted rows go through in groups of HEAD_ROWS, so that the logits of a long prefill
 * need no memory of their own unless somebody wants to see them. */
#include "engine/cpu/head.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/cpu/matmul.h"

int32_t head_chunks(int32_t n_vocab)
{
    return (n_vocab + HEAD_CHUNK - 1) / HEAD_CHUNK;
}

/* Tokens whose logits the running step computes: the head's first rows. */
static int32_t head_tokens(const struct backend *b)
{
    const int32_t n = b->step->n_head, all = b->plan->n_vocab;
    return n && n < all ? n : all;
}

static bool grow(void *pointer, size_t bytes, struct err *e)
{
    void **p = pointer;
    free(*p);
    *p = malloc(bytes);
    return *p || err_set(e, ERR_NOMEM, "no memory for results (%zu bytes)", bytes);
}

static bool reserve(struct backend *b, int32_t n, int32_t rows, struct err *e)
{
    if (rows > b->logits_rows) {
        b->logits_rows = 0;
        if (!grow(&b->logits, (size_t)rows * (size_t)b->plan->n_vocab * sizeof(float), e))
            return false;
        b->logits_rows = rows;
    }
    if (n > b->top_rows) {
        b->top_rows = 0;
        if (!grow(&b->top_ids, (size_t)n * BACKEND_MAX_TOP * sizeof(int32_t), e) ||
            !grow(&b->top_logits, (size_t)n * BACKEND_MAX_TOP * sizeof(float), e) ||
            !grow(&b->log_sum_exp, (size_t)n * sizeof(float), e))
            return false;
        b->top_rows = n;
    }
    return true;
}

bool head_reserve(struct backend *b, struct err *e)
{
    int32_t n = b->rows.n_out;
    if (b->step->hidden)
        return true;
    return reserve(b, n, b->rows.keep_logits ? n : n < HEAD_ROWS ? n : HEAD_ROWS, e);
}

bool head_reserve_decode(struct backend *b, struct err *e)
{
    int32_t n = b->params.max_sequences;
    return b->plan->encoder || reserve(b, n, n < HEAD_ROWS ? n : HEAD_ROWS, e);
}

size_t head_decode_bytes(const struct model_plan *plan, int32_t n)
{
    size_t rows = (size_t)(n < HEAD_ROWS ? n : HEAD_ROWS);
    if (plan->encoder)
        return 0;
    return rows * (size_t)plan->n_vocab * sizeof(float) + (size_t)n * (BACKEND_MAX_TOP * 8 + 4);
}

void head_publish(const struct backend *b, struct step_row *rows)
{
    for (int32_t i = 0; b->step->hidden && i < b->rows.n_out; i++)
        rows[i] = (struct step_row){.hidden = b->y + (size_t)i * (size_t)b->plan->d_model};
    for (int32_t i = 0; !b->step->hidden && i < b->rows.n_out; i++)
        rows[i] = (struct step_row){
            .top_ids = b->top_ids + (size_t)i * BACKEND_MAX_TOP,
            .top_logits = b->top_logits + (size_t)i * BACKEND_MAX_TOP,
            .log_sum_exp = b->log_sum_exp[i],
            .logits = b->rows.want[i] ? b->logits + (size_t)i * (size_t)b->plan->n_vocab : NULL};
}

struct candidates { /* sorted: higher logit first, then lower id */
    int32_t *ids;
    float *logits;
    int32_t n, limit;
};

/* Ids come in ascending order, so an equal logit never displaces one that is there. */
static inline void offer(struct candidates *c, int32_t id, float logit)
{
    if (c->n == c->limit && !(logit > c->logits[c->n - 1]))
        return;
    int32_t i = c->n < c->limit ? c->n++ : c->n - 1;
    for (; i && c->logits[i - 1] < logit; i--) {
        c->logits[i] = c->logits[i - 1];
        c->ids[i] = c->ids[i - 1];
    }
    c->logits[i] = logit;
    c->ids[i] = id;
}

/* The first logit of this value, sixteen at a time; `to`: there is none. */
static int32_t find_logit(const float *logits, int32_t from, int32_t to, float value)
{
    for (int found = 0; from + 16 <= to; from += 16) {
        for (int32_t i = 0; i < 16; i++)
            found |= logits[from + i] == value;
        if (found)
            break;
    }
    while (from < to && logits[from] != value)
        from++;
    return from;
}

static void offer_range(struct candidates *c, const float *logits, int32_t from, int32_t to)
{
    float bar = c->n == c->limit ? c->logits[c->n - 1] : -INFINITY;
    for (int32_t id = from; id < to; id++) {
        if (c->n == c->limit && !(logits[id] > bar))
            continue;
        offer(c, id, logits[id]);
        bar = c->logits[c->n - 1];
    }
}

static struct candidates own_candidates(struct worker *w, int32_t i)
{
    return (struct candidates){.ids = w->candidate_ids + i * BACKEND_MAX_TOP,
                               .logits = w->candidate_logits + i * BACKEND_MAX_TOP,
                               .limit = w->backend->step->n_top};
}

/* This thread's chunks of every row: sums, and candidates among them. */
static void scan(struct worker *w, const float *logits, int32_t n)
{
    struct backend *b = w->backend;
    int32_t vocab = head_tokens(b), chunks = head_chunks(vocab), from, to;
    worker_share(w, chunks, &from, &to);
    for (int32_t i = 0; i < n; i++) {
        const float *row = logits + (size_t)i * (size_t)b->plan->n_vocab;
        struct candidates c = own_candidates(w, i);
        for (int32_t chunk = from; chunk < to; chunk++) {
            int32_t first = chunk * HEAD_CHUNK,
                    end = first + HEAD_CHUNK < vocab ? first + HEAD_CHUNK : vocab;
            float *stats = b->chunk_stats + ((size_t)i * (size_t)chunks + (size_t)chunk) * 2;
            stats[0] = b->kernels->max(row + first, end - first);
            stats[1] = b->kernels->sum_exp(row + first, end - first, stats[0]);
            if (c.n == c.limit && !(stats[0] > c.logits[c.n - 1]))
                continue;
            const int32_t best = c.limit == 1 ? find_logit(row, first, end, stats[0]) : end;
            if (best < end)
                offer(&c, best, stats[0]);
            else
                offer_range(&c, row, first, end);
        }
        w->n_candidates[i] = c.n;
    }
}

static float sum_chunks(const float *stats, int32_t chunks)
{
    float top = stats[0];
    double sum = 0;
    for (int32_t i = 1; i < chunks; i++)
        top = stats[2 * i] > top ? stats[2 * i] : top;
    for (int32_t i = 0; i < chunks; i++)
        sum += (double)stats[2 * i + 1] * exp((double)stats[2 * i] - (double)top);
    return (float)((double)top + log(sum));
}

/* All threads' candidates of some rows, into the results. Threads hold ascending ranges of ids. */
static void merge(struct worker *w, int32_t first, int32_t n)
{
    struct backend *b = w->backend;
    int32_t from, to, chunks = head_chunks(head_tokens(b));
    worker_share(w, n, &from, &to);
    for (int32_t i = from; i < to; i++) {
        size_t at = (size_t)(first + i) * BACKEND_MAX_TOP;
        struct candidates all = {
            .ids = b->top_ids + at, .logits = b->top_logits + at, .limit = b->step->n_top};
        for (int32_t t = 0; t < w->count; t++) {
            struct candidates c = own_candidates(&b->workers[t], i);
            for (int32_t j = 0; j < b->workers[t].n_candidates[i]; j++)
                offer(&all, c.ids[j], c.logits[j]);
        }
        b->log_sum_exp[first + i] =
            sum_chunks(b->chunk_stats + (size_t)i * (size_t)chunks * 2, chunks);
    }
}

static void run_group(struct worker *w, int32_t first, int32_t n)
{
    struct backend *b = w->backend;
    const struct model_plan *plan = b->plan;
    size_t d = (size_t)plan->d_model;
    float *logits = b->logits + (b->rows.keep_logits ? (size_t)first * (size_t)plan->n_vocab : 0);
    struct weight head = plan->head;
    int32_t from, to;
    head.rows = head_tokens(b);
    worker_share(w, n, &from, &to);
    for (int32_t i = from; i < to; i++) {
        memcpy(b->out_rows + (size_t)i * d, b->x + (size_t)b->rows.out[first + i] * d,
               d * sizeof(float));
        for (int32_t id = head.rows; b->rows.want[first + i] && id < plan->n_vocab; id++)
            logits[(size_t)i * (size_t)plan->n_vocab + (size_t)id] = -INFINITY;
    }
    worker_barrier(w);
    struct panel panel = matmul_pack(w, &(struct pack){.slot = PANEL_INPUT,
                                                       .x = b->out_rows,
                                                       .stride = d,
                                                       .n = n,
                                                       .cols = plan->d_model,
                                                       .kinds = matmul_kinds(w, &head),
                                                       .norm = plan->final_norm.at});
    struct product product = {
        .weight = &head, .panel = &panel, .n = n, .out = logits, .stride = (size_t)plan->n_vocab};
    matmul_run(w, &product, 1);
    worker_barrier(w);
    scan(w, logits, n);
    worker_barrier(w);
    merge(w, first, n);
    worker_barrier(w);
}

/* Test hook: all rows normed, where service needs only the wanted ones. */
static void dump_final_norm(struct worker *w)
{
    struct backend *b = w->backend;
    size_t d = (size_t)b->plan->d_model;
    for (int32_t t = 0; w->index == 0 && t < b->rows.n; t++)
        b->kernels->rms_norm(b->x + (size_t)t * d, b->plan->final_norm.at, b->plan->norm_eps,
                             b->plan->d_model, b->y + (size_t)t * d);
    worker_dump(
        w, -1,
        &(struct worker_values){
            .what = "final_norm", .data = b->y, .rows = b->rows.n, .cols = b->plan->d_model});
}

/* Wanted rows one behind the other in b->y, which no layer needs any more. */
static void keep_hidden(struct worker *w)
{
    struct backend *b = w->backend;
    const size_t d = (size_t)b->plan->d_model;
    const float *norm = b->plan->final_norm.at;
    int32_t from, to;
    worker_share(w, b->rows.n_out, &from, &to);
    for (int32_t i = from; i < to; i++) {
        const float *x = b->x + (size_t)b->rows.out[i] * d;
        if (norm)
            b->kernels->rms_norm(x, norm, b->plan->norm_eps, (int32_t)d, b->y + (size_t)i * d);
        else
            memcpy(b->y + (size_t)i * d, x, d * sizeof(float));
    }
}

/* Rows that another plan goes on from, to their owners. */
static void hand_hidden(struct worker *w)
{
    struct backend *b = w->backend;
    const int32_t d = b->plan->d_model;
    int32_t from, to;
    worker_share(w, b->rows.n, &from, &to);
    for (int32_t t = from; t < to; t++)
        if (b->rows.hidden[t] && !b->params.n_taps)
            b->kernels->rms_norm(b->x + (size_t)t * (size_t)d, b->plan->final_norm.at,
                                 b->plan->norm_eps, d, b->rows.hidden[t]);
}

void head_run(struct worker *w)
{
    struct backend *b = w->backend;
    if (b->params.dump && b->plan->final_norm.at)
        dump_final_norm(w);
    if (b->step->hidden) {
        keep_hidden(w);
        return;
    }
    hand_hidden(w);
    for (int32_t first = 0; first < b->rows.n_out; first += HEAD_ROWS) {
        int32_t left = b->rows.n_out - first;
        run_group(w, first, left < HEAD_ROWS ? left : HEAD_ROWS);
    }
}
