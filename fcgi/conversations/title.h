/* A conversation's title out of its first message: one line, no Markdown marks, cut between words.
 */
#pragma once
#include <stddef.h>

#define TITLE_CHARACTERS 60
#define TITLE_SIZE (TITLE_CHARACTERS * 4 + 8)

/* "" when the text has nothing to show. text is UTF-8. */
void title_make(const char *text, char out[TITLE_SIZE]);
