/* Vectors of passages, for a search by meaning beside the one by words: what an embedding model
 * makes of a passage, one signed byte for each dimension. A row names its model, and only rows of
 * the model that runs now are compared; those of another are replaced. They go with their passages.
 * Rules as in sql/core/store.h. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/err.h"
#include "sql/core/store.h"
#include "sql/projects/ranking.h"

#define STORE_VECTOR_MODEL 16   /* characters of a model's name */
#define STORE_VECTOR_DIMS 16384 /* at most */
#define STORE_VECTORS_STEP 8    /* passages that are read at once */
#define STORE_VECTORS_MOST                                                                         \
    30000                     /* of a project that one search compares; more than it can have      \
                               */
#define STORE_VECTORS_NEAR 50 /* that a search gives */

/* Of a model's vector what is kept: each value as a step of 127 each way, scaled by the greatest,
 * since only directions are compared. False: one is no finite number, and out is left alone. Pure.
 */
bool store_vector_pack(const float *values, int n, int8_t *out);

/* Passages on their way to the model: those of one file, whose text is kept for the next step. */
struct store_vector_work { /* zeroed at first; store_vector_work_fini */
    const char *model;
    int64_t after; /* only passages with greater ids; moved by whoever has done some */
    int64_t file;
    char *text;
    size_t len;
    struct store_vector_passage {
        int64_t id, start, bytes; /* of text */
    } at[STORE_VECTORS_STEP];
    int n; /* 0: none waits */
};
/* The next ones of all users that have no vector of this model. Where there is none, `after` moves
 * to the last passage there is. */
bool store_vectors_next(struct store *s, struct store_vector_work *w, struct err *e);
void store_vector_work_fini(struct store_vector_work *w);
/* Their vectors, [w->n][dims]; one that is all 0 says that the model could not read its passage. A
 * passage that is gone meanwhile is passed over. */
bool store_vectors_put(struct store *s, const struct store_vector_work *w, const int8_t *vectors,
                       int dims, struct err *e);

struct store_vector_question {
    struct store_ref project;
    const char *model;
    const int8_t *vector; /* [dims] */
    int dims;
};
/* The passages of the project's files that are nearest by the cosine, best first, with it as their
 * score: at most STORE_VECTORS_NEAR, and none that is less than half as far above the average of
 * the project as the best one is. The caller frees *out. */
bool store_vectors_near(struct store *s, const struct store_vector_question *q,
                        struct ranking_passage **out, int *n, struct err *e);
/* How many passages of the project's files have no vector of the model yet. */
bool store_vectors_waiting(struct store *s, const struct store_ref *project, const char *model,
                           int64_t *n, struct err *e);
