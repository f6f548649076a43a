/* Divides the text of a file into passages, which are what is searched, put into prompts and cited.
 * Side by side they are the whole text, so a passage is its place. Pure functions. */
#pragma once
#include <stddef.h>

#define CHUNK_BYTES 1600 /* at most; some 400 tokens */

/* Bytes of the passage with which `text` of `len` bytes begins; 0 when len is 0. It ends where the
 * text gives a reason to, best first: an empty line, a line's end, a sentence's, a blank; else
 * before a letter. The first half of CHUNK_BYTES is never an end, unless the text is no longer. */
size_t chunking_next(const char *text, size_t len);
