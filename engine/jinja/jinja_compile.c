/* Compiles the source of a template: its text is normalised, cut into tokens and parsed into nodes,
 * which live in the template's own arena. */
#include <stdlib.h>
#include <string.h>

#include "engine/jinja/jinja_parse.h"

#define MAX_SOURCE ((size_t)4 << 20)
#define MAX_MEMORY ((size_t)256 << 20)

/* Line ends become "\n", one at the very end goes, ill-formed UTF-8 becomes U+FFFD. */
static char *normalise(struct arena *arena, const char *s, size_t len, size_t *out_len)
{
    char *out = arena_alloc(arena, len * 3 + 1);
    size_t n = 0;
    for (size_t i = 0; out && i < len;) {
        uint32_t code, size = jinja_decode(s + i, len - i, &code);
        if (s[i] == '\r') {
            out[n++] = '\n';
            i += i + 1 < len && s[i + 1] == '\n' ? 2 : 1;
        } else if (size == 1 && (unsigned char)s[i] >= 0x80) {
            memcpy(out + n, "\xef\xbf\xbd", 3);
            n += 3;
            i++;
        } else {
            memcpy(out + n, s + i, size);
            n += size;
            i += size;
        }
    }
    if (n && out[n - 1] == '\n')
        n--;
    *out_len = n;
    return out;
}

static bool parse_template(struct jinja *t, const char *source, size_t len, struct err *e)
{
    static const char *const fixed[NAME__N] = {"loop", "caller", "varargs", "kwargs", "self"};
    struct jtokens tokens = {0};
    struct jparser p = {.run = {.arena = t->arena, .e = e, .step_limit = UINT64_MAX}, .t = t};
    bool ok = false;
    size_t n;
    char *text = normalise(t->arena, source, len, &n);
    if (!text) {
        err_set(e, ERR_NOMEM, "memory ran out in a template of %zu bytes", len);
        goto out;
    }
    if (!jinja_lex(text, n, &tokens, e))
        goto out;
    p.at = tokens.at;
    for (int i = 0; i < NAME__N; i++)
        jinja_name(&p, fixed[i], strlen(fixed[i]));
    t->body = jinja_failed(&p.run) ? NULL : jinja_parse_body(&p, NULL, &ok);
    ok = ok && !jinja_failed(&p.run);
out:
    free(tokens.at);
    free(p.name_index);
    return ok;
}

struct jinja *jinja_compile(const char *source, size_t len, struct err *e)
{
    if (len > MAX_SOURCE || memchr(source, 0, len)) {
        err_set(e, len > MAX_SOURCE ? ERR_LIMIT : ERR_FORMAT,
                len > MAX_SOURCE ? "a template of %zu bytes is too large"
                                 : "a template of %zu bytes holds a NUL",
                len);
        return NULL;
    }
    struct arena *arena = arena_create(MAX_MEMORY);
    struct jinja *t = arena ? arena_alloc(arena, sizeof *t) : NULL;
    if (!t) {
        arena_destroy(&arena);
        err_set(e, ERR_NOMEM, "memory ran out for a template");
        return NULL;
    }
    t->arena = arena;
    if (!parse_template(t, source, len, e))
        jinja_destroy(&t);
    return t;
}

void jinja_destroy(struct jinja **t)
{
    if (!*t)
        return;
    struct arena *arena = (*t)->arena; /* the template itself lives in it */
    *t = NULL;
    arena_destroy(&arena);
}

bool jinja_mentions(const struct jinja *t, const char *name)
{
    for (int i = 0; i < t->n_names; i++)
        if (t->names[i]->len == strlen(name) && !memcmp(t->names[i]->data, name, t->names[i]->len))
            return true;
    return false;
}
