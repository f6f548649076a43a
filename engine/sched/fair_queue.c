/* Keeps waiting jobs in one list per user and priority, and picks the user with the smallest
 * service counter. */
#include "engine/sched/fair_queue.h"

#include <assert.h>
#include <stdlib.h>

/* Tokens that a user's counter may be ahead of the smallest one. Who used an idle device for hours
 * beside somebody who asks little would else wait until the other had caught up with all of it. */
#define MAX_AHEAD 8192.0

struct user { /* present: has a job waiting or running */
    uint64_t id;
    double served;
    int32_t n_waiting, n_running;
    struct job *first[2], *last[2]; /* waiting, by priority */
    struct user *next;
};

struct fair_queue {
    struct user *users; /* as many as have jobs in the engine: short, so a list */
    int32_t n_waiting[2];
};

struct fair_queue *fair_queue_create(struct err *e)
{
    struct fair_queue *q = calloc(1, sizeof *q);
    if (!q)
        err_set(e, ERR_NOMEM, "no memory for the queue");
    return q;
}

void fair_queue_destroy(struct fair_queue **q)
{
    if (!*q)
        return;
    while ((*q)->users) {
        struct user *u = (*q)->users;
        (*q)->users = u->next;
        free(u);
    }
    free(*q);
    *q = NULL;
}

static struct user *find(const struct fair_queue *q, uint64_t id)
{
    struct user *u = q->users;
    while (u && u->id != id)
        u = u->next;
    return u;
}

static struct user *find_or_add(struct fair_queue *q, uint64_t id)
{
    struct user *u = find(q, id);
    if (u)
        return u;
    u = calloc(1, sizeof *u);
    if (!u)
        return NULL;
    u->id = id;
    for (struct user *o = q->users; o; o = o->next)
        if (o == q->users || o->served < u->served)
            u->served = o->served;
    u->next = q->users;
    q->users = u;
    return u;
}

static void remove_if_idle(struct fair_queue *q, struct user *u)
{
    if (u->n_waiting || u->n_running)
        return;
    struct user **at = &q->users;
    while (*at != u)
        at = &(*at)->next;
    *at = u->next;
    free(u);
}

bool fair_queue_push(struct fair_queue *q, struct job *j, bool front)
{
    struct user *u = find_or_add(q, j->params.user);
    int p = j->params.priority;
    if (!u)
        return false;
    j->previous = front ? NULL : u->last[p];
    j->next = front ? u->first[p] : NULL;
    *(j->previous ? &j->previous->next : &u->first[p]) = j;
    *(j->next ? &j->next->previous : &u->last[p]) = j;
    u->n_waiting++;
    q->n_waiting[p]++;
    return true;
}

struct job *fair_queue_first(const struct fair_queue *q)
{
    int p = q->n_waiting[0] ? 0 : 1;
    const struct user *best = NULL;
    for (const struct user *u = q->users; u; u = u->next) {
        if (!u->first[p])
            continue;
        /* at equal counters the job that was submitted first */
        if (!best || u->served < best->served ||
            (u->served == best->served && u->first[p]->id < best->first[p]->id))
            best = u;
    }
    return best ? best->first[p] : NULL;
}

struct job *fair_queue_neediest(const struct fair_queue *q)
{
    int p = q->n_waiting[0] ? 0 : 1;
    const struct user *best = NULL;
    for (const struct user *u = q->users; u; u = u->next) {
        if (!u->first[p])
            continue;
        if (!best || u->n_running < best->n_running ||
            (u->n_running == best->n_running &&
             slot_turn_waits_longer(&u->first[p]->turn, &best->first[p]->turn)))
            best = u;
    }
    return best ? best->first[p] : NULL;
}

void fair_queue_remove(struct fair_queue *q, struct job *j)
{
    struct user *u = find(q, j->params.user);
    int p = j->params.priority;
    assert(u);
    *(j->previous ? &j->previous->next : &u->first[p]) = j->next;
    *(j->next ? &j->next->previous : &u->last[p]) = j->previous;
    j->previous = j->next = NULL;
    u->n_waiting--;
    q->n_waiting[p]--;
    remove_if_idle(q, u);
}

int32_t fair_queue_count(const struct fair_queue *q)
{
    return q->n_waiting[0] + q->n_waiting[1];
}

void fair_queue_each(struct fair_queue *q, void (*visit)(void *context, struct job *j),
                     void *context)
{
    for (struct user *u = q->users, *next_user; u; u = next_user) {
        next_user = u->next; /* removing its last job frees the user */
        struct job *heads[2] = {u->first[0], u->first[1]};
        for (int p = 0; p < 2; p++)
            for (struct job *j = heads[p], *next; j; j = next) {
                next = j->next;
                visit(context, j);
            }
    }
}

void fair_queue_enter(struct fair_queue *q, const struct job *j)
{
    struct user *u = find(q, j->params.user);
    assert(u); /* called before the job is removed from the queue */
    u->n_running++;
}

void fair_queue_leave(struct fair_queue *q, const struct job *j)
{
    struct user *u = find(q, j->params.user);
    assert(u && u->n_running > 0);
    u->n_running--;
    remove_if_idle(q, u);
}

int32_t fair_queue_running(const struct fair_queue *q, const struct job *j)
{
    const struct user *u = find(q, j->params.user);
    return u ? u->n_running : 0;
}

void fair_queue_charge(struct fair_queue *q, const struct job *j, double tokens)
{
    struct user *u = find(q, j->params.user);
    if (!u)
        return;
    u->served += tokens;
    double least = u->served;
    for (const struct user *o = q->users; o; o = o->next)
        if (o->served < least)
            least = o->served;
    if (u->served > least + MAX_AHEAD)
        u->served = least + MAX_AHEAD;
}

double fair_queue_served(const struct fair_queue *q, const struct job *j)
{
    const struct user *u = find(q, j->params.user);
    return u ? u->served : 0;
}
