/* Drafts a block in one step (DFlash, arXiv 2602.06036): the text's last token and mask tokens
 * behind it, which see the model's hidden states of the text, and each other. What the drafter
 * keeps of the text are keys and values of these hidden states; those of a block are written over.
 */
#include <assert.h>

#include "engine/draft/draft_model_state.h"

/* What is new of the texts' hidden states, in steps that all share. */
static void read_contexts(struct draft_model *m, struct draft_ask *asks, int32_t n)
{
    for (int32_t members = 1; members;) {
        int32_t rows = 0;
        members = 0;
        for (int32_t i = 0; i < n && rows < DRAFT_STEP_ROWS; i++) {
            struct draft_seat *seat = asks[i].state;
            const int32_t at = seat->from + seat->n_read, left = asks[i].text.n_tokens - at;
            const int32_t take = left < DRAFT_STEP_ROWS - rows ? left : DRAFT_STEP_ROWS - rows;
            if (asks[i].failed || seat->blind || left <= 0)
                continue;
            m->members[members] = &asks[i];
            m->sequences[members++] = (struct step_sequence){.tokens = asks[i].text.tokens + at,
                                                             .n_tokens = take,
                                                             .start = seat->n_read,
                                                             .blocks = seat->blocks,
                                                             .state = -1,
                                                             .given = draft_seat_hidden(seat, at)};
            seat->n_read += take;
            rows += take;
        }
        if (members)
            draft_model_run(m, members, rows, true);
    }
}

/* The block of a draft; its tokens after the first are wanted. */
static void add_block(struct draft_model *m, int32_t at, struct draft_ask *ask, int32_t n)
{
    struct draft_seat *seat = ask->state;
    seat->block[0] = ask->text.tokens[ask->text.n_tokens];
    for (int32_t i = 1; i < n; i++)
        seat->block[i] = m->params.mask_token;
    m->members[at] = ask;
    m->sequences[at] = (struct step_sequence){.tokens = seat->block,
                                              .n_tokens = n,
                                              .start = seat->n_read,
                                              .blocks = seat->blocks,
                                              .state = -1,
                                              .n_out = n - 1,
                                              .want_logits = ask->picker.want_logits};
}

static int32_t block_rows(const struct draft_model *m, int32_t most)
{
    const int32_t n = most + 1 < m->params.block ? most + 1 : m->params.block;
    return n < DRAFT_MAX + 1 ? n : DRAFT_MAX + 1;
}

static void take_blocks(struct draft_model *m, int32_t members, int32_t rows)
{
    const int32_t n_top = draft_model_run(m, members, rows, false);
    struct step_row *row = m->rows;
    for (int32_t i = 0; n_top && i < members; i++) {
        const int32_t wanted = m->sequences[i].n_out;
        double chance = 1;
        for (int32_t k = 0; k < wanted; k++)
            if (!draft_model_add_token(m, m->members[i], &row[k], n_top, &chance))
                break;
        row += wanted;
    }
}

static void block_draft(struct draft_model *m, struct draft_ask *asks, int32_t n)
{
    int32_t members = 0, rows = 0;
    assert(n <= DRAFT_SEATS && n <= m->params.n_seats);
    for (int32_t i = 0; i < n; i++) {
        asks[i].text = draft_seat_reads(m, asks[i].text);
        draft_seat_follow(asks[i].state, &asks[i].text);
    }
    read_contexts(m, asks, n);
    for (int32_t i = 0; i < n; i++) {
        const struct draft_seat *seat = asks[i].state;
        const int32_t wanted = block_rows(m, asks[i].most);
        if (asks[i].failed || seat->blind)
            continue;
        if (rows + wanted > DRAFT_STEP_ROWS) {
            take_blocks(m, members, rows);
            members = rows = 0;
        }
        add_block(m, members++, &asks[i], wanted);
        rows += wanted;
    }
    if (members)
        take_blocks(m, members, rows);
}

static struct draft_price block_price(const struct draft_model *m, const void *state,
                                      const struct draft_text *text)
{
    const int32_t left = draft_seat_unread(m, state, text);
    return (struct draft_price){.read = left > 2 ? (left - 2) * m->context_ms : 0,
                                .first = draft_model_expected_ms(m, block_rows(m, DRAFT_MAX)) +
                                         2 * m->context_ms,
                                .most = m->params.block - 1};
}

const struct drafter block_drafter = {
    .name = "dflash",
    .foresees = true,
    .seated = true,
    .create = draft_seat_take,
    .destroy = draft_seat_leave,
    .draft = block_draft,
    .price = block_price,
    .hidden = draft_seat_place_hidden,
};
