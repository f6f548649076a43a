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

#define DRAFT_HIDDEN_MOST 64

struct draft_model;
struct recall;
struct step_row;

/* What a drafted token rests on. How often such tokens turn out right is learnt for each. */
enum draft_ground {
    DRAFT_MATCH_2, /* the last 2 tokens stood before, followed by the drafted one */
    DRAFT_MATCH_3,
    DRAFT_MATCH_4,  /* 4 or 5 */
    DRAFT_MATCH_6,  /* 6 to 9 */
    DRAFT_MATCH_10, /* 10 to 19 */
    DRAFT_MATCH_20, /* 20 and more */
    DRAFT_RECALL,   /* an earlier text of the user's: see recall.c, which knows 18 degrees */
    DRAFT_RECALL_LAST = DRAFT_RECALL + 17,
    DRAFT_FORESEEN, /* the beginning of the client's own prediction */
    DRAFT_FORCED,   /* the grammar leaves no other text */
    DRAFT_ONLY,     /* nor another token */
    DRAFT_SURE_0,   /* a draft model gave it a probability of less than 0.3 */
    DRAFT_SURE_30,
    DRAFT_SURE_50,
    DRAFT_SURE_70,
    DRAFT_SURE_85,
    DRAFT_SURE_95,
    DRAFT_SURE_99, /* 0.99 and more */
    DRAFT_GROUND__N
};

struct draft_text { /* of a job; grows at its end between two calls, and nothing else changes */
    const int32_t *tokens; /* [n_tokens] prompt, then answer */
    int32_t n_tokens, n_prompt;
    const int32_t
        *prediction; /* [n_prediction] what the client expects of the answer; may be none */
    int32_t n_prediction;
    const char *scope;           /* whose earlier texts it may look up in */
    const struct recall *recall; /* these texts; NULL: none are kept */
};

struct draft {
    int32_t n; /* 0: no idea */
    int32_t ids[DRAFT_MAX];
    enum draft_ground ground[DRAFT_MAX];
    bool predicted; /* taken from the client's prediction */
};

/* What the job would do next: its sampler and its grammar, which move along with the draft. */
struct draft_picker {
    /* The token that the grammar leaves as the longest beginning of the only text that may follow;
     * `only`: no other token is allowed. False: there is a choice. NULL: there is no grammar. */
    bool (*forced)(void *context, int32_t *id, bool *only);
    /* The token that the job would take if this row were its model's. `ahead`: tokens that were
     * drafted before this one. False: nothing may follow. */
    bool (*pick)(void *context, const struct step_row *row, int32_t n_top, int32_t ahead,
                 struct engine_token *out);
    void *context;
    int32_t n_top; /* candidates that it wants of a row, at most BACKEND_MAX_TOP */
    bool want_logits;
};

struct draft_ask { /* for one job */
    void *state;
    struct draft_text text;
    int32_t most;               /* tokens, 1 .. DRAFT_MAX */
    const double *share;        /* [DRAFT_GROUND__N] that is expected to come true */
    double least;               /* chance of a draft below which no further token is worth making */
    struct draft_picker picker; /* for drafters that foresee */
    struct draft out;
    bool failed; /* no memory, or worse: the job goes on without the drafter */
};

struct draft_price { /* expected milliseconds; 0: not known yet */
    double read;     /* what must be read before the first token can be drafted */
    double first;    /* then for this one, */
    double further;  /* and for each that follows it */
    int32_t most;    /* tokens that can follow each other; 0: as many as are asked for */
};

struct drafter {
    const char *name; /* as in --speculate */
    bool foresees;    /* it asks what the job would do */
    bool seated;      /* a state takes one of few seats, and is given back between two runs */
    /* The state for one job. NULL: no memory; ERR_LIMIT: no seat is free now. */
    void *(*create)(struct draft_model *m, struct err *e);
    void (*destroy)(void *state);
    void (*draft)(struct draft_model *m, struct draft_ask *asks, int32_t n);
    /* NULL: it costs next to nothing. state NULL: of one that has none yet. */
    struct draft_price (*price)(const struct draft_model *m, const void *state,
                                const struct draft_text *text);
    /* NULL: it does without the model's hidden states. Otherwise where a step leaves those of the
     * text's places start .. start + n - 1, of which n is at most DRAFT_HIDDEN_MOST. */
    float *(*hidden)(void *state, int32_t start, int32_t n);
};

extern const struct drafter lookup_drafter; /* "ngram": text that stood before */
extern const struct drafter recall_drafter; /* part of "ngram": the user's earlier texts */
extern const struct drafter
    forced_drafter; /* part of "auto": what a grammar leaves no choice about */
extern const struct drafter model_drafter; /* "draft": a smaller model, see draft_model.h */
extern const struct drafter block_drafter; /* "dflash": a drafter of whole blocks, likewise */
extern const struct drafter layer_drafter; /* "mtp": the model's own next-token layer, likewise */

#define DRAFTERS_MAX 4 /* of one job */

/* create and destroy of those that keep nothing of a job. */
static inline void *drafter_begin(struct draft_model *m, struct err *e)
{
    static char none;
    return &none;
}
static inline void drafter_leave(void *state)
{
}

/* recall_drafter is among those that s allows. */
bool drafter_recalls(enum engine_speculate s);

/* Fills `out` with those that are there, cheapest first; returns their number. m NULL: there is
 * neither a draft model nor a next-token layer. */
int32_t drafter_list(enum engine_speculate s, bool grammar, const struct draft_model *m,
                     const struct drafter *out[DRAFTERS_MAX]);
