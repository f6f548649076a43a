/* The loop over standard input. cJSON's strings end at a NUL byte, so an escaped U+0000 travels as
 * a noncharacter that the line does not hold. */
#include "fcgi/cli/cli_jsonl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/json/json.h"
#include "fcgi/cli/command.h"

enum { LINE_MAX_BYTES = 64 << 20 };

/* The last byte of a noncharacter U+FDD0 to U+FDEF that the line does not hold, escaped or not. */
static unsigned char free_noncharacter(const char *line, size_t len)
{
    for (unsigned char c = 0x90; c < 0xB0; c++) {
        char raw[4] = {(char)0xEF, (char)0xB7, (char)c, 0}, escaped[8];
        bool used = memmem(line, len, raw, 3) != NULL;
        for (int upper = 0; upper < 16 && !used; upper++) {
            snprintf(escaped, sizeof escaped, "\\%c%c%c%c%x", 'u', upper & 1 ? 'F' : 'f',
                     upper & 2 ? 'D' : 'd', upper & 4 ? 'D' : 'd', 0xC0 + c - 0x80);
            if (upper & 8)
                escaped[6] = (char)(escaped[6] >= 'a' ? escaped[6] - 32 : escaped[6]);
            used = memmem(line, len, escaped, 6) != NULL;
        }
        if (!used)
            return c;
    }
    return 0;
}

/* The line with each \u0000 written as the noncharacter. */
static bool replace_nul(const char *line, size_t len, unsigned char c, struct buf *out)
{
    for (size_t i = 0; i < len;) {
        if (line[i] != '\\' || i + 1 >= len) {
            buf_putc(out, line[i++]);
        } else if (len - i >= 6 && !memcmp(line + i, "\\u0000", 6)) {
            buf_printf(out, "\xEF\xB7%c", c);
            i += 6;
        } else {
            buf_append(out, line + i, 2);
            i += 2;
        }
    }
    return !out->failed;
}

bool cli_jsonl_text(const struct cli_jsonl_line *line, const char *s, struct buf *out)
{
    const char mark[4] = {(char)0xEF, (char)0xB7, (char)line->nul, 0};
    const char *next;
    while (line->nul && (next = strstr(s, mark))) {
        buf_append(out, s, (size_t)(next - s));
        buf_putc(out, 0);
        s = next + 3;
    }
    return buf_puts(out, s);
}

struct handler {
    cli_jsonl_fn fn;
    void *context;
};

static bool answer_line(const char *line, size_t len, const struct handler *h, struct buf *out,
                        struct err *e)
{
    struct buf clean = {0};
    struct json_limits limits = {.max_bytes = LINE_MAX_BYTES, .max_depth = 900};
    struct cli_jsonl_line l = {0};
    cJSON *root = NULL;
    if (memmem(line, len, "\\u0000", 6)) {
        l.nul = free_noncharacter(line, len);
        if (!l.nul || !replace_nul(line, len, l.nul, &clean)) {
            buf_fini(&clean);
            return err_set(e, ERR_NOMEM, "the line holds NUL and every noncharacter");
        }
        root = json_parse(clean.data, clean.len, &limits, e);
    } else {
        root = json_parse(line, len, &limits, e);
    }
    l.root = root;
    bool ok = root && h->fn(h->context, &l, out, e);
    cJSON_Delete(root);
    buf_fini(&clean);
    return ok && (!out->failed || err_set(e, ERR_NOMEM, "out of memory"));
}

int cli_jsonl_run(const char *command, cli_jsonl_fn fn, void *context)
{
    char *line = NULL;
    size_t cap = 0;
    ssize_t len;
    int status = 0;
    struct buf out = {0};
    const struct handler handler = {.fn = fn, .context = context};
    while ((len = getline(&line, &cap, stdin)) > 0) {
        struct err e = {0};
        if (line[len - 1] == '\n')
            len--;
        if (len == 0)
            continue;
        buf_clear(&out);
        if (!answer_line(line, (size_t)len, &handler, &out, &e)) {
            status = 1;
            buf_clear(&out);
            buf_puts(&out, "{\"error\":");
            buf_json_string(&out, e.text, strlen(e.text));
            buf_putc(&out, '}');
        }
        buf_putc(&out, '\n');
        if (out.failed || fwrite(out.data, 1, out.len, stdout) != out.len) {
            fprintf(stderr, "sluice %s: can't write the answer\n", command);
            status = 1;
            break;
        }
    }
    if (fflush(stdout) != 0)
        status = 1;
    buf_fini(&out);
    free(line);
    return status;
}
