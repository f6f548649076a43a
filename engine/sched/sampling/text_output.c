/* Runs a token's text through the detokenizer, the content gate and the stop matcher. */
#include "engine/sched/sampling/text_output.h"

bool text_output_init(struct text_output *a, const struct text_output_params *p, struct err *e)
{
    *a = (struct text_output){0};
    detokenizer_init(&a->detokenizer, p->vocab, p->special_text);
    a->stops = stop_matcher_create(p->stops, p->n_stops, e);
    return a->stops != NULL;
}

void text_output_fini(struct text_output *a)
{
    stop_matcher_destroy(&a->stops);
    buf_fini(&a->piece);
    buf_fini(&a->undecided);
}

/* Reasoning is not matched against stops, and a partial match before it does not continue after it.
 */
static int32_t push_stops(struct text_output *a, const struct buf *text, bool content,
                          struct buf *out)
{
    if (content && !a->ignore_stops)
        return stop_matcher_push(a->stops, text->data, text->len, out);
    stop_matcher_flush(a->stops, out);
    buf_append(out, text->data, text->len);
    return -1;
}

static int32_t push_undecided(struct text_output *a, bool content, struct buf *out)
{
    int32_t met = push_stops(a, &a->undecided, content, out);
    buf_clear(&a->undecided);
    return met;
}

static int32_t push_piece(struct text_output *a, struct buf *out)
{
    if (!a->gate.format)
        return push_stops(a, &a->piece, true, out);
    int32_t met = -1;
    for (size_t i = 0; i < a->piece.len && met < 0; i++) {
        enum content_verdict verdict = content_gate_byte(&a->gate, a->piece.data[i]);
        if (!buf_putc(&a->undecided, a->piece.data[i]))
            out->failed = true;
        else if (verdict != CONTENT_UNDECIDED)
            met = push_undecided(a, verdict == CONTENT_INSIDE, out);
    }
    return met;
}

/* Passes the piece through the stops and clears it. */
static int32_t push_and_clear(struct text_output *a, bool whole, struct buf *out)
{
    int32_t met = -1;
    if (!whole)
        out->failed = true;
    else if (a->piece.len)
        met = push_piece(a, out);
    buf_clear(&a->piece);
    return met;
}

int32_t text_output_push(struct text_output *a, int32_t id, struct buf *out)
{
    return push_and_clear(a, detokenizer_push(&a->detokenizer, id, &a->piece), out);
}

int32_t text_output_flush(struct text_output *a, struct buf *out)
{
    int32_t met = push_and_clear(a, detokenizer_flush(&a->detokenizer, &a->piece), out);
    if (met < 0 && a->undecided.len) /* the beginning of a tag that was never completed is text */
        met = push_undecided(a, true, out);
    if (met < 0)
        stop_matcher_flush(a->stops, out);
    return met;
}
