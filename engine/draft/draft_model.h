/* A smaller model that runs beside the one that it drafts for, and goes through a few tokens ahead
 * of it. It has a backend of its own, and KV for a window of the last tokens of a few answers: what
 * stood long before hardly decides the next token, and no draft decides an answer.
 *
 * It picks each token as the job would: with the job's sampler, its grammar, and the random number
 * that the job's own row will be drawn with. So where the two models agree the drafted token comes
 * true also at a temperature, far more often than two draws would agree (Daliri et al., 2024).
 *
 * Or it is the model's own next-token layer (model_next): then what it goes on from is the model's
 * hidden state of each token, which steps leave here (hidden), and behind the text its own. What it
 * keeps of drafted tokens rests on the latter, so it is made anew once the model's is there.
 *
 * Or it drafts a whole block in one step, from hidden states of several of the model's layers
 * (DFlash; dflash.c).
 *
 * Owner: the engine's loop thread. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/backend/backend.h"
#include "engine/base/err.h"

#define DRAFT_WINDOW 512   /* tokens that a seat holds, drafted ones included */
#define DRAFT_FRESH 64     /* tokens that are read when it is full, or when many are new */
#define DRAFT_STEP_ROWS 96 /* of one step at most */
#define DRAFT_SEATS 8

struct draft_model;

enum draft_kind { DRAFT_KIND_MODEL, DRAFT_KIND_LAYER, DRAFT_KIND_BLOCK };

struct draft_model_params {
    const struct backend_ops *ops;
    struct backend *backend; /* opened with the sizes of draft_model_sizes; the caller closes it */
    int32_t n_vocab;         /* of its own plan */
    int32_t target_vocab;    /* of the model that it drafts for */
    int32_t n_recurrent;     /* layers with a recurrent state */
    int32_t n_seats;
    int32_t window;   /* a multiple of BACKEND_BLOCK_TOKENS, at least 2 * DRAFT_FRESH */
    int32_t d_hidden; /* values of what it takes of each of the model's hidden states; 0: a model */
    int32_t block, mask_token; /* a block drafter: as its plan says; block 0: none */
};

/* Host memory that the seats take beside the backend's. */
uint64_t draft_model_seat_bytes(const struct draft_model_params *p);
struct draft_model *draft_model_create(const struct draft_model_params *p, struct err *e);
void draft_model_destroy(struct draft_model **m); /* after all states; accepts NULL, nulls *m */
enum draft_kind draft_model_kind(const struct draft_model *m);
/* Recurrent states that a seat needs: what was read, and what goes ahead of it. */
#define DRAFT_SEAT_STATES 2

struct draft_model_counts { /* since it was made */
    double late_ms;         /* that steps took beyond what is usual of their size: disturbances */
    uint64_t steps, rows;
    double ms;
    int32_t seats, taken;
};
struct draft_model_counts draft_model_counts(const struct draft_model *m);
