/* file_name.h: a name loses its folders and all that could deceive a reader; a header carries it as
 * ASCII and as UTF-8. */
#include "fcgi/http/file_name.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <utf8proc.h>

#include "engine/base/utf8.h"

#define KEPT_END 20 /* bytes of a long name's end */

/* Format characters include those that turn the direction of writing ("gpj.exe"); the joiners
 * belong to scripts and emoji. */
static bool shown(uint32_t cp)
{
    switch (utf8proc_category((utf8proc_int32_t)cp)) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
        return false;
    case UTF8PROC_CATEGORY_CF:
        return cp == 0x200C || cp == 0x200D;
    default:
        return true;
    }
}

static size_t whole_characters(const char *text, size_t len)
{
    while (len && ((unsigned char)text[len] & 0xC0) == 0x80)
        len--;
    return len;
}

static bool blank(char c)
{
    return c == ' ' || c == '.';
}

void file_name_clean(const char *given, size_t len, char out[FILE_NAME_SIZE])
{
    char all[4096];
    size_t n = 0, from = 0;
    for (size_t i = 0; i < len; i++)
        if (given[i] == '/' || given[i] == '\\')
            from = i + 1;
    for (size_t i = from, step; i < len && n < sizeof all - 4; i += step) {
        uint32_t cp = 0;
        const unsigned char *at = (const unsigned char *)given + i;
        if (utf8_part(at, len - i, &step) != UTF8_WHOLE)
            continue;
        utf8_next(at, &cp);
        if (cp == ' ' || cp == '\t' ? n && all[n - 1] != ' ' : shown(cp)) {
            memcpy(all + n, cp == '\t' ? (const unsigned char *)" " : at, step);
            n += step;
        }
    }
    while (n && all[n - 1] == ' ')
        n--;
    all[n] = '\0';
    if (n >= FILE_NAME_SIZE) {               /* the middle goes */
        size_t end = n - KEPT_END, dots = 3; /* U+2026 */
        while (((unsigned char)all[end] & 0xC0) == 0x80)
            end++;
        size_t head = whole_characters(all, FILE_NAME_SIZE - 1 - dots - (n - end));
        memmove(all + head + dots, all + end, n - end + 1);
        memcpy(all + head, "\xe2\x80\xa6", dots);
        n = head + dots + (n - end);
    }
    bool named = false;
    for (size_t i = 0; i < n; i++)
        named |= !blank(all[i]);
    memcpy(out, named ? all : "file", named ? n + 1 : sizeof "file");
}

void file_name_disposition(const char *kind, const char *name, char out[FILE_DISPOSITION_SIZE])
{
    int n = snprintf(out, FILE_DISPOSITION_SIZE, "%s; filename=\"", kind);
    for (const char *c = name; *c; c++)
        if (((unsigned char)*c & 0xC0) != 0x80)
            out[n++] = (unsigned char)*c > 0x7e || strchr("\"\\%", *c) ? '_' : *c;
    n += snprintf(out + n, FILE_DISPOSITION_SIZE - (size_t)n, "\"; filename*=UTF-8''");
    for (const char *c = name; *c; c++) {
        bool plain = isascii((unsigned char)*c) &&
                     (isalnum((unsigned char)*c) || strchr("!#$&+-.^_`|~", *c));
        n += snprintf(out + n, FILE_DISPOSITION_SIZE - (size_t)n, plain ? "%c" : "%%%02X",
                      (unsigned char)*c);
    }
}
