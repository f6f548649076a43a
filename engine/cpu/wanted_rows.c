/* See wanted_rows.h. A sequence's wanted rows are its last ones. */
#include "engine/cpu/wanted_rows.h"

#include <string.h>

static int32_t wanted(const struct step_sequence *s)
{
    return s->hidden && s->n_hidden > s->n_out ? s->n_hidden : s->n_out;
}

int32_t wanted_rows_of(const struct backend *b, int32_t i)
{
    const struct step_sequence *s = &b->step->sequences[i];
    return b->rows.only_wanted ? wanted(s) : s->n_tokens;
}

int32_t wanted_rows_left(const struct backend *b, int32_t layer)
{
    int32_t n = 0;
    if (b->rows.only_wanted || layer != b->plan->n_layer - 1 || b->params.dump || worker_private(b))
        return b->rows.n;
    for (int32_t i = 0; i < b->step->n_sequences; i++)
        n += wanted(&b->step->sequences[i]);
    return n;
}

bool wanted_rows_fewer(const struct backend *b, int32_t layer)
{
    return wanted_rows_left(b, layer) < b->rows.n;
}

bool wanted_rows_stays(const struct backend *b, int32_t layer, int32_t row)
{
    const struct step_sequence *s = &b->step->sequences[b->rows.sequence[row]];
    return !wanted_rows_fewer(b, layer) ||
           b->rows.position[row] >= s->start + s->n_tokens - wanted(s);
}

/* Of what later phases read of a row: its place among the residuals, its rotation, whose it is. */
static void move(struct backend *b, int32_t from, int32_t to)
{
    const struct rope_table *rope = &b->ropes[b->plan->n_layer - 1];
    const size_t d = (size_t)b->plan->d_model;
    if (from == to)
        return;
    memcpy(b->x + (size_t)to * d, b->x + (size_t)from * d, d * sizeof *b->x);
    if (rope->plan && rope->plan->n_dims) {
        const size_t n = (size_t)rope->plan->n_dims;
        memcpy(rope->cos_sin + (size_t)to * n, rope->cos_sin + (size_t)from * n, n * sizeof(float));
    }
    b->rows.sequence[to] = b->rows.sequence[from];
    b->rows.position[to] = b->rows.position[from];
    b->rows.experts[to] = b->rows.experts[from];
    b->rows.hidden[to] = b->rows.hidden[from];
}

static void leave(void *context)
{
    struct backend *b = context;
    struct step_rows *rows = &b->rows;
    int32_t n = 0, end = 0, out = 0;
    for (int32_t i = 0; i < b->step->n_sequences; i++) {
        const struct step_sequence *s = &b->step->sequences[i];
        end += s->n_tokens;
        for (int32_t t = end - wanted(s); t < end; t++)
            move(b, t, n++);
        for (int32_t t = n - s->n_out; t < n; t++)
            rows->out[out++] = t;
    }
    rows->n = n;
    rows->only_wanted = true;
}

void wanted_rows_leave(struct worker *w)
{
    worker_barrier_then(w, leave, w->backend);
}
