/* oauth_challenge.h: challenges and their parameters stand in one list with commas (RFC 9110, 11):
 * what has a name and a value belongs to the scheme before it. */
#include "fcgi/oauth/oauth_challenge.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

static bool is_token(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c && strchr("!#$%&'*+-.^_`|~", c));
}

static const char *skip(const char *p, const char *what)
{
    return p + strspn(p, what);
}

struct word {
    const char *at;
    size_t len;
};

static const char *take_word(const char *p, struct word *out)
{
    out->at = p;
    while (is_token(*p))
        p++;
    out->len = (size_t)(p - out->at);
    return p;
}

static bool is(const struct word *w, const char *name)
{
    return w->len == strlen(name) && !strncasecmp(w->at, name, w->len);
}

/* A token or a quoted string, without its quotes and escapes; "" where it does not fit. */
static const char *take_value(const char *p, char *out, size_t size)
{
    const bool quoted = *p == '"';
    size_t n = 0;
    bool fits = true;
    p += quoted;
    while (*p && (quoted ? *p != '"' : !strchr(", \t", *p))) {
        p += quoted && *p == '\\' && p[1];
        fits = fits && n + 1 < size && (unsigned char)*p >= 0x20 && (unsigned char)*p < 0x7f;
        if (fits)
            out[n++] = *p;
        p++;
    }
    out[fits ? n : 0] = '\0';
    return p + (quoted && *p == '"');
}

static void take_parameter(struct oauth_challenge *out, const struct word *name, const char *value)
{
    if (is(name, "resource_metadata") && !out->metadata[0] && strlen(value) < sizeof out->metadata)
        strcpy(out->metadata, value);
    else if (is(name, "scope") && !out->scope[0])
        oauth_scope_join(value, "", out->scope);
    else if (is(name, "error") && !out->error[0] && strlen(value) < sizeof out->error)
        strcpy(out->error, value);
}

void oauth_challenge_read(const char *header, struct oauth_challenge *out)
{
    bool own = false; /* what follows belongs to the first Bearer */
    char value[OAUTH_URL];
    *out = (struct oauth_challenge){0};
    for (const char *p = skip(header ? header : "", ", \t"); *p; p = skip(p, ", \t")) {
        struct word name;
        const char *end = skip(take_word(p, &name), " \t");
        if (!name.len) { /* no list at all; what follows may be one */
            p++;
            continue;
        }
        if (*end == '=' && end[1] != '=' && end[1]) {
            p = take_value(skip(end + 1, " \t"), value, sizeof value);
            if (own)
                take_parameter(out, &name, value);
            continue;
        }
        own = !out->bearer && is(&name, "Bearer");
        out->bearer = out->bearer || own;
        p = end > p ? end : p + 1;
    }
}

static bool has(const char *list, const struct word *w)
{
    for (const char *p = list; *p;) {
        const size_t n = strcspn(p, " ");
        if (n == w->len && !strncmp(p, w->at, n))
            return true;
        p = skip(p + n, " ");
    }
    return false;
}

static bool is_scope(const struct word *w)
{
    for (size_t i = 0; i < w->len; i++) {
        const unsigned char c = (unsigned char)w->at[i];
        if (c < 0x21 || c > 0x7e || c == '"' || c == '\\')
            return false;
    }
    return w->len > 0;
}

void oauth_scope_join(const char *a, const char *b, char out[OAUTH_SCOPE])
{
    const char *const lists[] = {a, b};
    size_t n = 0;
    out[0] = '\0';
    for (int i = 0; i < 2; i++)
        for (const char *p = skip(lists[i] ? lists[i] : "", " "); *p;) {
            const struct word w = {p, strcspn(p, " ")};
            p = skip(p + w.len, " ");
            if (!is_scope(&w) || has(out, &w) || n + w.len + 2 > OAUTH_SCOPE)
                continue;
            n += (size_t)snprintf(out + n, OAUTH_SCOPE - n, "%s%.*s", n ? " " : "", (int)w.len,
                                  w.at);
        }
}
