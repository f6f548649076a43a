/* What grammar.c, masks.c and mask_maker.c share: the automata of a cache and the runs on them.
 * Private to this room. */
#pragma once
#include "engine/grammar/automaton.h"
#include "engine/grammar/grammar.h"

#define MASK_VISITS 150000 /* work of one mask at most: about ten milliseconds */

struct mask_scratch { /* of the thread that makes masks */
    const struct token_trie *trie;
    uint32_t *bits;   /* [n_words] of the mask being made */
    uint32_t *states; /* [max_len + 1] of the walk, by depth */
    int64_t nodes;    /* of the tree that were walked through, in all */
};

bool grammar_too_much(struct err *e); /* ERR_LIMIT */

bool mask_scratch_init(struct mask_scratch *m, const struct token_trie *t, struct err *e);
void mask_scratch_fini(struct mask_scratch *m);
/* Makes the set of tokens of a state and keeps it there, with what automaton_allow left. False:
 * ERR_LIMIT, too much work, which what was found of it shortens the next time; ERR_NOMEM. */
bool mask_make(struct mask_scratch *m, struct automaton *a, uint32_t state, struct err *e);

/* One program. While it is `busy` its automaton is the maker's, and the loop only adds and removes
 * runs; else all of it is the loop's. */
struct entry {
    struct entry *next;
    uint64_t hash, used;
    void *program;
    size_t len;
    struct automaton a;
    struct grammar_run *runs;
    bool busy;
    size_t bytes; /* of the automaton when it was handed over */
    /* In the pass under way (grammar_pass_begin), which `pass` numbers: */
    uint64_t pass;
    bool any_ready;
    bool waited; /* runs that were ready went first, in the last one */
    /* For the maker: states whose masks are wanted, and the first that could not be made. */
    struct wanted {
        uint32_t state;
        int64_t visits; /* that its mask may still take */
    } *wanted;
    uint32_t n_wanted;
    uint32_t failed; /* STATE_UNKNOWN: none */
    struct err why;
    struct entry *next_work;
};

/* The maker: one thread that makes the masks of entries in the order in which they were handed
 * over. */
struct mask_maker;
struct mask_maker *mask_maker_create(const struct token_trie *t, struct err *e);
void mask_maker_destroy(struct mask_maker **m); /* waits for the mask under way */
void mask_maker_give(struct mask_maker *m, struct entry *x);
/* One that is done, or NULL. wait_ms: how long to wait for it while there is work. */
struct entry *mask_maker_take(struct mask_maker *m, double wait_ms);
