/* Chains of rows of the prompt cache, whose keys and places follow from a name and a number. */
#pragma once
#include <stdint.h>

#include "sql/prompts/store_prompt_cache.h"
#include "tests/unit/store/store_fixture.h"

#define CHAIN_IDENTITY 0xfedcba9876543210u /* as a signed number it is negative */

struct chain { /* a prompt whose blocks have keys made of its name */
    int64_t user, conversation;
    const char *label;
    int name; /* of the keys from `fork` on */
    int fork; /* blocks shared with the chain whose name is 0 */
    int64_t keep_seconds;
    const int64_t *saw; /* the last deletion that its text's reader knew; NULL: all there are */
    double compute_ms;
};

void chain_key(const struct chain *c, int i, unsigned char key[16]);
struct store_block chain_block(const struct chain *c, int i);
/* Lists the blocks from the fork to n. */
void chain_add(struct fixture *f, const struct chain *c, int n);
/* How many of the first n are found, and where. */
int chain_look_up(struct fixture *f, const struct chain *c, int n,
                  struct store_block_place *places);
/* The same, at the places that chain_add gave them. */
int chain_found(struct fixture *f, const struct chain *c, int n);
/* Records that the engine is still to remove. */
int chain_removals(struct fixture *f);
void chain_clear_all(struct fixture *f);
int64_t chain_number(struct fixture *f, const char *sql);
void chain_run(struct fixture *f, const char *sql);
