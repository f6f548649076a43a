/* answer_view.h: the one way from a job's parameters to the end of its answer, whole or streamed.
 */
#define LOG_MODULE "chat" /* which these lines of the log have always named */
#include "fcgi/inference/answer_view.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/log.h"
#include "fcgi/auth/limits.h"
#include "fcgi/http/reply.h"
#include "fcgi/http/request.h"
#include "fcgi/http/route.h"
#include "fcgi/inference/usage.h"

/* What was written has woken nginx, often for this very processor, since the kernel expects of who
 * writes to a socket that it sleeps next. But the log is still to be written, and the client would
 * wait for that: it gets the last event first, and then the end of a whole answer. */
static void let_go(struct request *r, const struct answer_view *v, const struct err *e)
{
    v->end(v->listener.context, e);
    sched_yield();
    if (e)
        return;
    route_counts(r);
    reply_finish(r);
}

/* Before the client has all of its answer, since it may send the next request then. */
static void leave(struct inference *x)
{
    usage_note(x);
    limits_leave(x->r);
}

/* A whole reply is written at the end only; a client that disconnects is still noticed meanwhile.
 */
static bool run_whole(struct inference *x, const struct answer_view *v, struct err *e)
{
    if (!inference_run(x, e))
        return false;
    leave(x);
    let_go(x->r, v, NULL);
    return true;
}

static void run_stream(struct inference *x, const struct answer_view *v)
{
    struct request *r = x->r;
    struct err broken = {0};
    v->begin(v->listener.context);
    bool whole = inference_run(x, &broken);
    if (whole) /* else its jobs run until they are closed */
        leave(x);
    let_go(r, v, whole ? NULL : &broken);
    if (!whole && !r->client_gone)
        log_warn("id=%s stream ended with %s: %s", r->id, err_code_name(broken.code), broken.text);
}

bool answer_view_run(struct inference *x, struct request *r, const struct inference_params *p,
                     const struct answer_view *v, struct err *e)
{
    struct inference_params mine = *p;
    mine.listener = v->listener;
    if (!inference_start(x, r, &mine, e)) {
        if (e->code == ERR_LIMIT && (!e->field[0] || !strcmp(e->field, "prompt")) && p->source)
            snprintf(e->field, sizeof e->field, "%s", p->source);
        return false;
    }
    if (v->begin)
        run_stream(x, v);
    else if (!run_whole(x, v, e))
        return false;
    return true;
}
