/* Number literals that a double can't tell again: 1.0 is not 1, and 12345678901234567890 is not
 * what a double makes of it. They stay with the tree in the number's valuestring (cJSON frees and
 * copies it there). */
#include "engine/base/json/json_scan.h"

#include <stdlib.h>
#include <string.h>

static bool all_digits(const char *s, size_t len)
{
    for (size_t i = 0; i < len; i++) /* no strspn: the text ends where `len` says, not at a NUL */
        if (s[i] < '0' || s[i] > '9')
            return false;
    return len > 0;
}

/* Is it an integer of at most 15 digits? Those need no literal. */
static bool is_plain(const char *s, size_t len)
{
    if (s[0] == '-')
        return len > 1 && len <= 16 && s[1] != '0' && all_digits(s + 1, len - 1);
    return len <= 15 && all_digits(s, len);
}

/* The next number in the text, which json_scan has passed; NULL at the end. */
static const char *next_number(const char *p, const char *end, size_t *len)
{
    while (p < end && *p != '-' && !(*p >= '0' && *p <= '9')) {
        if (*p++ != '"')
            continue;
        while (p < end && *p != '"')
            p += *p == '\\' ? 2 : 1;
        p++;
    }
    if (p >= end)
        return NULL;
    const char *from = p;
    while (p < end && *p && strchr("+-.0123456789eE", *p))
        p++;
    *len = (size_t)(p - from);
    return from;
}

/* The tree's next node in the text's order, without recursion. `up` holds the way back. */
static cJSON *next_node(cJSON *v, cJSON **up, int *depth, int max)
{
    if (v->child && *depth < max) {
        up[(*depth)++] = v;
        return v->child;
    }
    while (!v->next && *depth > 0)
        v = up[--*depth];
    return v->next; /* NULL once the root is reached again */
}

bool json_keep_literals(const char *text, size_t len, cJSON *tree)
{
    cJSON *up[1000];
    int depth = 0;
    size_t n = 0;
    const char *p = text, *end = text + len;
    for (cJSON *v = tree; v; v = next_node(v, up, &depth, 1000)) {
        if (!cJSON_IsNumber(v))
            continue;
        p = next_number(p, end, &n);
        if (!p)
            return true; /* can't be: every number of the tree stands in the text */
        if (!is_plain(p, n)) {
            v->valuestring = cJSON_malloc(n + 1);
            if (!v->valuestring)
                return false;
            memcpy(v->valuestring, p, n);
            v->valuestring[n] = 0;
        }
        p += n;
    }
    return true;
}
