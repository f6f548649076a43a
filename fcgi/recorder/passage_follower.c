/* passage_follower.h: passages that have no vector, oldest first; the ids of those that come later
 * are greater, so what is done is not looked at again. */
#define LOG_MODULE "recorder"
#include "fcgi/recorder/passage_follower.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "engine/engine.h"
#include "engine/wire/status.h"
#include "fcgi/process/side_model.h"
#include "sql/core/store.h"
#include "sql/projects/store_vectors.h"

#define POLL_MS 100
#define LOOK_MS 1000.0   /* for passages that have come */
#define RETRY_MS 5000.0  /* after a failure */
#define REST 3.0         /* times as long as a step took, while answers run ... */
#define REST_MS 10000.0  /* ... at most */
#define STEP_MS 120000.0 /* that the engine may take for a step */

struct passage_follower {
    struct passage_follower_params p;
    pthread_t thread;
    atomic_bool stop;
    struct store *store; /* the thread's, as all that follows */
    struct store_vector_work work;
    bool failing;
};

static bool stopped(struct passage_follower *f)
{
    return atomic_load_explicit(&f->stop, memory_order_relaxed);
}

static void rest(struct passage_follower *f, double ms)
{
    for (const double until = clock_ms() + ms; !stopped(f) && clock_ms() < until;)
        nanosleep(&(struct timespec){.tv_nsec = POLL_MS * 1000000L / 2}, NULL);
}

/* --- one step --- */

struct step {
    struct passage_follower *f;
    struct ids ids;
    int32_t ends[STORE_VECTORS_STEP], firsts[STORE_VECTORS_STEP];
    int8_t *vectors; /* [n][dims] */
    int dims;
};

static bool push(struct ids *to, const int32_t *ids, int32_t n)
{
    for (int32_t i = 0; i < n; i++)
        if (!ids_push(to, ids[i]))
            return false;
    return true;
}

/* The passage with what the model wants around it, cut where it is too long. */
static bool add_passage(struct step *x, int i, int32_t n_ctx, struct err *e)
{
    const struct store_vector_work *w = &x->f->work;
    const struct text_model *text = &x->f->p.model->text;
    const struct vocab_around *a = vocab_around(text->vocab);
    const size_t from = x->ids.n, most = (size_t)(n_ctx > a->n_after ? n_ctx - a->n_after : 0);
    const struct store_vector_passage *p = &w->at[i];
    if ((size_t)(p->start + p->bytes) > w->len)
        return err_set(e, ERR_INTERNAL, "a passage lies outside of its text");
    if (!push(&x->ids, a->before, a->n_before) ||
        !tokenizer_encode(text->tokenizer,
                          &(struct tokenizer_input){.text = w->text + p->start,
                                                    .len = (size_t)p->bytes,
                                                    .mode = TOKENIZE_PLAIN},
                          &x->ids, e))
        return false;
    if (x->ids.n - from > most)
        x->ids.n = from + most;
    x->firsts[i] = 0;
    if (!push(&x->ids, a->after, a->n_after))
        return err_set(e, ERR_NOMEM, "no memory for passages");
    x->ends[i] = (int32_t)x->ids.n;
    return true;
}

static bool take_vectors(struct step *x, const struct engine_event *ev, struct err *e)
{
    const int n = x->f->work.n;
    if (!x->vectors) {
        x->dims = ev->dimensions;
        if (x->dims < 1 || x->dims > STORE_VECTOR_DIMS)
            return err_set(e, ERR_INTERNAL, "the model has %d dimensions", x->dims);
        x->vectors = calloc((size_t)n, (size_t)x->dims);
        if (!x->vectors)
            return err_set(e, ERR_NOMEM, "no memory for vectors");
    }
    if (ev->dimensions != x->dims || ev->done < 0 || ev->n_vectors > n - ev->done)
        return err_set(e, ERR_INTERNAL, "the engine sent vectors that nobody asked for");
    for (int32_t i = 0; i < ev->n_vectors; i++) {
        const float *v = ev->values + (size_t)i * (size_t)x->dims;
        /* One that is not finite stays all 0: nobody finds it, and nobody tries again. */
        store_vector_pack(v, x->dims, x->vectors + (size_t)(ev->done + i) * (size_t)x->dims);
    }
    return true;
}

static bool wait_for_vectors(struct step *x, struct engine_job *job, struct err *e)
{
    struct engine_event ev;
    const double until = clock_ms() + STEP_MS;
    while (!stopped(x->f) && clock_ms() < until) {
        const int n = engine_next(job, &ev, POLL_MS, e);
        if (n < 0)
            return false;
        if (n == 0)
            continue;
        if (ev.type == ENGINE_VECTORS && !take_vectors(x, &ev, e))
            return false;
        if (ev.type == ENGINE_FAILED) {
            *e = ev.error;
            return false;
        }
        if (ev.type == ENGINE_DONE)
            return (ev.finish == ENGINE_STOP_EOS && x->vectors) ||
                   err_set(e, ERR_UNAVAILABLE, "the engine ended before it had read all passages");
    }
    return err_set(e, ERR_CANCELLED, "it takes too long");
}

/* As a user of its own, so that in the engine's queue it stands behind nobody's own texts. */
static bool run(struct step *x, struct err *e)
{
    const struct side_model *m = x->f->p.model;
    struct engine_job_params p = {.prompt = x->ids.at,
                                  .n_prompt = (int32_t)x->ids.n,
                                  .sampling = {.top_p = 1, .repetition_penalty = 1},
                                  .top_logprobs = -1,
                                  .cache_keep_seconds = -1,
                                  .task = m->task,
                                  .text_ends = x->ends,
                                  .text_firsts = x->firsts,
                                  .n_texts = x->f->work.n,
                                  .request_id = "passages"};
    struct engine_job *job = engine_submit(m->engine_socket, &p, e);
    const bool ok = job && wait_for_vectors(x, job, e);
    engine_close(&job);
    return ok;
}

static bool read_passages(struct step *x, int32_t n_ctx, struct err *e)
{
    for (int i = 0; i < x->f->work.n; i++)
        if (!add_passage(x, i, n_ctx, e))
            return false;
    return run(x, e);
}

/* Is it the passages' fault, and will be the next time too? */
static bool is_for_good(const struct err *e)
{
    return e->code && e->code != ERR_UNAVAILABLE && e->code != ERR_CANCELLED &&
           e->code != ERR_BUSY && e->code != ERR_NOMEM && e->code != ERR_IO &&
           e->code != ERR_DEVICE;
}

/* False with e->code 0: the engine is not ready. *bad: the model can't read one of them. */
static bool embed(struct passage_follower *f, bool *bad, struct err *e)
{
    struct step x = {.f = f};
    struct status_page page = {0};
    struct err ignored = {0};
    *bad = false;
    if (!status_read(f->p.model->status_path, &page, &ignored) || page.state != ENGINE_READY)
        return false;
    bool ok = read_passages(&x, page.n_ctx, e);
    *bad = !ok && is_for_good(e);
    ok = ok && store_vectors_put(f->store, &f->work, x.vectors, x.dims, e);
    ids_fini(&x.ids);
    free(x.vectors);
    return ok;
}

/* The only one of f->work. Where the model can't read it, it gets a vector that nothing is near,
 * so that it is not tried again. */
static bool embed_one(struct passage_follower *f, struct err *e)
{
    static const int8_t nothing[1] = {0};
    struct err why = {0};
    bool bad;
    if (embed(f, &bad, &why))
        return true;
    if (bad) {
        log_warn("passage %lld is found by its words alone: %s", (long long)f->work.at[0].id,
                 why.text);
        return store_vectors_put(f->store, &f->work, nothing, 1, e);
    }
    *e = why;
    return false;
}

/* One that can't be read must not keep the others from their vectors. */
static bool embed_singly(struct passage_follower *f, struct err *e)
{
    struct store_vector_work *w = &f->work;
    struct store_vector_passage all[STORE_VECTORS_STEP];
    const int n = w->n;
    bool ok = true;
    memcpy(all, w->at, sizeof all);
    w->n = 1;
    for (int i = 0; ok && i < n; i++) {
        w->at[0] = all[i];
        ok = embed_one(f, e);
    }
    memcpy(w->at, all, sizeof all);
    w->n = n;
    return ok;
}

static void complain(struct passage_follower *f, const struct err *e)
{
    if (e->code && e->code != ERR_CANCELLED && !f->failing)
        log_warn("passages get no vectors, trying on: %s", e->text);
    f->failing = e->code != ERR_NONE;
}

static bool answers_run(const struct passage_follower *f)
{
    struct status_page page = {0};
    struct err ignored = {0};
    return status_read(f->p.status_path, &page, &ignored) && page.state == ENGINE_READY &&
           page.jobs_running + page.jobs_waiting > 0;
}

/* How long to wait before the next one, in ms. */
static double take_step(struct passage_follower *f)
{
    struct err e = {0};
    bool bad;
    if (!store_vectors_next(f->store, &f->work, &e)) {
        complain(f, &e);
        return RETRY_MS;
    }
    if (!f->work.n) {
        store_vector_work_fini(&f->work); /* its text is not needed any more */
        return LOOK_MS;
    }
    const double began = clock_ms();
    bool ok = embed(f, &bad, &e);
    if (bad) {
        e = (struct err){0};
        ok = embed_singly(f, &e);
    }
    const double took = clock_ms() - began;
    complain(f, &e);
    if (ok)
        f->work.after = f->work.at[f->work.n - 1].id;
    if (!ok)
        return RETRY_MS;
    return !answers_run(f) ? 0 : took * REST < REST_MS ? took * REST : REST_MS;
}

static void *follow(void *context)
{
    struct passage_follower *f = context;
    struct err e = {0};
    f->store = store_open(&(struct store_params){.path = f->p.db_path}, &e);
    if (!f->store)
        log_error("passages get no vectors: %s", e.text);
    while (f->store && !stopped(f))
        rest(f, take_step(f));
    store_vector_work_fini(&f->work);
    store_close(&f->store);
    return NULL;
}

struct passage_follower *passage_follower_start(const struct passage_follower_params *p)
{
    struct passage_follower *f = calloc(1, sizeof *f);
    if (!f)
        return NULL;
    f->p = *p;
    f->work.model = p->model->fingerprint;
    if (pthread_create(&f->thread, NULL, follow, f) == 0)
        return f;
    log_error("passages get no vectors: no thread");
    free(f);
    return NULL;
}

void passage_follower_stop(struct passage_follower **f)
{
    if (!*f)
        return;
    atomic_store_explicit(&(*f)->stop, true, memory_order_relaxed);
    pthread_join((*f)->thread, NULL);
    free(*f);
    *f = NULL;
}
