/* Which passages of a project's files go along with a question: BM25 over the passages of this
 * project alone (what others keep decides nothing), then the best ones within a budget of tokens.
 * Pure functions. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;

#define RANKING_TERMS 32 /* of a question; the first ones count */

/* The words of a question as an FTS5 expression on `text` that finds any of them, within what
 * `owner` (letters and digits) has. A word of four letters and more finds what begins like it: of a
 * longer one the ending is left out, so that it is found in other forms. How many terms; 0: there
 * is no word, and nothing is appended. */
int ranking_query(struct buf *out, const char *owner, const char *question);

struct ranking_passage {
    int64_t file, start, bytes;
    int32_t words;                 /* in it */
    int32_t counts[RANKING_TERMS]; /* how often each term stands in it */
    double score;                  /* set by ranking_score */
};
/* Scores the passages with any of the terms (all that there are: how many have a term is counted
 * among them). n_all: passages of the project. */
void ranking_score(struct ranking_passage *p, int n, int n_terms, int64_t n_all);

/* Puts two lists into one, best first, by reciprocal rank fusion (Cormack et al. 2009): a passage's
 * score is the sum of 1 / (60 + its rank) over the lists in which it stands. words: as scored by
 * ranking_score, in any order; those that matter little beside the best do not count. near: best
 * first. out: room for RANKING_FUSED and n_near. How many. */
#define RANKING_FUSED 50 /* of the words that count */
int ranking_fuse(struct ranking_passage *words, int n_words, const struct ranking_passage *near,
                 int n_near, struct ranking_passage *out);

struct ranking_budget {
    int64_t tokens;
    double (*tokens_per_byte)(void *context, int64_t file);
    void *context;
    int most; /* passages */
};
/* Takes the best passages while they fit; one that does not is passed over. Those that matter
 * little beside the best are left out. What was taken lies at the front afterwards, in the order of
 * files and places, neighbours joined into one. How many. */
int ranking_choose(struct ranking_passage *p, int n, const struct ranking_budget *b);
