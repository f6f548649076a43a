/* multipart.h: one pass over the body, part by part; nothing is copied but names. */
#include "fcgi/http/multipart.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#define MAX_BOUNDARY 70 /* RFC 2046 */
#define MAX_PART_HEAD 8192

/* A parameter of a header such as Content-Type: name="value" or name=value. False: it is not there,
 * or too long. */
static bool parameter(const char *header, size_t len, const char *name, char *out, size_t size)
{
    const size_t want = strlen(name);
    for (size_t i = 0; i < len; i++) {
        if (header[i] == '"') { /* past what is quoted */
            do
                i++;
            while (i < len && header[i] != '"');
            continue;
        }
        if (header[i] != ';')
            continue;
        size_t at = i + 1;
        while (at < len && (header[at] == ' ' || header[at] == '\t'))
            at++;
        if (at + want >= len || strncasecmp(header + at, name, want) || header[at + want] != '=')
            continue;
        at += want + 1;
        bool quoted = at < len && header[at] == '"';
        size_t n = 0;
        for (at += quoted;
             at < len && header[at] != (quoted ? '"' : ';') && (quoted || header[at] != ' ');
             at++) {
            if (n + 1 >= size)
                return false;
            out[n++] = header[at];
        }
        out[n] = '\0';
        return true;
    }
    return false;
}

/* Browsers write quotes and line ends in a name as %22, %0D and %0A. */
static void unescape(char *name)
{
    char *to = name;
    for (const char *c = name; *c; c++) {
        if (!strncmp(c, "%22", 3)) {
            *to++ = '"';
            c += 2;
        } else {
            *to++ = *c;
        }
    }
    *to = '\0';
}

static bool read_head(const char *head, size_t len, struct multipart_part *p)
{
    static const char wanted[] = "content-disposition:";
    while (len) {
        const char *end = memmem(head, len, "\r\n", 2);
        size_t n = end ? (size_t)(end - head) : len;
        if (n > sizeof wanted && !strncasecmp(head, wanted, sizeof wanted - 1)) {
            p->is_file = parameter(head, n, "filename", p->file_name, sizeof p->file_name);
            unescape(p->file_name);
            return parameter(head, n, "name", p->name, sizeof p->name);
        }
        head += n + (end ? 2 : 0);
        len -= n + (end ? 2 : 0);
    }
    return false;
}

struct scan {
    const char *data;
    size_t len, at; /* at: just past a delimiter's "--boundary" */
    char delimiter[MAX_BOUNDARY + 5];
    bool bad; /* the form is not well-formed */
};

/* False: there are no more parts, or s->bad. */
static bool next_part(struct scan *s, struct multipart_part *p)
{
    const size_t n = strlen(s->delimiter), left = s->len - s->at;
    const char *head = s->data + s->at; /* its first line may be empty */
    *p = (struct multipart_part){0};
    if (left >= 2 && !memcmp(head, "--", 2))
        return false;
    s->bad = true;
    if (left < 2 || memcmp(head, "\r\n", 2))
        return false;
    const char *body = memmem(head, left, "\r\n\r\n", 4);
    if (!body || (size_t)(body - head) > MAX_PART_HEAD ||
        !read_head(head + 2, (size_t)(body - head > 2 ? body - head - 2 : 0), p))
        return false;
    p->data = body + 4;
    const char *end = memmem(p->data, s->len - (size_t)(p->data - s->data), s->delimiter, n);
    if (!end)
        return false;
    p->len = (size_t)(end - p->data);
    s->at = (size_t)(end - s->data) + n;
    s->bad = false;
    return true;
}

bool multipart_is(const char *type)
{
    return type && !strncasecmp(type, "multipart/form-data", 19);
}

bool multipart_find(const char *data, size_t len, const char *type, struct multipart_part *file,
                    struct err *e)
{
    char boundary[MAX_BOUNDARY + 1];
    struct scan s = {.data = data, .len = len};
    struct multipart_part p;
    int files = 0;
    if (!parameter(type, strlen(type), "boundary", boundary, sizeof boundary) || !boundary[0])
        return err_field(e, ERR_INPUT, "Content-Type", "must name a boundary of 1 to %d characters",
                         MAX_BOUNDARY);
    snprintf(s.delimiter, sizeof s.delimiter, "\r\n--%s", boundary);
    const size_t n = strlen(s.delimiter);
    s.at = n - 2;
    if (len < s.at || memcmp(data, s.delimiter + 2, s.at)) { /* a preamble */
        const char *first = len ? memmem(data, len, s.delimiter, n) : NULL;
        if (!first)
            return err_set(e, ERR_INPUT, "the form is not well-formed");
        s.at = (size_t)(first - data) + n;
    }
    while (next_part(&s, &p))
        if (p.is_file && ++files == 1)
            *file = p;
    if (s.bad)
        return err_set(e, ERR_INPUT, "the form is not well-formed");
    if (files != 1)
        return err_set(e, ERR_INPUT, "the multipart body holds %s",
                       files ? "more than one file" : "no file");
    return true;
}
