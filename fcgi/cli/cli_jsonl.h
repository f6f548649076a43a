/* JSON Lines in, JSON Lines out, one line each: how the commands that check the text layer run many
 * cases in one process. A line that fails gives {"error": "..."} in its place. */
#pragma once
#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/buf.h"
#include "engine/base/err.h"

struct cli_jsonl_line {
    const cJSON *root;
    unsigned char
        nul; /* strings hold U+0000 as EF B7 and this byte, since C strings end at a NUL */
};

/* Appends a string of the line with its NULs put back. */
bool cli_jsonl_text(const struct cli_jsonl_line *line, const char *s, struct buf *out);

/* Writes the answer, one JSON value without line feeds, to out. */
typedef bool (*cli_jsonl_fn)(void *context, const struct cli_jsonl_line *line, struct buf *out,
                             struct err *e);
/* Reads standard input to its end. Returns the exit status: 0, or 1 when a line failed. */
int cli_jsonl_run(const char *command, cli_jsonl_fn fn, void *context);
