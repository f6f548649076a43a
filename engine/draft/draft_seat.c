/* A drafter's seats: which places of a text one has gone through, and the model's hidden states
 * that steps leave there. */
#include <assert.h>
#include <string.h>

#include "engine/draft/draft_model_state.h"

void *draft_seat_take(struct draft_model *m, struct err *e)
{
    for (int32_t i = 0; i < m->params.n_seats; i++)
        if (!m->seats[i].taken) {
            m->seats[i].taken = true;
            m->seats[i].from = m->seats[i].n_read = m->seats[i].n_ahead = 0;
            m->seats[i].hidden_from = m->seats[i].hidden_to = 0;
            m->seats[i].went_ahead = false;
            m->counts.taken++;
            return &m->seats[i];
        }
    err_set(e, ERR_LIMIT, "all %d seats of the draft model are taken", m->params.n_seats);
    return NULL;
}

void draft_seat_leave(void *state)
{
    struct draft_seat *seat = state;
    if (!seat)
        return;
    seat->taken = false;
    seat->model->counts.taken--;
}

float *draft_seat_hidden(const struct draft_seat *seat, int32_t place)
{
    const size_t d = (size_t)seat->model->params.d_hidden;
    return d ? seat->hidden + (size_t)(place - seat->hidden_from) * d : NULL;
}

/* What a step of the model leaves in the seat: rows start .. start + n - 1 of the text. Those that
 * it was given from `start` on before were of tokens that were rejected. */
float *draft_seat_place_hidden(void *state, int32_t start, int32_t n)
{
    struct draft_seat *seat = state;
    const size_t d = (size_t)seat->model->params.d_hidden;
    assert(n <= DRAFT_HIDDEN_ROWS - DRAFT_FRESH);
    if (start < seat->hidden_from || start > seat->hidden_to)
        seat->hidden_from = start;
    if (start + n - seat->hidden_from > DRAFT_HIDDEN_ROWS) {
        const int32_t from = start - DRAFT_FRESH;
        memmove(seat->hidden, draft_seat_hidden(seat, from), DRAFT_FRESH * d * sizeof(float));
        seat->hidden_from = from;
    }
    seat->hidden_to = start + n;
    return draft_seat_hidden(seat, start);
}

struct draft_text draft_seat_reads(const struct draft_model *m, struct draft_text text)
{
    const bool behind = m->params.d_hidden && text.n_tokens > 0;
    text.tokens += behind && draft_model_kind(m) == DRAFT_KIND_LAYER;
    text.n_tokens -= behind;
    return text;
}

/* What was drafted and came true is gone through already, but for recurrent states, which are not
 * there any more, and for a next-token layer, which did so without the model's hidden states. At
 * least the text's last token is left, whose row is wanted. */
void draft_seat_follow(struct draft_seat *seat, const struct draft_text *text)
{
    const struct draft_model_params *p = &seat->model->params;
    int32_t at = seat->from + seat->n_read;
    if (p->n_recurrent || p->d_hidden)
        seat->n_ahead = 0;
    for (int32_t i = 0; i < seat->n_ahead && at < text->n_tokens; i++, at++)
        if (text->tokens[at] != seat->ahead[i])
            break;
    seat->n_ahead = 0;
    if (at >= text->n_tokens && !p->n_recurrent)
        at = text->n_tokens - 1;
    seat->n_read = at - seat->from;
    seat->blind =
        p->d_hidden && (text->n_tokens <= seat->hidden_from || text->n_tokens > seat->hidden_to);
    if (at < text->n_tokens && text->n_tokens - at <= DRAFT_FRESH &&
        text->n_tokens - seat->from + DRAFT_MAX < p->window &&
        (!p->d_hidden || at >= seat->hidden_from))
        return;
    seat->from = text->n_tokens > DRAFT_FRESH ? text->n_tokens - DRAFT_FRESH : 0;
    if (p->d_hidden && seat->from < seat->hidden_from)
        seat->from = seat->hidden_from;
    seat->n_read = 0;
}

int32_t draft_seat_unread(const struct draft_model *m, const void *state,
                          const struct draft_text *text)
{
    struct draft_seat seat = {.model = (struct draft_model *)(uintptr_t)m};
    const struct draft_text own = draft_seat_reads(m, *text);
    if (state)
        seat = *(const struct draft_seat *)state;
    draft_seat_follow(&seat, &own);
    return own.n_tokens - seat.from - seat.n_read;
}
