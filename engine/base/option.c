/* Parses command lines by one table of options, and prints the same table as --help. */
#include "engine/base/option.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool option_bytes(const char *text, int64_t *out)
{
    char *end;
    errno = 0;
    double v = strtod(text, &end);
    if (end == text || errno || !(v >= 0))
        return false;
    int shift = 0;
    switch (*end) {
    case 'k':
    case 'K':
        shift = 10;
        break;
    case 'm':
    case 'M':
        shift = 20;
        break;
    case 'g':
    case 'G':
        shift = 30;
        break;
    case 't':
    case 'T':
        shift = 40;
        break;
    }
    if (shift)
        end++;
    if (!strcmp(end, "iB"))
        end += 2;
    else if (!strcmp(end, "B"))
        end++;
    v *= (double)((int64_t)1 << shift);
    if (*end || v > 9e18)
        return false;
    *out = (int64_t)v;
    return true;
}

static bool in_range(const struct option *o, double v, struct err *e)
{
    if ((o->min == 0 && o->max == 0) || (v >= o->min && v <= o->max))
        return true;
    return err_field(e, ERR_INPUT, o->name, "%g is outside %g to %g", v, o->min, o->max);
}

static bool is_choice(const char *choices, const char *text)
{
    size_t n = strlen(text);
    for (const char *c = choices; c; c = strchr(c, '|') ? strchr(c, '|') + 1 : NULL)
        if (n == strcspn(c, "|") && !strncmp(c, text, n))
            return true;
    return false;
}

static bool set_number(const struct option *o, const char *text, void *at, struct err *e)
{
    char *end;
    errno = 0;
    if (o->type == OPTION_FLOAT) {
        double v = strtod(text, &end);
        if (end == text || *end || errno || !isfinite(v))
            return err_field(e, ERR_INPUT, o->name, "'%s' is not a number", text);
        *(double *)at = v;
        return in_range(o, v, e);
    }
    int64_t v;
    if (o->type == OPTION_BYTES) {
        if (!option_bytes(text, &v))
            return err_field(e, ERR_INPUT, o->name, "'%s' is not a size such as 512M or 4GiB",
                             text);
    } else {
        v = strtoll(text, &end, 10);
        if (end == text || *end || errno)
            return err_field(e, ERR_INPUT, o->name, "'%s' is not a whole number", text);
    }
    *(int64_t *)at = v;
    return in_range(o, (double)v, e);
}

static bool set_value(const struct option *o, const char *text, void *into, struct err *e)
{
    void *at = (char *)into + o->offset;
    switch (o->type) {
    case OPTION_BOOL:
        if (strcmp(text, "true") && strcmp(text, "false"))
            return err_field(e, ERR_INPUT, o->name, "'%s' is neither true nor false", text);
        *(bool *)at = text[0] == 't';
        return true;
    case OPTION_STRING:
        *(const char **)at = text;
        return true;
    case OPTION_CHOICE:
        *(const char **)at = text;
        return is_choice(o->choices, text) ||
               err_field(e, ERR_INPUT, o->name, "'%s' is none of %s", text, o->choices);
    default:
        return set_number(o, text, at, e);
    }
}

static void set_empty(const struct option *o, void *into)
{
    void *at = (char *)into + o->offset;
    switch (o->type) {
    case OPTION_BOOL:
        *(bool *)at = false;
        break;
    case OPTION_FLOAT:
        *(double *)at = 0;
        break;
    case OPTION_INT:
    case OPTION_BYTES:
        *(int64_t *)at = 0;
        break;
    default:
        *(const char **)at = NULL;
    }
}

static const struct option *find(const struct option *table, size_t n, const char *name, size_t len)
{
    for (size_t i = 0; i < n; i++)
        if (strlen(table[i].name) == len && !strncmp(table[i].name, name, len))
            return &table[i];
    return NULL;
}

struct parse {
    const struct option *table; /* [n] */
    size_t n;
    const struct option_args *args;
    int at; /* the argument that is looked at */
    void *into;
};

/* Takes the flag at p->at, and its value where that is an argument of its own. */
static bool take_flag(struct parse *p, struct err *e)
{
    void *into = p->into;
    const char *flag = p->args->argv[p->at] + 2, *equals = strchr(flag, '=');
    size_t len = equals ? (size_t)(equals - flag) : strlen(flag);
    const struct option *o = find(p->table, p->n, flag, len);
    if (o && o->type == OPTION_BOOL && !equals) {
        *(bool *)((char *)into + o->offset) = true;
        return true;
    }
    if (!o && !equals && !strncmp(flag, "no-", 3)) {
        o = find(p->table, p->n, flag + 3, len - 3);
        if (o && o->type == OPTION_BOOL) {
            *(bool *)((char *)into + o->offset) = false;
            return true;
        }
        o = NULL;
    }
    if (!o)
        return err_set(e, ERR_INPUT, "unknown option --%.*s", (int)(len < 80 ? len : 80), flag);
    if (!equals && p->at + 1 >= p->args->argc)
        return err_field(e, ERR_INPUT, o->name, "needs a value");
    return set_value(o, equals ? equals + 1 : p->args->argv[++p->at], into, e);
}

bool option_parse(const struct option *table, size_t n, const struct option_args *args, void *into,
                  struct err *e)
{
    struct parse p = {.table = table, .n = n, .args = args, .into = into};
    int n_rest = 0;
    bool flags = true;
    for (size_t i = 0; i < n; i++) {
        set_empty(&table[i], into);
        if (table[i].fallback && !set_value(&table[i], table[i].fallback, into, e))
            return err_prefix(e, "default");
    }
    for (p.at = 1; p.at < args->argc; p.at++) {
        char *word = args->argv[p.at];
        if (flags && !strcmp(word, "--")) {
            flags = false;
        } else if (flags && !strncmp(word, "--", 2)) {
            if (!take_flag(&p, e))
                return false;
        } else if (args->rest) {
            args->rest[n_rest++] = word;
        } else {
            return err_set(e, ERR_INPUT, "'%.80s' is not an option", word);
        }
    }
    if (args->rest)
        args->rest[n_rest] = NULL;
    return true;
}

void option_help(const struct option *table, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const struct option *o = &table[i];
        char left[96];
        const char *value = o->type == OPTION_CHOICE ? o->choices : o->value ? o->value : "N";
        snprintf(left, sizeof left, "--%s%s%s", o->name, o->type == OPTION_BOOL ? "" : " ",
                 o->type == OPTION_BOOL ? "" : value);
        printf("  %-32s %s", left, o->help);
        if (o->fallback && o->type != OPTION_BOOL)
            printf(" (default %s)", o->fallback);
        putchar('\n');
    }
}
