/* Whose export an item is, and how it becomes a draft: one row in formats.c and one file
 * format_<name>.c for each. An item is one conversation's JSON, checked by json_parse; the formats
 * meet hostile ones, so they look at every type. */
#pragma once
#include <cjson/cJSON.h>
#include <stdbool.h>

#include "engine/base/err.h"
#include "engine/base/json/json_slice.h"
#include "fcgi/import/draft.h"

struct import_format {
    const char *name; /* also the head of the keys it makes */
    bool (*is)(const cJSON *item);
    /* Adds nodes (draft_finish follows), or, where `whole`, fills d->out itself. `text` is the item
     * as it was written. */
    bool (*read)(struct draft *d, const cJSON *item, struct json_slice text, struct err *e);
    bool whole;
    bool deep; /* its messages stand in each other: up to IMPORT_TREE_DEPTH */
};

/* NULL: none knows it. */
const struct import_format *import_format_of(const cJSON *item);

extern const struct import_format format_sluice, format_chatgpt, format_claude, format_openwebui,
    format_librechat, format_llamacpp, format_openai;

/* The envelope of our own files, up to the list and closed, or whole. ERR_UNSUPPORTED: it says that
 * it is something else; ERR_INPUT: a version that this program does not read. */
bool import_envelope_check(const cJSON *head, struct err *e);

/* What several formats share: a string member, or "" when it is absent, null or no string. */
const char *import_text(const cJSON *o, const char *name);
/* OpenAI's content: a string, or an array of parts of which the texts are taken; others are told by
 * a line. NULL: *e. */
const char *import_content(struct draft *d, const cJSON *content, struct err *e);
bool import_role(const char *name, enum store_role *role);
