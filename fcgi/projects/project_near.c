/* project_near.h: one text to the engine, within a short time; its nearest passages; two lists
 * become one. */
#define LOG_MODULE "projects"
#include "fcgi/projects/project_near.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "fcgi/http/request.h"
#include "fcgi/inference/text_job.h"
#include "fcgi/process/worker.h"
#include "fcgi/projects/project.h"
#include "sql/projects/store_vectors.h"

const char *project_meaning(const struct request *r)
{
    const struct side_model *m = side_model_of(r->worker, ENGINE_TASK_EMBED);
    return m ? m->fingerprint : NULL;
}

/* NULL: words must do; the caller frees it. */
static int8_t *question_vector(struct request *r, const char *question, int *dims)
{
    struct text_job j = {.own = true};
    struct err why = {0};
    int8_t *out = NULL;
    const double until = clock_ms() + PROJECT_MEANING_MS;
    bool ok = *question && text_job_begin(&j, r, ENGINE_TASK_EMBED, NULL, &why);
    j.truncate = true;
    j.until = until;
    ok = ok && text_job_add(&j, question, &why) && text_job_run(&j, 0, &why);
    if (ok && j.dimensions <= STORE_VECTOR_DIMS && (out = malloc((size_t)j.dimensions))) {
        *dims = j.dimensions;
        if (!store_vector_pack(j.values, j.dimensions, out)) {
            err_set(&why, ERR_INTERNAL, "the model's vector is no direction");
            free(out);
            out = NULL;
        }
    }
    if (why.code)
        log_info("id=%s project searched by words alone: %s", r->id, why.text);
    text_job_fini(&j);
    memset(&r->error_override, 0, sizeof r->error_override); /* it was no failure of the request */
    return out;
}

static bool fuse(struct store_passages *found, const struct ranking_passage *near, int n_near,
                 struct err *e)
{
    struct ranking_passage *both = malloc((size_t)(RANKING_FUSED + n_near) * sizeof *both);
    if (!both)
        return err_set(e, ERR_NOMEM, "no memory for passages");
    const int n = ranking_fuse(found->at, found->n, near, n_near, both);
    free(found->at);
    found->at = both;
    found->n = n;
    return true;
}

bool project_near(struct request *r, const struct store_ref *project, const char *question,
                  struct store_passages *found, bool *by_meaning, struct err *e)
{
    struct ranking_passage *near = NULL;
    int dims = 0, n = 0;
    int8_t *vector = question_vector(r, question, &dims);
    *by_meaning = vector != NULL;
    if (!vector)
        return true;
    const struct store_vector_question q = {
        .project = *project, .model = project_meaning(r), .vector = vector, .dims = dims};
    const bool ok = store_vectors_near(r->store, &q, &near, &n, e) && fuse(found, near, n, e);
    free(near);
    free(vector);
    return ok;
}
