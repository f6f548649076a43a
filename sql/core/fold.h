/* Compares texts without regard to letter case, in any script. A search inside a text folds one
 * code point to one (so "STRASSE" is not "Straße"), as FTS5's tokenizers do, so that what its index
 * finds is found here. Invalid UTF-8 counts byte by byte. No threads. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FOLD_LETTERS 1000 /* of what is looked for */

struct fold_needle {
    int n;               /* letters; 0: found at the start of every text */
    bool may_begin[256]; /* bytes with which a place of it can begin */
    int32_t letters[FOLD_LETTERS];
    int shorter[FOLD_LETTERS]; /* Knuth-Morris-Pratt: where to go on after a mismatch */
};

/* False: it has more than FOLD_LETTERS letters. */
bool fold_needle(struct fold_needle *needle, const char *text, size_t len);
/* The first place, in bytes, of the text as it stands; in a time that grows with len alone. */
bool fold_find(const struct fold_needle *needle, const char *text, size_t len, size_t *at,
               size_t *bytes);

/* A whole text to be compared with whole ones: full case folding ("STRASSE" is "Straße") in
 * composed form. For free(); NULL: without memory or not UTF-8. */
char *fold_whole(const char *text);
