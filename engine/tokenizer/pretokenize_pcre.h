/* One split pattern as PCRE2 runs it: compiled once and searched by many threads.
 * Immutable after creation; scratch belongs to one thread at a time. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "engine/base/err.h"

struct pcre_pattern;
struct pcre_scratch;

struct pcre_pattern *pcre_pattern_create(const char *pattern, size_t len, struct err *e);
void pcre_pattern_destroy(struct pcre_pattern **p);
/* Serves all patterns. NULL when memory ran out. */
struct pcre_scratch *pcre_scratch_create(void);
void pcre_scratch_destroy(struct pcre_scratch **s);

/* Text to be searched by pcre_pattern_find, which sees nothing outside it. Code points that PCRE2's
 * tables class otherwise than Unicode 16 are replaced by ones of the right class and length in a
 * copy that the scratch owns until the next call. NULL when memory ran out. */
const char *pcre_scratch_subject(struct pcre_scratch *s, const char *text, size_t len);
struct pcre_search {
    const char *subject; /* what pcre_scratch_subject gave */
    size_t len, from;
};
/* First match at or after `from`: 1 and its range, 0 for none, -1 for an error (set in e). */
int pcre_pattern_find(const struct pcre_pattern *p, struct pcre_scratch *s,
                      const struct pcre_search *search, size_t match[2], struct err *e);
