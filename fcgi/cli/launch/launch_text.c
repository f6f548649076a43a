/* Settings in TOML and YAML, changed line by line: what is not ours keeps its bytes. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "fcgi/cli/launch/launch.h"

static bool sets(const char *line, size_t len, const char *key, char assign)
{
    size_t n = strlen(key);
    if (len <= n || memcmp(line, key, n))
        return false;
    n += strspn(line + n, " \t");
    return n < len && line[n] == assign;
}

static bool is_ours(const char *line, size_t len)
{
    const size_t n = sizeof LAUNCH_MARK - 1;
    while (len && (line[len - 1] == '\n' || line[len - 1] == '\r'))
        len--;
    return len >= n && !memcmp(line + len - n, LAUNCH_MARK, n);
}

/* How often """ or ''' stands in the line: a string over several lines begins or ends there. */
static int fences(const char *line, size_t len)
{
    int n = 0;
    for (size_t i = 0; i + 3 <= len; i++)
        if (!memcmp(line + i, "\"\"\"", 3) || !memcmp(line + i, "'''", 3)) {
            n++;
            i += 2;
        }
    return n;
}

struct place {
    bool in_string, in_table, skipping; /* a string of lines; any table; the one to leave out */
};

static bool keep_line(const char *line, size_t len, const struct place *p, const char *const *keys,
                      char assign, struct buf *out)
{
    if (p->skipping || is_ours(line, len))
        return true;
    for (const char *const *k = keys; *k && !p->in_string && !p->in_table; k++)
        if (sets(line, len, *k, assign))
            return buf_puts(out, "# ") && buf_append(out, line, len);
    return buf_append(out, line, len);
}

bool launch_text_without(const char *old, const char *const *keys, char assign, const char *table,
                         struct buf *out, struct err *e)
{
    struct place p = {0};
    while (*old) {
        size_t len = strcspn(old, "\n");
        len += old[len] == '\n';
        if (table && !p.in_string && *old == '[') {
            const size_t n = strlen(table);
            p.in_table = true;
            p.skipping = !strncmp(old, table, n);
        }
        bool was_string = p.in_string;
        if (table && fences(old, len) % 2)
            p.in_string = !p.in_string;
        struct place here = {
            .in_string = was_string, .in_table = p.in_table, .skipping = p.skipping};
        if (!keep_line(old, len, &here, keys, assign, out))
            break;
        old += len;
    }
    return !out->failed || err_set(e, ERR_NOMEM, "out of memory");
}

static bool has_line(const char *text, const char *line, size_t len)
{
    for (const char *at = text; *at; at += strcspn(at, "\n"), at += *at == '\n')
        if (strcspn(at, "\n") == len && !memcmp(at, line, len))
            return true;
    return false;
}

static void print_hidden(const char *line, size_t len, const char *key)
{
    const size_t n = strlen(key), shown = n < 14 ? n / 2 : 14;
    for (size_t i = 0; i < len; i++)
        if (n && i + n <= len && !memcmp(line + i, key, n)) {
            printf("%.*s...", (int)shown, key);
            i += n - 1;
        } else {
            putchar(line[i]);
        }
    putchar('\n');
}

static void print_missing(char sign, const char *from, const char *in, const char *key)
{
    for (const char *at = from; *at; at += *at == '\n') {
        size_t len = strcspn(at, "\n");
        if (len && !has_line(in, at, len)) {
            printf("    %c ", sign);
            print_hidden(at, len, key);
        }
        at += len;
    }
}

void launch_text_show(const char *old, const char *new_text, const char *key)
{
    print_missing('-', old, new_text, key);
    print_missing('+', new_text, old, key);
}
