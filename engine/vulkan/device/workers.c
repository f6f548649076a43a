/* See workers.h. */
#include "engine/vulkan/device/workers.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#define MOST_THREADS 7 /* beside the caller; more do not copy faster */

struct workers {
    pthread_t threads[MOST_THREADS];
    int n_threads;
    pthread_mutex_t lock;
    pthread_cond_t wake, done;
    void (*run)(void *context, int share);
    void *context;
    int n, next, left; /* shares: of this work, first that nobody took, not finished yet */
    bool stop;
};

/* Under the lock, which is let go while a share runs. */
static void work(struct workers *w)
{
    while (w->next < w->n) {
        int share = w->next++;
        pthread_mutex_unlock(&w->lock);
        w->run(w->context, share);
        pthread_mutex_lock(&w->lock);
        if (--w->left == 0) {
            pthread_cond_signal(&w->done);
        }
    }
}

static void *thread(void *context)
{
    struct workers *w = context;
    pthread_mutex_lock(&w->lock);
    while (!w->stop) {
        work(w);
        if (!w->stop) {
            pthread_cond_wait(&w->wake, &w->lock);
        }
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

struct workers *workers_open(struct err *e)
{
    struct workers *w = calloc(1, sizeof *w);
    long others = sysconf(_SC_NPROCESSORS_ONLN) - 1;
    if (!w) {
        err_set(e, ERR_NOMEM, "no memory for threads");
        return NULL;
    }
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->wake, NULL);
    pthread_cond_init(&w->done, NULL);
    while (w->n_threads < MOST_THREADS && w->n_threads < others && pthread_create(&w->threads[w->n_threads], NULL, thread, w) == 0) {
        w->n_threads++;
    }
    return w;
}

void workers_close(struct workers **pw)
{
    struct workers *w = *pw;
    *pw = NULL;
    if (!w) {
        return;
    }
    pthread_mutex_lock(&w->lock);
    w->stop = true;
    pthread_cond_broadcast(&w->wake);
    pthread_mutex_unlock(&w->lock);
    for (int i = 0; i < w->n_threads; i++) {
        pthread_join(w->threads[i], NULL);
    }
    pthread_cond_destroy(&w->wake);
    pthread_cond_destroy(&w->done);
    pthread_mutex_destroy(&w->lock);
    free(w);
}

void workers_run(struct workers *w, void (*run)(void *context, int share), void *context, int n)
{
    pthread_mutex_lock(&w->lock);
    w->run = run;
    w->context = context;
    w->n = w->left = n;
    w->next = 0;
    if (n > 1) {
        pthread_cond_broadcast(&w->wake);
    }
    work(w);
    while (w->left > 0) {
        pthread_cond_wait(&w->done, &w->lock);
    }
    w->n = w->next = 0;
    pthread_mutex_unlock(&w->lock);
}
