/* Constrained decoding as the engine sees it: which tokens may come next?
 *
 * A program (program.h) becomes an automaton over bytes: its states are made when they are reached,
 * shared by all jobs with an equal program, and each state's set of tokens is kept for the next
 * time. A run is one answer's place in it. Nothing here waits or allocates without a bound; a
 * grammar too ambiguous to follow in bounded work fails its job with ERR_LIMIT. Owner: one thread
 * (the engine's loop).
 *
 * A mask may take ten milliseconds. Whoever has others to serve meanwhile asks for masks before
 * they are needed, in passes: what costs little is made there and then, the rest by a thread of the
 * cache's own, and a run that has to wait for it is not ready.
 *
 *   grammar_pass_begin(c, false);
 *   for each run that is to take a token: grammar_run_prepare(r);
 *   grammar_pass_end(c);
 *   for each of these with grammar_run_ready(r): grammar_run_mask, grammar_run_push  */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/err.h"
#include "engine/grammar/token_trie.h"

struct grammar_cache; /* automata by program, for one vocabulary */
struct grammar_run;

/* The tokens that may come next, those that end the answer among them. Valid until the next call on
 * any run. */
struct grammar_mask {
    int32_t n;           /* how many */
    const int32_t *list; /* [n] ascending; NULL when they are many: */
    const uint32_t
        *bits; /* [(n_vocab + 31) / 32] bit id & 31 of word id >> 5; NULL when there is a list */
};

static inline bool grammar_mask_has(const struct grammar_mask *m, int32_t id)
{
    if (m->bits)
        return m->bits[id >> 5] >> (id & 31) & 1;
    for (int32_t i = 0; i < m->n; i++)
        if (m->list[i] == id)
            return true;
    return false;
}

/* t outlives it. max_bytes: automata over it are thinned out (0: 256 MiB). */
struct grammar_cache *grammar_cache_create(const struct token_trie *t, size_t max_bytes,
                                           struct err *e);
void grammar_cache_destroy(struct grammar_cache **c); /* after its runs */
size_t grammar_cache_bytes(const struct grammar_cache *c);

/* Copies the program where it is not known yet. ERR_INPUT: it is broken (program_open). */
struct grammar_run *grammar_run_create(struct grammar_cache *c, const void *program, size_t len,
                                       struct err *e);
void grammar_run_destroy(struct grammar_run **r);
/* Another run that stands where this one does. */
struct grammar_run *grammar_run_fork(const struct grammar_run *r, struct err *e);

/* alone: nobody else waits, so that every mask is made at once. */
void grammar_pass_begin(struct grammar_cache *c, bool alone);
void grammar_run_prepare(struct grammar_run *r);
void grammar_pass_end(struct grammar_cache *c);
/* After the pass: may it be asked for its mask and take a token? One that was not prepared may not
 * while the thread works on its program. */
bool grammar_run_ready(const struct grammar_run *r);
/* Its mask is there already and costs nothing. */
bool grammar_run_knows(const struct grammar_run *r);
/* When no run is ready: returns as soon as the thread is done with a program, after `ms` at the
 * latest. */
void grammar_pass_wait(struct grammar_cache *c, double ms);

/* False: ERR_LIMIT, too much work, or ERR_INPUT: no token of this vocabulary can go on. */
bool grammar_run_mask(struct grammar_run *r, struct grammar_mask *m, struct err *e);
/* The answer grew by this token. False: it is not allowed here (then the run has not moved), or *e
 * as above. */
bool grammar_run_push(struct grammar_run *r, int32_t id, struct err *e);
/* May the answer end here? Must it: can nothing else follow? */
bool grammar_run_may_end(const struct grammar_run *r);
bool grammar_run_must_end(const struct grammar_run *r);
/* For tests and tools: takes bytes in place of a token. False: the grammar does not take them; the
 * run has not moved. */
bool grammar_run_push_bytes(struct grammar_run *r, const void *bytes, size_t len, struct err *e);
