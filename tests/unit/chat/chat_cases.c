/* chat_cases.h: JSON Lines of cases for the tests of templates and answer parsers. */
#include "tests/unit/chat/chat_cases.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/file.h"
#include "engine/base/json/json.h"
#include "tests/unit/support/packed_file.h"

static const char *by_hand;

static void die(const char *what, const char *why)
{
    fprintf(stderr, "chat_cases: %s: %s\n", what, why);
    abort();
}

void chat_cases_directory(int argc, char **argv)
{
    if (argc > 2 && !strcmp(argv[1], "--cases"))
        by_hand = argv[2];
}

bool chat_cases_by_hand(void)
{
    return by_hand != NULL;
}

const char *chat_cases_path(const char *path)
{
    static char full[4096];
    const char *srcdir = getenv("srcdir");
    if (by_hand)
        snprintf(full, sizeof full, "%s/%s", by_hand, path);
    else
        snprintf(full, sizeof full, "%s/tests/data/%s", srcdir ? srcdir : ".", path);
    return full;
}

struct buf chat_cases_file(const char *path)
{
    struct buf b = {0};
    struct err e = {0};
    if (!file_read(chat_cases_path(path), (size_t)64 << 20, &b, &e))
        die(path, e.text);
    return b;
}

void chat_cases_read(struct chat_cases *c, const char *path)
{
    struct buf b = packed_file_read(chat_cases_path(path));
    const struct json_limits limits = {.max_depth = 900, .allow_nul = true};
    *c = (struct chat_cases){0};
    for (char *line = b.data, *end; line < b.data + b.len; line = end + 1) {
        struct err e = {0};
        end = memchr(line, '\n', (size_t)(b.data + b.len - line));
        if (!end)
            end = b.data + b.len;
        if (end == line)
            continue;
        cJSON *o = json_parse(line, (size_t)(end - line), &limits, &e);
        if (!o)
            die(path, e.text);
        cJSON **at = realloc(c->at, (c->n + 1) * sizeof *at);
        if (!at)
            die(path, "memory");
        c->at = at;
        c->at[c->n++] = o;
    }
    buf_fini(&b);
}

void chat_cases_free(struct chat_cases *c)
{
    for (size_t i = 0; i < c->n; i++)
        cJSON_Delete(c->at[i]);
    free(c->at);
    *c = (struct chat_cases){0};
}

const char *chat_case_text(const cJSON *o, const char *name)
{
    const cJSON *v = json_member(o, name);
    return cJSON_IsString(v) ? v->valuestring : NULL;
}

struct tm chat_case_time(const cJSON *o)
{
    struct tm t = {0};
    const char *now = chat_case_text(o, "now");
    if (now && !strptime(now, "%Y-%m-%dT%H:%M:%S", &t))
        die(now, "no time");
    time_t seconds = timegm(&t);
    gmtime_r(&seconds, &t);
    return t;
}

int64_t chat_case_seconds(const cJSON *o)
{
    struct tm t = chat_case_time(o);
    t.tm_isdst = -1;
    return (int64_t)mktime(&t);
}
