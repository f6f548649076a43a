/* title.h: skips what is markup or white space, and cuts at the last space that fits. */
#include "fcgi/conversations/title.h"

#include <stdbool.h>
#include <string.h>

static bool blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

/* True if the line has something besides Markdown marks (a fence, a rule). */
static bool says_something(const char *line, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (!blank(line[i]) && !strchr("#>*-+`=~_|", line[i]))
            return true;
    return false;
}

/* The first line with text in it; past marks at its beginning. */
static const char *first_line(const char *text, size_t *len)
{
    for (;;) {
        *len = strcspn(text, "\n");
        /* "```python" opens a block: the language is no title */
        if (says_something(text, *len) && strncmp(text, "```", 3))
            break;
        if (!text[*len]) {
            *len = 0;
            return text;
        }
        text += *len + 1;
    }
    const char *at = text, *end = text + *len;
    while (at < end &&
           (blank(*at) || (strchr("#>*-+", *at) && at + 1 < end && (blank(at[1]) || at[1] == *at))))
        at++;
    *len = (size_t)(end - at);
    return at;
}

void title_make(const char *text, char out[TITLE_SIZE])
{
    size_t len, n = 0, word_end = 0;
    int characters = 0;
    const char *line = first_line(text, &len);
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)line[i];
        bool pair = c == '*' && i + 1 < len && line[i + 1] == '*';
        if (c == '`' || pair || (c == '*' && !n)) { /* code, bold, what is left at the beginning */
            i += pair;
            continue;
        }
        bool space = blank(line[i]) || c < 0x20 || c == 0x7f;
        if (space && (!n || out[n - 1] == ' '))
            continue;
        if ((c & 0xc0) != 0x80 && characters++ == TITLE_CHARACTERS) {
            /* between words, unless that loses more than a third (one long word, or a script
             * without blanks) */
            if (!space && word_end > n * 2 / 3)
                n = word_end;
            while (n && out[n - 1] == ' ')
                n--;
            memcpy(out + n, "\xe2\x80\xa6", 4);
            return;
        }
        if (space)
            word_end = n;
        out[n++] = space ? ' ' : line[i];
    }
    while (n && out[n - 1] == ' ')
        n--;
    out[n] = '\0';
}
