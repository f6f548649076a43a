/* What a user's earlier jobs read and wrote, as far as the prefix cache still has it, for drafts of
 * what follows the same words this time (suffix decoding, Oliaro et al., arXiv 2411.04975).
 *
 * It remembers a text for as long as a KV block that holds it: a block that is evicted or dropped
 * (content that was deleted) takes its tokens along. A text is found by jobs of the same scope
 * alone, which is compared by name. Who shares a scope may tell three words at a time whether they
 * stood there, by the number of drafted tokens; the prefix cache tells it of whole prompts.
 *
 * Owner: the engine's loop thread. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/backend/backend.h"
#include "engine/base/err.h"
#include "engine/draft/drafter.h"

#define RECALL_TAIL BACKEND_BLOCK_TOKENS /* tokens behind the last whole block that are kept */

struct recall;

struct recall *recall_create(int32_t n_blocks, struct err *e);
void recall_destroy(struct recall **r);

/* Whole block `block` holds tokens[at ..] of the text, behind the block `parent`; at 0: there is
 * none. Does nothing if it is known already, or if the parent is not. */
void recall_add(struct recall *r, const struct draft_text *text, int32_t at, int32_t block,
                int32_t parent);
/* The text has ended: what it has behind `block`, up to place `at`, replaces what was known to
 * follow there. */
void recall_end(struct recall *r, const struct draft_text *text, int32_t at, int32_t block);
/* And what follows the block, which no prefix leads to any more: its latest continuation. */
void recall_forget(struct recall *r, int32_t block);
/* Adds what followed the last words of the text before. */
void recall_draft(const struct recall *r, const struct draft_text *text, int32_t most,
                  struct draft *out);
