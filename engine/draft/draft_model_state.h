/* What the drafters that compute share: a backend, and seats in it. Private to draft_model.c,
 * draft_seat.c and dflash.c. Loop thread only. */
#pragma once
#include "engine/draft/draft_model.h"
#include "engine/draft/drafter.h"

#define DRAFT_HIDDEN_ROWS (2 * DRAFT_FRESH + DRAFT_HIDDEN_MOST)
#define DRAFT_SIZES 8 /* steps with 1, 2, 3 to 4, .., 65 and more rows */

struct draft_seat {
    struct draft_model *model;
    int32_t *blocks;     /* [window / BACKEND_BLOCK_TOKENS] */
    int32_t state, kept; /* recurrent states: that steps move on; as it was before drafts did */
    int32_t from;        /* place in the text of the seat's position 0 */
    int32_t n_read;      /* tokens from there on that were gone through */
    int32_t ahead[DRAFT_MAX]; /* drafted ones behind them that were gone through as well */
    int32_t n_ahead;
    bool went_ahead; /* recurrent: `kept` is what was read */
    /* A next-token layer, a block drafter: the model's hidden states of places hidden_from ..
     * hidden_to - 1 of the text; and the layer's own behind what was gone through. */
    float *hidden; /* [DRAFT_HIDDEN_ROWS, d_hidden] */
    float *fed;    /* [d_hidden] */
    int32_t hidden_from, hidden_to;
    bool blind;                   /* they do not reach the text's end */
    int32_t block[DRAFT_MAX + 1]; /* a block drafter: the text's last token and mask tokens */
    bool taken;
};

struct draft_step_time {
    double ms;
    int32_t n; /* measurements, up to where it no longer matters */
};

struct draft_model {
    struct draft_model_params params;
    struct draft_seat *seats;        /* [n_seats] */
    int32_t *blocks;                 /* of all seats */
    struct step_sequence *sequences; /* [n_seats] */
    struct step_row *rows;           /* [DRAFT_STEP_ROWS] */
    struct draft_ask **members;      /* [n_seats] of the step being built */
    float *hidden;                   /* of all seats, each with `fed` behind it */
    float *wide;                     /* [target_vocab] a row's logits, where its own are fewer */
    struct draft_step_time times[DRAFT_SIZES];
    double context_ms; /* a block drafter: smoothed, of a row of context */
    struct draft_model_counts counts;
};

/* draft_seat.c */
void *draft_seat_take(struct draft_model *m, struct err *e); /* drafter.create */
void draft_seat_leave(void *state);                          /* drafter.destroy */
/* The model's hidden state of a place in the text. NULL: the drafter does without. */
float *draft_seat_hidden(const struct draft_seat *seat, int32_t place);
float *draft_seat_place_hidden(void *state, int32_t start, int32_t n); /* drafter.hidden */
/* The places of a text that it reads: the tokens, or the model's hidden states of them, of which
 * the last token has none yet. Place p of a next-token layer is the hidden state of p beside token
 * p + 1. */
struct draft_text draft_seat_reads(const struct draft_model *m, struct draft_text text);
/* Sets from, n_read and blind for a text as draft_seat_reads gives it: at least its last place is
 * left to be read. */
void draft_seat_follow(struct draft_seat *seat, const struct draft_text *text);
/* How many places of the text a seat would have to read, which stays as it is; state NULL: a new
 * one. */
int32_t draft_seat_unread(const struct draft_model *m, const void *state,
                          const struct draft_text *text);

/* draft_model.c */
double draft_model_expected_ms(const struct draft_model *m, int32_t rows);
/* One step over the members. Returns the candidates of a row; 0: it failed, and so did they. */
int32_t draft_model_run(struct draft_model *m, int32_t n, int32_t rows, bool context);
/* Adds the row's token to the draft. False: the draft ends. */
bool draft_model_add_token(struct draft_model *m, struct draft_ask *ask, struct step_row *row,
                           int32_t n_top, double *chance);
