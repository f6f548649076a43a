/* See text_vector.h. Pooling as sentence-transformers names it; scores as the models were trained:
 * a head over the first token (BERT, RoBERTa), or how much likelier "yes" is than "no" as the next
 * token (Qwen3-Reranker). Sums are of doubles, so that a long text's mean loses nothing. */
#include "engine/sched/embed/text_vector.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

bool text_vector_init(struct text_vector *v, const struct model_plan *plan, struct err *e)
{
    *v = (struct text_vector){.plan = plan, .yes = -1, .no = -1};
    v->scratch = malloc((size_t)plan->d_model * 3 * sizeof *v->scratch);
    return v->scratch || err_set(e, ERR_NOMEM, "no memory for a vector of %d", plan->d_model);
}

void text_vector_fini(struct text_vector *v)
{
    free(v->scratch);
    *v = (struct text_vector){0};
}

int32_t text_vector_rows(const struct text_vector *v, int32_t n)
{
    return v->plan->pooling == POOLING_LAST || !v->plan->encoder ? 1 : n;
}

static void pool(const struct text_vector *v, const struct step_row *rows, int32_t n, float *out)
{
    const int32_t d = v->plan->d_model;
    if (v->plan->pooling != POOLING_MEAN) { /* of CLS the first row, of LAST the only one */
        memcpy(out, rows[0].hidden, (size_t)d * sizeof *out);
        return;
    }
    for (int32_t i = 0; i < d; i++) {
        double sum = 0;
        for (int32_t t = 0; t < n; t++)
            sum += (double)rows[t].hidden[i];
        out[i] = (float)(sum / n);
    }
}

void text_vector_embed(const struct text_vector *v, const struct step_row *rows, int32_t n,
                       int32_t dimensions, float *out)
{
    double squares = 0;
    pool(v, rows, n, v->scratch);
    for (int32_t i = 0; i < dimensions; i++)
        squares += (double)v->scratch[i] * (double)v->scratch[i];
    const double factor = squares > 0 ? 1 / sqrt(squares) : 0;
    for (int32_t i = 0; i < dimensions; i++)
        out[i] = (float)((double)v->scratch[i] * factor);
}

/* A row of a matrix times x; row is scratch. */
static double row_times(const struct weight *w, int32_t index, const float *x, float *row)
{
    double sum = 0;
    weight_row_f32(w, 0, index, row);
    for (int32_t i = 0; i < w->cols; i++)
        sum += (double)row[i] * (double)x[i];
    return sum;
}

static double classify(const struct text_vector *v, const float *x)
{
    const struct scorer_plan *s = &v->plan->scorer;
    const int32_t d = v->plan->d_model;
    float *inner = v->scratch, *row = v->scratch + d;
    for (int32_t i = 0; i < d; i++)
        inner[i] = (float)tanh(row_times(&s->dense, i, x, row) + (double)s->dense_bias.at[i]);
    return row_times(&s->out, 0, inner, row) + (double)s->out_bias.at[0];
}

float text_vector_score(const struct text_vector *v, const struct step_row *rows)
{
    const float *x = rows[0].hidden;
    const double logit = v->plan->encoder ? classify(v, x)
                                          : row_times(&v->plan->head, v->yes, x, v->scratch) -
                                                row_times(&v->plan->head, v->no, x, v->scratch);
    return (float)(1 / (1 + exp(-logit)));
}
