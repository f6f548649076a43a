/* upload.h */
#include "fcgi/upload.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "engine/base/file.h"
#include "fcgi/request.h"
#include "sql/store_attachments.h"

#define FORM_BYTES ((size_t)64 << 10) /* what a form has besides the file */
#define MAX_BOUNDARY 70               /* RFC 2046 */
#define MAX_PART_HEAD 8192

static bool too_large(struct request *r, size_t limit, struct err *e)
{
    r->hint.status = 413;
    r->hint.code = "file_too_large";
    return err_field(e, ERR_LIMIT, "file", "has more than the %zu bytes that are taken", limit);
}

/* The whole body into a temporary file. */
static bool save_body(struct request *r, size_t limit, struct store_upload *u, struct err *e)
{
    size_t len = 0, done = 0;
    char piece[65536];
    if (!request_body_begin(r, limit, &len, e) || !store_upload_begin(r->store, u, e))
        return false;
    while (done < len) {
        size_t n = request_body_read(r, piece, len - done < sizeof piece ? len - done : sizeof piece);
        if (!n)
            return err_set(e, ERR_INPUT, "the body ended after %zu of %zu bytes", done, len);
        if (!store_upload_write(u, piece, n, e))
            return false;
        done += n;
    }
    return true;
}

/* ---- multipart/form-data ---- */

/* A parameter of a header such as Content-Type: name="value" or name=value. False: it is not there, or too long. */
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
        for (at += quoted; at < len && header[at] != (quoted ? '"' : ';') && (quoted || header[at] != ' '); at++) {
            if (n + 1 >= size)
                return false;
            out[n++] = header[at];
        }
        out[n] = '\0';
        return true;
    }
    return false;
}

struct part {
    const char *data;
    size_t len;
    char name[64], file_name[1024];
    bool is_file;
};

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

static bool read_head(const char *head, size_t len, struct part *p)
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

/* The part that begins at *at, just past a delimiter's "--boundary". False: there are no more, or *bad. */
static bool next_part(const char *data, size_t len, const char *delimiter, size_t *at, struct part *p, bool *bad)
{
    const size_t n = strlen(delimiter);
    *p = (struct part){0};
    if (len - *at >= 2 && !memcmp(data + *at, "--", 2))
        return false;
    *bad = true;
    if (len - *at < 2 || memcmp(data + *at, "\r\n", 2))
        return false;
    const char *head = data + *at; /* its first line may be empty */
    const char *body = memmem(head, len - *at, "\r\n\r\n", 4);
    if (!body || (size_t)(body - head) > MAX_PART_HEAD || !read_head(head + 2, (size_t)(body - head > 2 ? body - head - 2 : 0), p))
        return false;
    p->data = body + 4;
    const char *end = memmem(p->data, len - (size_t)(p->data - data), delimiter, n);
    if (!end)
        return false;
    p->len = (size_t)(end - p->data);
    *at = (size_t)(end - data) + n;
    *bad = false;
    return true;
}

/* The one file of the form. */
static bool find_file(const struct file_map *m, const char *boundary, struct part *file, struct err *e)
{
    char delimiter[MAX_BOUNDARY + 5];
    const char *data = (const char *)m->data;
    struct part p;
    bool bad = false;
    int files = 0;
    snprintf(delimiter, sizeof delimiter, "\r\n--%s", boundary);
    const size_t n = strlen(delimiter);
    size_t at = n - 2;
    if (m->size < at || memcmp(data, delimiter + 2, at)) { /* a preamble */
        const char *first = m->size ? memmem(data, m->size, delimiter, n) : NULL;
        if (!first)
            return err_set(e, ERR_INPUT, "the form is not well-formed");
        at = (size_t)(first - data) + n;
    }
    while (next_part(data, m->size, delimiter, &at, &p, &bad))
        if (p.is_file && ++files == 1)
            *file = p;
    if (bad)
        return err_set(e, ERR_INPUT, "the form is not well-formed");
    if (files != 1)
        return err_field(e, ERR_INPUT, "file", files ? "send one file at a time" : "is needed: the form holds no file");
    return true;
}

static bool cut_file(struct request *r, size_t limit, const char *boundary, struct store_upload *u, char name[FILE_NAME_SIZE],
                     struct err *e)
{
    struct store_upload form = *u;
    struct file_map m;
    struct part file;
    *u = (struct store_upload){.fd = -1};
    bool ok = file_map(form.path, &m, e);
    if (ok) {
        ok = find_file(&m, boundary, &file, e);
        if (ok && file.len > limit)
            ok = too_large(r, limit, e);
        ok = ok && store_upload_begin(r->store, u, e) && store_upload_write(u, file.data, file.len, e);
        if (ok)
            file_name_clean(file.file_name, strlen(file.file_name), name);
        file_unmap(&m);
    }
    store_upload_drop(&form);
    return ok;
}

bool upload_take(struct request *r, size_t limit, struct store_upload *u, char name[FILE_NAME_SIZE], struct err *e)
{
    char boundary[MAX_BOUNDARY + 1];
    const char *type = request_header(r, "Content-Type"), *given = request_query(r, "name");
    const bool form = type && !strncasecmp(type, "multipart/form-data", 19);
    if (form && (!parameter(type, strlen(type), "boundary", boundary, sizeof boundary) || !boundary[0]))
        return err_set(e, ERR_INPUT, "Content-Type names no boundary of the form");
    if (!save_body(r, limit + (form ? FORM_BYTES : 0), u, e))
        return false;
    file_name_clean(given ? given : "", given ? strlen(given) : 0, name);
    return !form || cut_file(r, limit, boundary, u, name, e);
}
