/* Text files in the encodings that people use, converted to UTF-8. */
#include <errno.h>
#include <iconv.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/utf8.h"
#include "reader/content.h"
#include "reader/reader.h"

static bool has_prefix(const unsigned char *data, size_t len, const char *prefix, size_t n)
{
    return len >= n && !memcmp(data, prefix, n);
}

/* The encoding that the first bytes announce; *skip: their number. */
static const char *announced(const unsigned char *data, size_t len, size_t *skip)
{
    static const struct {
        const char *mark, *charset;
        size_t n;
    } rows[] = {{"\xef\xbb\xbf", "UTF-8", 3},
                {"\xff\xfe\0\0", "UTF-32LE", 4},
                {"\0\0\xfe\xff", "UTF-32BE", 4},
                {"\xff\xfe", "UTF-16LE", 2},
                {"\xfe\xff", "UTF-16BE", 2}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (has_prefix(data, len, rows[i].mark, rows[i].n)) {
            *skip = rows[i].n;
            return rows[i].charset;
        }
    *skip = 0;
    return NULL;
}

static bool convert(const char *charset, const unsigned char *data, size_t len, struct content *c,
                    struct buf *out)
{
    iconv_t cd = iconv_open("UTF-8", charset);
    char *in = (char *)data, piece[8192];
    bool ok = cd != (iconv_t)-1;
    if (!ok)
        return content_refuse(c, "damaged", "is text in %s, which this system can't read", charset);
    while (ok && len) {
        char *to = piece;
        size_t room = sizeof piece;
        size_t rc = iconv(cd, &in, &len, &to, &room);
        int why = errno;
        ok = buf_append(out, piece, sizeof piece - room);
        if (!ok)
            content_refuse(c, "large", "has more than %zu bytes of text", READER_TEXT_BYTES);
        else if (rc == (size_t)-1 && why != E2BIG)
            ok = content_refuse(c, "damaged", "is not well-formed text in %s", charset);
    }
    iconv_close(cd);
    return ok;
}

/* Bytes above 127 that are not UTF-8. Windows-1252 has Latin-1's letters in their places, and
 * people's files have its quotes; five of its bytes stand for nothing. */
static bool guess(const unsigned char *data, size_t len, struct content *c, struct buf *out)
{
    for (size_t i = 0; i < len; i++)
        if (data[i] >= 0x80 && memchr("\x81\x8d\x8f\x90\x9d", data[i], 5))
            return content_refuse(c, "damaged",
                                  "is text in an encoding that is not known; save it as UTF-8");
    snprintf(c->text, sizeof c->text, "read as Windows-1252, a guess");
    return convert("WINDOWS-1252", data, len, c, out);
}

bool content_plain(const unsigned char *data, size_t len, struct content *c, struct buf *out)
{
    size_t skip;
    const char *mark = announced(data, len, &skip), *charset = mark;
    if (!charset && !strncmp(c->charset, "utf-16", 6))
        charset = !strcmp(c->charset, "utf-16be") ? "UTF-16BE" : "UTF-16LE";
    out->limit = READER_TEXT_BYTES;
    if (charset && strcmp(charset, "UTF-8")) {
        if (!convert(charset, data + skip, len - skip, c, out))
            return false;
        snprintf(c->text, sizeof c->text, "read as %s", charset);
    } else if (utf8_valid(data + skip, len - skip) == len - skip) {
        if (!buf_append(out, data + skip, len - skip))
            return content_refuse(c, "large", "has more than %zu bytes of text", READER_TEXT_BYTES);
    } else if (mark || !strcmp(c->charset, "utf-8")) {
        return content_refuse(c, "damaged", "is not well-formed UTF-8");
    } else if (!guess(data, len, c, out)) {
        return false;
    }
    if (out->len && memchr(out->data, 0, out->len))
        return content_refuse(c, "damaged", "holds NUL bytes, so it is no text");
    return true;
}
