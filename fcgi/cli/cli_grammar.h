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

/* One of the two files (GBNF, JSON Schema) is given, the other NULL. v outlives it. */
bool cli_grammar_open(struct cli_grammar *g, const char *gbnf_file, const char *schema_file, const struct vocab *v,
                      int32_t n_vocab, const int32_t *eos, int32_t n_eos, struct err *e);
void cli_grammar_close(struct cli_grammar *g);
