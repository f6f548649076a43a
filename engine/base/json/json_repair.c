/* Replaces escapes that no text of ours can hold. It works on the JSON text, since a cJSON tree
 * cannot hold what is to be replaced. */
#include "engine/base/json/json_repair.h"

#include <stdio.h>
#include <string.h>

/* The four digits behind "\u"; -1: there are none. */
static int unit_at(const char *p, const char *end)
{
    int v = 0;
    if (end - p < 6 || p[0] != '\\' || p[1] != 'u')
        return -1;
    for (int i = 2; i < 6; i++) {
        const char c = p[i] | 0x20;
        const int digit = p[i] >= '0' && p[i] <= '9' ? p[i] - '0'
                          : c >= 'a' && c <= 'f'     ? c - 'a' + 10
                                                     : -1;
        if (digit < 0)
            return -1;
        v = v << 4 | digit;
    }
    return v;
}

int64_t json_repair(char *text, size_t len, enum json_repair what, size_t *first)
{
    int64_t n = 0;
    const char *end = text + len;
    for (char *p = text; p < end && (p = memchr(p, '\\', (size_t)(end - p)));) {
        const int unit = unit_at(p, end),
                  next = unit >= 0xD800 && unit <= 0xDBFF ? unit_at(p + 6, end) : -1;
        if (next >= 0xDC00 && next <= 0xDFFF) {
            p += 12;
        } else if ((unit == 0 && what == JSON_REPAIR_ALL) || (unit >= 0xD800 && unit <= 0xDFFF)) {
            memcpy(p, "\\ufffd", 6);
            if (first && !n)
                *first = (size_t)(p - text);
            p += 6;
            n++;
        } else {
            p += end - p >= 2 ? 2 : 1;
        }
    }
    return n;
}

/* ---- where a byte stands */

#define PATH_DEPTH 16 /* more levels than a field's name has room for */

struct path_level {
    bool array;
    size_t index;    /* of the element, in an array */
    const char *key; /* behind its quote, in an object; NULL: none yet */
    size_t key_len;
};

/* The string that begins behind `p`: the end of its text. */
static const char *string_end(const char *p, const char *end)
{
    while (p < end && *p != '"')
        p += *p == '\\' && end - p > 1 ? 2 : 1;
    return p;
}

static void write_path(const struct path_level *levels, int depth, char *out, size_t size)
{
    size_t used = 0;
    out[0] = '\0';
    for (int i = 0; i < depth && i < PATH_DEPTH && used + 1 < size; i++) {
        const struct path_level *l = &levels[i];
        int n = l->array ? snprintf(out + used, size - used, "[%zu]", l->index)
                         : snprintf(out + used, size - used, "%s%.*s", i ? "." : "",
                                    (int)l->key_len, l->key ? l->key : "");
        used += n > 0 ? (size_t)n : 0;
    }
}

void json_path(const char *text, size_t at, char *out, size_t size)
{
    struct path_level levels[PATH_DEPTH] = {0};
    int depth = 0;
    bool key = false; /* the next string is one */
    for (const char *p = text, *end = text + at; p < end; p++) {
        struct path_level *l = depth > 0 && depth <= PATH_DEPTH ? &levels[depth - 1] : NULL;
        if (*p == '{' || *p == '[') {
            if (depth++ < PATH_DEPTH)
                levels[depth - 1] = (struct path_level){.array = *p == '['};
            key = *p == '{';
        } else if ((*p == '}' || *p == ']') && depth > 0) {
            depth--;
        } else if (*p == ',') {
            key = l && !l->array;
            if (l && l->array)
                l->index++;
        } else if (*p == '"') {
            const char *close = string_end(p + 1, end);
            if (key && l) {
                l->key = p + 1;
                l->key_len = (size_t)(close - p - 1) < 64 ? (size_t)(close - p - 1) : 64;
            }
            key = false;
            p = close;
        }
    }
    write_path(levels, depth, out, size);
}
