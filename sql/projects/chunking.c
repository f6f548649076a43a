/* chunking.h: looks for the best end within the second half of the longest passage. */
#include "sql/projects/chunking.h"

#include <stdbool.h>
#include <string.h>

static bool is_blank(char c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t' || c == '\f';
}

/* How good it is to end right before text[at]: 4 after an empty line, 3 after a line, 2 after a
 * sentence, 1 after a blank, 0 within a word. */
static int quality(const char *text, size_t at)
{
    static const char *const stops[] = {"\xe3\x80\x82", "\xef\xbc\x81",
                                        "\xef\xbc\x9f"}; /* 。！？ */
    if (text[at - 1] == '\n')
        return at >= 2 && (text[at - 2] == '\n' || (at >= 3 && !memcmp(text + at - 3, "\n\r", 2)))
                   ? 4
                   : 3;
    for (int i = 0; i < 3; i++)
        if (at >= 3 && !memcmp(text + at - 3, stops[i], 3))
            return 2;
    if (!is_blank(text[at - 1]))
        return 0;
    return at >= 2 && strchr(".!?:", text[at - 2]) && text[at - 2] ? 2 : 1;
}

size_t chunking_next(const char *text, size_t len)
{
    if (len <= CHUNK_BYTES)
        return len;
    size_t best = CHUNK_BYTES;
    while (best > CHUNK_BYTES - 4 && (text[best] & 0xc0) == 0x80)
        best--; /* a letter is not divided */
    int best_quality = 0;
    for (size_t at = CHUNK_BYTES; at > CHUNK_BYTES / 2 && best_quality < 4; at--) {
        if ((text[at] & 0xc0) == 0x80)
            continue;
        const int q = quality(text, at);
        if (q > best_quality) {
            best = at;
            best_quality = q;
        }
    }
    return best;
}
