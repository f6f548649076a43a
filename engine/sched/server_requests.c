/* Handles the requests of clients: SUBMIT makes a job, ATTACH follows the events of one, CANCEL
 * ends one. */
#include "engine/sched/server_state.h"
#include "engine/wire/message.h"

static void subscribe(struct server *s, struct connection *c, struct job *j, bool owner)
{
    job_ref(j);
    c->job = j;
    c->owner = owner;
    s->n_without_job--;
}

static void note_submission(struct server *s, bool accepted)
{
    struct status_page *page = status_begin(s->params.status);
    page->jobs_accepted += accepted;
    page->jobs_waiting += accepted; /* until the loop publishes its own count */
    page->jobs_refused += !accepted;
    status_end(s->params.status);
}

struct submission {      /* a checked SUBMIT frame */
    struct arena *arena; /* params point into it */
    struct engine_job_params params;
    int32_t position; /* in the queue */
};

/* The job is in the table, and its ACCEPTED event in its log, before the loop can touch it. Takes
 * the arena, whatever happens. */
static bool accept_job(struct server *s, struct connection *c, const struct submission *from,
                       struct err *e)
{
    struct buf frames = {0};
    struct job *j = job_create(job_table_next_id(&s->jobs), from->arena, &from->params, e);
    if (!j)
        return false;
    message_put_event(&frames, &(struct engine_event){.type = ENGINE_ACCEPTED,
                                                      .job = j->id,
                                                      .queue_position = from->position});
    bool ok = event_log_append(&j->log, &frames, false) && job_table_add(&s->jobs, j);
    buf_fini(&frames);
    if (!ok) {
        job_unref(&j);
        return err_set(e, ERR_NOMEM, "no memory for a job");
    }
    subscribe(s, c, j, true);
    note_submission(s, true); /* before the loop can count its end */
    inbox_push(s->params.inbox, j);
    return true;
}

static bool submit(struct server *s, struct connection *c, const struct frame *f, struct err *e)
{
    struct submission to;
    struct engine_job_params *p = &to.params;
    if (connection_left(c)) /* the client gave up waiting, so nobody wants the answer */
        return err_set(e, ERR_CANCELLED, "the client has left");
    to.arena = arena_create((size_t)f->len * 2 + ((size_t)64 << 10));
    if (!to.arena)
        return err_set(e, ERR_NOMEM, "no memory for a job");
    if (!message_get_submit(f, p, to.arena, e))
        goto refuse;
    const struct jobs_waiting waiting = job_table_waiting(&s->jobs, p->user);
    if (!inbox_check(s->params.inbox, p, &waiting, &to.position, e))
        goto refuse;
    struct job *same = p->detached ? job_table_find(&s->jobs, p->key) : NULL;
    if (same && !atomic_load(&same->over)) {
        err_field(e, ERR_CONFLICT, "key", "a job with this key is running");
        goto refuse;
    }
    return accept_job(s, c, &to, e);
refuse:
    arena_destroy(&to.arena);
    return false;
}

static bool attach(struct server *s, struct connection *c, const struct frame *f, struct err *e)
{
    char key[ENGINE_KEY_SIZE];
    if (!message_get_key(f, key, e))
        return false;
    struct job *j = job_table_find(&s->jobs, key);
    if (!j || !j->params.detached)
        return err_field(e, ERR_NOTFOUND, "key", "no such job, or forgotten since");
    subscribe(s, c, j, false);
    return true;
}

static bool cancel(struct server *s, struct connection *c, const struct frame *f, struct err *e)
{
    char key[ENGINE_KEY_SIZE];
    if (!message_get_key(f, key, e))
        return false;
    struct job *j = key[0] ? job_table_find(&s->jobs, key) : c->job;
    if (!j)
        return err_field(e, ERR_NOTFOUND, "key", "no such job, or forgotten since");
    atomic_store(&j->cancel, true);
    inbox_wake(s->params.inbox);
    if (key[0]) {
        message_put_event(&c->out, &(struct engine_event){.type = ENGINE_ACCEPTED, .job = j->id});
        c->closing = true;
    }
    return true;
}

bool server_handle_frame(struct server *s, struct connection *c, const struct frame *f,
                         struct err *e)
{
    if (!c->greeted && f->type != FRAME_HELLO)
        return err_set(e, ERR_FORMAT, "HELLO must come first");
    if (f->type == FRAME_HELLO) {
        c->greeted = true;
        return message_get_hello(f, e);
    }
    if (f->type == FRAME_CANCEL)
        return cancel(s, c, f, e);
    if (c->job)
        return err_set(e, ERR_FORMAT, "one connection is one job");
    if (f->type == FRAME_SUBMIT) {
        if (submit(s, c, f, e))
            return true;
        note_submission(s, false);
        return false;
    }
    if (f->type == FRAME_ATTACH)
        return attach(s, c, f, e);
    if (f->type >= FRAME_CACHE_FOLLOW && f->type <= FRAME_CACHE_RECONCILE_END)
        return server_feed_frame(s, c, f, e);
    return err_set(e, ERR_FORMAT, "unexpected frame of type %d", (int)f->type);
}
