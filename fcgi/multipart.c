/* multipart.h */
#include "fcgi/multipart.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#define WINDOW 65536
#define HEAD_BYTES 4096
#define BOUNDARY_MAX 70 /* RFC 2046 */

struct window {
    int fd, out;
    char data[WINDOW];
    size_t n;
    bool ended;
    char mark[BOUNDARY_MAX + 8]; /* "\r\n--boundary" */
    size_t mark_len;
};

bool multipart_is(const char *type)
{
    return type && !strncasecmp(type, "multipart/form-data", 19);
}

static bool begin(struct window *w, const char *type, struct err *e)
{
    const char *p = strcasestr(type, "boundary=");
    const bool quoted = p && p[9] == '"';
    const char *name = p ? p + 9 + quoted : "";
    const size_t n = strcspn(name, quoted ? "\"" : "; \t");
    if (!n || n > BOUNDARY_MAX)
        return err_field(e, ERR_INPUT, "Content-Type", "must name a boundary of 1 to %d characters", BOUNDARY_MAX);
    w->mark_len = (size_t)snprintf(w->mark, sizeof w->mark, "\r\n--%.*s", (int)n, name);
    memcpy(w->data, "\r\n", 2); /* the first boundary may be the body's first line */
    w->n = 2;
    return true;
}

static bool fill(struct window *w, struct err *e)
{
    while (w->n < WINDOW && !w->ended) {
        ssize_t k = read(w->fd, w->data + w->n, WINDOW - w->n);
        if (k < 0 && errno != EINTR)
            return err_errno(e, "reading the upload");
        w->ended = k == 0;
        w->n += k > 0 ? (size_t)k : 0;
    }
    return true;
}

static bool drop(struct window *w, size_t n, bool keep, struct err *e)
{
    for (size_t done = 0; keep && done < n;) {
        ssize_t k = write(w->out, w->data + done, n - done);
        if (k < 0 && errno != EINTR)
            return err_errno(e, "storing the upload");
        done += k > 0 ? (size_t)k : 0;
    }
    memmove(w->data, w->data + n, w->n -= n);
    return true;
}

/* To behind the next boundary; what stands before it is written out, or not. */
static bool past_mark(struct window *w, bool keep, struct err *e)
{
    for (;;) {
        if (!fill(w, e))
            return false;
        const char *at = memmem(w->data, w->n, w->mark, w->mark_len);
        if (at)
            return drop(w, (size_t)(at - w->data), keep, e) && drop(w, w->mark_len, false, e) && fill(w, e);
        if (w->ended)
            return err_set(e, ERR_INPUT, "the multipart body ends without its boundary");
        if (!drop(w, w->n - (w->mark_len - 1), keep, e))
            return false;
    }
}

/* A part's head, from behind the boundary. */
static bool past_head(struct window *w, bool *is_file, struct err *e)
{
    char head[HEAD_BYTES + 1];
    const size_t most = w->n < HEAD_BYTES ? w->n : HEAD_BYTES;
    const char *end = memmem(w->data, most, "\r\n\r\n", 4);
    if (!end)
        return err_set(e, ERR_INPUT, "a part of the multipart body has no proper head");
    const size_t n = (size_t)(end - w->data);
    memcpy(head, w->data, n);
    head[n] = '\0';
    const char *disposition = strcasestr(head, "\ncontent-disposition:");
    *is_file = disposition && strcasestr(disposition, "filename");
    return drop(w, n + 4, false, e);
}

bool multipart_file(int body, const char *type, int file, struct err *e)
{
    struct window w = {.fd = body, .out = file};
    bool is_file = false;
    if (lseek(body, 0, SEEK_SET) != 0)
        return err_errno(e, "reading the upload");
    if (!begin(&w, type, e) || !past_mark(&w, false, e))
        return false;
    while (!is_file) {
        if (w.n >= 2 && !memcmp(w.data, "--", 2))
            return err_set(e, ERR_INPUT, "the multipart body holds no file");
        if (!past_head(&w, &is_file, e) || !past_mark(&w, is_file, e))
            return false;
    }
    return true;
}
