/* The tokenizer cases of tests/data/tokenizers (or of --cases DIR), for the text tests. */
#pragma once
#include <cjson/cJSON.h>
#include <stddef.h>

#include "engine/base/buf.h"
#include "engine/tokenizer/tokenizer.h"
#include "engine/tokenizer/vocab.h"

struct text_case { /* strings may hold NUL */
    struct buf input, decoded;
    struct ids ids, ids_plain;
    struct buf *emit; /* [n_emit], streaming cases only */
    size_t n_emit;
    struct buf flush;
    char id[32];
};

struct text_cases {
    struct text_case *at;
    size_t n;
};

/* DIR/NAME/FILE, JSON Lines or one array; packed as FILE.gz or FILE.xz too. Aborts on what it can't
 * read: these are our own files. */
void text_cases_read(struct text_cases *c, const char *dir, const char *name, const char *file);
void text_cases_free(struct text_cases *c);
/* Opens DIR/NAME/tokenizer.json, packed too. */
struct vocab *text_cases_vocab(const char *dir, const char *name);
/* $srcdir/path, as automake's test driver sets it. */
const char *text_cases_path(const char *path);
/* A vocabulary from tokenizer.json's text. NULL and *e where it is refused. */
struct vocab *text_cases_inline(const char *json, struct err *e);
/* tokenizer.json's text with all single bytes, and these further parts (each may be NULL):
 * vocabulary entries (',"ab":256'), merges, added tokens, normalizer, pre-tokenizer. Static buffer.
 */
struct text_parts {
    const char *vocab, *merges, *added, *normalizer, *pre_tokenizer, *model;
};
const char *text_cases_json(const struct text_parts *p);
