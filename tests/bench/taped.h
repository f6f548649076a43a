/* A backend that computes every step as another does, and then says what a tape says: the next
 * token of a known text in place of the model's choice. So a model of random weights writes text,
 * and drafts come true as often as they do in that text. One thread; one at a time. */
#pragma once
#include <stdint.h>

#include "engine/backend/backend.h"

struct tape { /* a prompt and the answer to it */
    char set[24];
    int32_t *ids; /* [n], those of the prompt first */
    int32_t n, n_prompt;
};

struct tapes {
    struct tape *at; /* [n] */
    int32_t n;
};

/* What tests/bench/texts.mjs wrote, in the vocabulary of the model in that folder; kept for good.
 */
bool tapes_read(const char *file, const char *vocab, struct tapes *out, struct err *e);
/* Both outlive the backend. Sequences whose beginning is no tape's prompt, and those behind a
 * tape's end, get token 0. `began`, unless NULL: before steps in which a text begins. */
const struct backend_ops *taped_ops(const struct backend_ops *real, const struct tapes *tapes,
                                    void (*began)(void));
