/* The thread that makes masks which take long. It owns an entry from mask_maker_give until
 * mask_maker_take has returned it. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "engine/base/clock.h"
#include "engine/grammar/grammar_internal.h"

struct list {
    struct entry *first, **end;
};

struct mask_maker {
    struct mask_scratch scratch; /* the thread's own */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t work, finished;
    /* under the lock */
    struct list waiting, done;
    bool at_work, stop;
};

static void list_init(struct list *l)
{
    l->first = NULL;
    l->end = &l->first;
}

static void list_add(struct list *l, struct entry *x)
{
    x->next_work = NULL;
    *l->end = x;
    l->end = &x->next_work;
}

static struct entry *list_take(struct list *l)
{
    struct entry *x = l->first;
    if (x && !(l->first = x->next_work))
        l->end = &l->first;
    return x;
}

static void make(struct mask_maker *m, struct entry *x)
{
    x->failed = STATE_UNKNOWN;
    for (uint32_t i = 0; i < x->n_wanted; i++) {
        const uint32_t state = x->wanted[i].state;
        struct err e = {0};
        if (x->a.states[state].mask)
            continue; /* two runs stand there */
        automaton_allow(&x->a, x->wanted[i].visits);
        if (mask_make(&m->scratch, &x->a, state, &e)) {
            x->a.states[state].mask->used = x->used;
        } else if (x->failed == STATE_UNKNOWN) {
            x->failed = state;
            x->why = e;
        }
    }
}

static void *run(void *context)
{
    struct mask_maker *m = context;
    pthread_mutex_lock(&m->lock);
    while (!m->stop) {
        struct entry *x = list_take(&m->waiting);
        m->at_work = x != NULL;
        if (!x) {
            pthread_cond_wait(&m->work, &m->lock);
            continue;
        }
        pthread_mutex_unlock(&m->lock);
        make(m, x);
        pthread_mutex_lock(&m->lock);
        list_add(&m->done, x);
        pthread_cond_signal(&m->finished);
    }
    pthread_mutex_unlock(&m->lock);
    return NULL;
}

struct mask_maker *mask_maker_create(const struct token_trie *t, struct err *e)
{
    struct mask_maker *m = calloc(1, sizeof *m);
    if (!m) {
        err_set(e, ERR_NOMEM, "no memory for grammars");
        return NULL;
    }
    list_init(&m->waiting);
    list_init(&m->done);
    pthread_mutex_init(&m->lock, NULL);
    pthread_cond_init(&m->work, NULL);
    pthread_cond_init(&m->finished, NULL);
    if (mask_scratch_init(&m->scratch, t, e)) {
        if (pthread_create(&m->thread, NULL, run, m) == 0)
            return m;
        err_set(e, ERR_NOMEM, "cannot start the thread for grammars");
        mask_scratch_fini(&m->scratch);
    }
    free(m);
    return NULL;
}

void mask_maker_destroy(struct mask_maker **at)
{
    struct mask_maker *m = *at;
    if (!m)
        return;
    pthread_mutex_lock(&m->lock);
    m->stop = true;
    pthread_cond_signal(&m->work);
    pthread_mutex_unlock(&m->lock);
    pthread_join(m->thread, NULL);
    pthread_mutex_destroy(&m->lock);
    pthread_cond_destroy(&m->work);
    pthread_cond_destroy(&m->finished);
    mask_scratch_fini(&m->scratch);
    free(m);
    *at = NULL;
}

void mask_maker_give(struct mask_maker *m, struct entry *x)
{
    pthread_mutex_lock(&m->lock);
    list_add(&m->waiting, x);
    m->at_work = true;
    pthread_cond_signal(&m->work);
    pthread_mutex_unlock(&m->lock);
}

struct entry *mask_maker_take(struct mask_maker *m, double wait_ms)
{
    const struct timespec until = clock_deadline(CLOCK_REALTIME, wait_ms);
    pthread_mutex_lock(&m->lock);
    while (!m->done.first && m->at_work && wait_ms > 0 &&
           pthread_cond_timedwait(&m->finished, &m->lock, &until) != ETIMEDOUT)
        ;
    struct entry *x = list_take(&m->done);
    pthread_mutex_unlock(&m->lock);
    return x;
}
