/* repair.h */
#include "fcgi/import/repair.h"

#include <string.h>

/* The four digits behind "\u"; -1: there are none. */
static int unit_at(const char *p, const char *end)
{
    int v = 0;
    if (end - p < 6 || p[0] != '\\' || p[1] != 'u')
        return -1;
    for (int i = 2; i < 6; i++) {
        const char c = p[i] | 0x20;
        const int digit = p[i] >= '0' && p[i] <= '9' ? p[i] - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
        if (digit < 0)
            return -1;
        v = v << 4 | digit;
    }
    return v;
}

int64_t import_repair(char *text, size_t len)
{
    int64_t n = 0;
    const char *end = text + len;
    for (char *p = text; (p = memchr(p, '\\', (size_t)(end - p)));) {
        const int unit = unit_at(p, end), next = unit >= 0xD800 && unit <= 0xDBFF ? unit_at(p + 6, end) : -1;
        if (next >= 0xDC00 && next <= 0xDFFF) {
            p += 12;
        } else if (unit == 0 || (unit >= 0xD800 && unit <= 0xDFFF)) {
            memcpy(p, "\\ufffd", 6);
            p += 6;
            n++;
        } else {
            p += end - p >= 2 ? 2 : 1;
        }
    }
    return n;
}
