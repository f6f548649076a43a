/* store_vectors.h: a project's vectors are read one after the other and compared as they come, so
 * that a search takes the memory of its result alone. */
#include "sql/projects/store_vectors.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sql/core/statement.h"

#define FAR 0.5 /* of the way from the average to the best */

bool store_vector_pack(const float *values, int n, int8_t *out)
{
    float greatest = 0;
    for (int i = 0; i < n; i++) {
        if (!isfinite(values[i]))
            return false;
        greatest = fmaxf(greatest, fabsf(values[i]));
    }
    for (int i = 0; i < n; i++)
        out[i] = greatest > 0 ? (int8_t)lroundf(values[i] / greatest * 127.0f) : 0;
    return true;
}

static bool read_text(struct store *s, struct store_vector_work *w, int64_t file, struct err *e)
{
    free(w->text);
    w->text = NULL;
    w->file = 0;
    sqlite3_stmt *q = statement_begin(s, QUERY_CHUNK_TEXT, e);
    if (!q)
        return false;
    statement_bind_int(q, ":id", file);
    if (!statement_row(s, q, e))
        return false;
    w->len = (size_t)sqlite3_column_bytes(q, 0);
    w->text = malloc(w->len + 1);
    if (w->text) {
        memcpy(w->text, statement_column_text(q, 0), w->len);
        w->text[w->len] = '\0';
        w->file = file;
    }
    statement_end(q);
    return w->text || err_set(e, ERR_NOMEM, "memory ran out");
}

/* Those of one file, whose id comes first. */
static bool read_places(struct store *s, struct store_vector_work *w, int64_t *file, struct err *e)
{
    int rc = 0;
    sqlite3_stmt *q = statement_begin(s, QUERY_VECTOR_NEXT, e);
    if (!q)
        return false;
    statement_bind_text(q, ":model", w->model);
    statement_bind_int(q, ":after", w->after);
    statement_bind_int(q, ":limit", STORE_VECTORS_STEP);
    for (w->n = 0; w->n < STORE_VECTORS_STEP && (rc = statement_step(s, q, e)) == 1;) {
        if (w->n && sqlite3_column_int64(q, 1) != *file)
            break;
        *file = sqlite3_column_int64(q, 1);
        w->at[w->n++] = (struct store_vector_passage){.id = sqlite3_column_int64(q, 0),
                                                      .start = sqlite3_column_int64(q, 2),
                                                      .bytes = sqlite3_column_int64(q, 3)};
    }
    statement_end(q);
    return w->n || rc >= 0;
}

bool store_vectors_next(struct store *s, struct store_vector_work *w, struct err *e)
{
    int64_t file = 0, last = 0;
    w->n = 0;
    sqlite3_stmt *q = statement_begin(s, QUERY_VECTOR_LAST, e);
    if (!q || !statement_int(s, q, &last, e))
        return false;
    if (last <= w->after)
        return true;
    if (!read_places(s, w, &file, e))
        return false;
    if (!w->n)
        w->after = last; /* else all of them were read again at each look */
    if (!w->n || file == w->file)
        return true;
    struct err why = {0};
    if (read_text(s, w, file, &why))
        return true;
    w->n = 0; /* it has gone meanwhile, with its passages */
    if (why.code != ERR_NOTFOUND && e)
        *e = why;
    return why.code == ERR_NOTFOUND;
}

void store_vector_work_fini(struct store_vector_work *w)
{
    free(w->text);
    *w = (struct store_vector_work){.model = w->model, .after = w->after};
}

static bool put_all(struct store *s, const struct store_vector_work *w, const int8_t *vectors,
                    int dims, struct err *e)
{
    for (int i = 0; i < w->n; i++) {
        sqlite3_stmt *q = statement_begin(s, QUERY_VECTOR_PUT, e);
        if (!q)
            return false;
        statement_bind_int(q, ":id", w->at[i].id);
        statement_bind_text(q, ":model", w->model);
        statement_bind_blob(q, ":vector", vectors + (size_t)i * (size_t)dims, (size_t)dims);
        if (!statement_run(s, q, NULL, e))
            return false;
    }
    return true;
}

bool store_vectors_put(struct store *s, const struct store_vector_work *w, const int8_t *vectors,
                       int dims, struct err *e)
{
    return store_write_begin_unsynced(s, e) &&
           store_write_end(s, put_all(s, w, vectors, dims, e), e);
}

static int32_t dot(const int8_t *a, const int8_t *b, int n)
{
    int32_t sum = 0;
    for (int i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

struct search {
    const struct store_vector_question *q;
    double length;                /* of the question's */
    struct ranking_passage *best; /* [STORE_VECTORS_NEAR], best first */
    int n;
    double sum;
    int64_t n_all;
};

static void take(struct search *x, const struct ranking_passage *p)
{
    int at = x->n < STORE_VECTORS_NEAR ? x->n++ : STORE_VECTORS_NEAR;
    if (at == STORE_VECTORS_NEAR && x->best[--at].score >= p->score)
        return;
    for (; at > 0 && x->best[at - 1].score < p->score; at--)
        x->best[at] = x->best[at - 1];
    x->best[at] = *p;
}

static void compare(struct search *x, sqlite3_stmt *q)
{
    const int8_t *v = sqlite3_column_blob(q, 3);
    const int dims = x->q->dims;
    if (!v || sqlite3_column_bytes(q, 3) != dims)
        return;
    const double length = sqrt((double)dot(v, v, dims));
    if (length <= 0)
        return;
    const struct ranking_passage p = {.file = sqlite3_column_int64(q, 0),
                                      .start = sqlite3_column_int64(q, 1),
                                      .bytes = sqlite3_column_int64(q, 2),
                                      .score = (double)dot(v, x->q->vector, dims) /
                                               (length * x->length)};
    x->sum += p.score;
    x->n_all++;
    take(x, &p);
}

/* What is far from the question for this project's standards is chance. */
static void drop_far(struct search *x)
{
    const double average = x->n_all ? x->sum / (double)x->n_all : 0;
    const double least = x->n ? average + (x->best[0].score - average) * FAR : 0;
    while (x->n && x->best[x->n - 1].score < least)
        x->n--;
}

bool store_vectors_near(struct store *s, const struct store_vector_question *question,
                        struct ranking_passage **out, int *n, struct err *e)
{
    struct search x = {.q = question,
                       .length =
                           sqrt((double)dot(question->vector, question->vector, question->dims))};
    int rc = 0;
    *out = NULL;
    *n = 0;
    if (x.length <= 0)
        return true;
    x.best = malloc(STORE_VECTORS_NEAR * sizeof *x.best);
    sqlite3_stmt *q = x.best ? statement_begin(s, QUERY_VECTOR_NEAR, e) : NULL;
    if (!q) {
        if (!x.best)
            err_set(e, ERR_NOMEM, "memory ran out");
        free(x.best);
        return false;
    }
    statement_bind_int(q, ":user_id", question->project.user_id);
    statement_bind_int(q, ":id", question->project.id);
    statement_bind_text(q, ":model", question->model);
    statement_bind_int(q, ":most", STORE_VECTORS_MOST);
    while ((rc = statement_step(s, q, e)) == 1)
        compare(&x, q);
    statement_end(q);
    drop_far(&x);
    *out = x.best;
    *n = x.n;
    return rc >= 0;
}

bool store_vectors_waiting(struct store *s, const struct store_ref *project, const char *model,
                           int64_t *n, struct err *e)
{
    sqlite3_stmt *q = statement_begin(s, QUERY_VECTORS_WAITING, e);
    if (!q)
        return false;
    statement_bind_int(q, ":user_id", project->user_id);
    statement_bind_int(q, ":id", project->id);
    statement_bind_text(q, ":model", model);
    return statement_int(s, q, n, e);
}
