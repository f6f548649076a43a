/* Drafters guess the next tokens of an answer, so that one step can verify several of them. A guess
 * never decides a token: the model's own rows do, so a bad drafter costs time and nothing else.
 *
 * One table per drafter; a further drafter is one file and a row in drafter.c. A drafter keeps what
 * it needs of a job in a state of its own. The scheduler calls it between steps, on the engine's
 * loop thread. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/err.h"
#include "engine/engine.h"

#define DRAFT_MAX ENGINE_MAX_DRAFT

/* What a drafted token rests on. How often such tokens turn out right is learnt for each. */
enum draft_ground {
    DRAFT_MATCH_2, /* the last 2 tokens stood before, followed by the drafted one */
    DRAFT_MATCH_3,
    DRAFT_MATCH_4,  /* 4 or 5 */
    DRAFT_MATCH_6,  /* 6 to 9 */
    DRAFT_MATCH_10, /* 10 to 19 */
    DRAFT_MATCH_20, /* 20 and more */
    DRAFT_FORESEEN, /* the beginning of the client's own prediction */
    DRAFT_GROUND__N
};

struct draft_text { /* of a job; grows at its end between two calls, and nothing else changes */
    const int32_t *tokens; /* [n_tokens] prompt, then answer */
    int32_t n_tokens, n_prompt;
    const int32_t
        *prediction; /* [n_prediction] what the client expects of the answer; may be none */
    int32_t n_prediction;
};

struct draft {
    int32_t n; /* 0: no idea */
    int32_t ids[DRAFT_MAX];
    enum draft_ground ground[DRAFT_MAX];
    bool predicted; /* taken from the client's prediction */
};

struct drafter {
    const char *name; /* as in --speculate */
    /* The state for one job. NULL: no memory. */
    void *(*create)(struct err *e);
    void (*destroy)(void *state);
    /* Fills *out with `most` tokens at most, 1 .. DRAFT_MAX. False: no memory; then the job goes on
     * without drafts. */
    bool (*draft)(void *state, const struct draft_text *text, int32_t most, struct draft *out);
};

extern const struct drafter lookup_drafter; /* "ngram": text that stood before */

/* NULL: there are to be no drafts. */
const struct drafter *drafter_for(enum engine_speculate s);
