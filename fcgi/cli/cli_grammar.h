/* A grammar for `sluice generate`: from a file to the tokens that may come next. One thread. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/err.h"
#include "engine/grammar/grammar.h"

struct cli_grammar { /* zeroed: none */
    struct token_trie *trie;
    struct grammar_cache *cache;
    struct grammar_run *run;
};

struct cli_grammar_params {
    const char *gbnf_file, *schema_file; /* one is given, the other NULL */
    const struct vocab *vocab;           /* outlives the grammar */
    const int32_t *eos;                  /* [n_eos] ids that end an answer */
    int32_t n_vocab, n_eos;
};
bool cli_grammar_open(struct cli_grammar *g, const struct cli_grammar_params *p, struct err *e);
void cli_grammar_close(struct cli_grammar *g);
