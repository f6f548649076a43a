/* The texts of an embedding job as part of its submission, and their vectors as an event. */
#include <stdlib.h>

#include "engine/wire/message.h"
#include "engine/wire/message_parts.h"

#define MAX_EVENT_VALUES ((uint32_t)8 << 20)

const char *engine_task_name(enum engine_task task)
{
    static const char *const names[] = {
        [ENGINE_TASK_TEXT] = "text", [ENGINE_TASK_EMBED] = "embed", [ENGINE_TASK_SCORE] = "score"};
    return (unsigned)task < ENGINE_TASK__N ? names[task] : "unknown";
}

/* Ends ascend to the prompt's, so no text is empty; a text's first part lies within it. */
static bool check_ends(const struct engine_job_params *p, struct err *e)
{
    int32_t from = 0;
    for (int32_t i = 0; i < p->n_texts; from = p->text_ends[i++]) {
        if (p->text_ends[i] <= from || p->text_ends[i] > p->n_prompt)
            return err_field(e, ERR_INPUT, "input", "text %d is empty", i);
        if (p->text_firsts[i] < 0 || p->text_firsts[i] > p->text_ends[i] - from)
            return err_field(e, ERR_INPUT, "input", "text %d has a first part of %d tokens", i,
                             p->text_firsts[i]);
    }
    return from == p->n_prompt ||
           err_field(e, ERR_INPUT, "input", "%d tokens belong to no text", p->n_prompt - from);
}

bool message_check_texts(const struct engine_job_params *p, struct err *e)
{
    if ((uint32_t)p->task >= ENGINE_TASK__N)
        return err_field(e, ERR_INPUT, "task", "%d is no task", (int)p->task);
    if (p->task == ENGINE_TASK_TEXT)
        return p->n_texts == 0 || err_field(e, ERR_INPUT, "input", "an answer has one prompt");
    if (p->n_texts < 1 || p->n_texts > ENGINE_MAX_TEXTS)
        return err_field(e, ERR_INPUT, "input", "%d texts, expected 1 to %d", p->n_texts,
                         ENGINE_MAX_TEXTS);
    if (p->dimensions < 0)
        return err_field(e, ERR_INPUT, "dimensions", "%d, expected 1 or more", p->dimensions);
    return check_ends(p, e);
}

void message_put_texts(struct buf *b, const struct engine_job_params *p)
{
    frame_put_u32(b, (uint32_t)p->task);
    frame_put_u32(b, (uint32_t)p->n_texts);
    for (int32_t i = 0; i < p->n_texts; i++) {
        frame_put_u32(b, (uint32_t)p->text_ends[i]);
        frame_put_u32(b, (uint32_t)p->text_firsts[i]);
    }
    frame_put_u32(b, (uint32_t)p->dimensions);
}

bool message_get_texts(struct frame_reader *r, struct engine_job_params *p, struct arena *a,
                       struct err *e)
{
    p->task = (enum engine_task)frame_get_u32(r);
    const uint32_t n = frame_get_u32(r);
    if (r->failed || n > ENGINE_MAX_TEXTS || (size_t)(r->end - r->at) < (size_t)n * 8)
        return err_set(e, ERR_FORMAT, "malformed SUBMIT frame");
    int32_t *ends = arena_alloc(a, (n ? n : 1) * sizeof *ends),
            *firsts = arena_alloc(a, (n ? n : 1) * sizeof *firsts);
    if (!ends || !firsts)
        return err_set(e, ERR_NOMEM, "no memory for %u texts", n);
    for (uint32_t i = 0; i < n; i++) {
        ends[i] = (int32_t)frame_get_u32(r);
        firsts[i] = (int32_t)frame_get_u32(r);
    }
    p->text_ends = ends;
    p->text_firsts = firsts;
    p->n_texts = (int32_t)n;
    p->dimensions = (int32_t)frame_get_u32(r);
    return true;
}

void message_put_vectors(struct buf *b, const struct engine_event *ev)
{
    frame_put_u32(b, (uint32_t)ev->done);
    frame_put_u32(b, (uint32_t)ev->n_vectors);
    frame_put_u32(b, (uint32_t)ev->dimensions);
    for (int64_t i = 0; i < (int64_t)ev->n_vectors * ev->dimensions; i++)
        frame_put_f32(b, ev->values[i]);
}

bool message_get_vectors(struct frame_reader *r, struct engine_event *ev, struct event_box *box,
                         struct err *e)
{
    ev->done = (int32_t)frame_get_u32(r);
    const uint32_t n = frame_get_u32(r), each = frame_get_u32(r);
    const uint64_t total = (uint64_t)n * each;
    if (r->failed || total > MAX_EVENT_VALUES || (size_t)(r->end - r->at) < total * 4)
        return r->failed = true;
    if (total > (uint64_t)box->cap_values) {
        float *grown = realloc(box->values, (size_t)total * sizeof *grown);
        if (!grown)
            return err_set(e, ERR_NOMEM, "no memory for %u vectors", n);
        box->values = grown;
        box->cap_values = (int64_t)total;
    }
    for (uint64_t i = 0; i < total; i++)
        box->values[i] = frame_get_f32(r);
    ev->values = box->values;
    ev->n_vectors = (int32_t)n;
    ev->dimensions = (int32_t)each;
    return true;
}
