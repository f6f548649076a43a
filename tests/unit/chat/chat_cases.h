/* JSON Lines of cases for the tests of templates and answer parsers. */
#pragma once
#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "engine/base/buf.h"

struct chat_cases {
    cJSON **at;
    size_t n;
};

/* $srcdir/path, or DIR/path after --cases DIR was on the command line. Static buffer. */
void chat_cases_directory(int argc, char **argv);
bool chat_cases_by_hand(void);
const char *chat_cases_path(const char *path); /* such as "templates/qwen3.jinja" */
/* JSON Lines, packed as PATH.gz too. Aborts on what it can't read: these are our own files. */
void chat_cases_read(struct chat_cases *c, const char *path);
void chat_cases_free(struct chat_cases *c);
struct buf chat_cases_file(const char *path);
const char *chat_case_text(const cJSON *o, const char *name); /* NULL when absent */
/* "2026-03-05T09:08:07" as a clock on the wall, and as Unix seconds of the local zone. */
struct tm chat_case_time(const cJSON *o);
int64_t chat_case_seconds(const cJSON *o);
