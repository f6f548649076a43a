/* A conversation on its way from another program's tree into ours. A format adds nodes with the
 * source's own ids, in any order; draft_finish finds the parents, refuses trees that are none,
 * leaves hidden nodes out and puts parents first. Everything lives in the draft's arena or in the
 * JSON tree that the format reads. One thread owns it. */
#pragma once
#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/err.h"
#include "sql/chats/store_import.h"

struct arena;

struct draft_node {
    const char *id;       /* the source's; unique in the conversation */
    const char *parent;   /* the source's id; NULL: a root */
    bool hidden;          /* no message of ours: what hangs on it hangs on its parent */
    const char *thoughts; /* of a hidden node: reasoning of the next answer below it; NULL: none */
    struct store_import_message
        message; /* parent is set by draft_finish; times 0: the conversation's */
};

struct draft {
    struct arena *arena;
    struct store_import out;
    struct draft_node *nodes;
    int n_nodes, cap_nodes;
    const char *source_id; /* of the conversation, "" when it has none */
    const char
        *shown; /* id of the last node of the branch that is shown; NULL: the last one made */
    const char *system; /* its system prompt; NULL: none */
    bool one_root;      /* the format has exactly one node without a parent */
    const char *tags[STORE_TAGS_MAX];
    int64_t n_missing; /* files that messages name and the export does not hold */
};

/* Arena and everything are the caller's: zeroes, "" and -1. */
void draft_begin(struct draft *d, struct arena *arena);
void draft_end(struct draft *d); /* frees the nodes */
/* A new node with these ids (copied by nobody); NULL: *e. Valid until the next one is added. */
struct draft_node *draft_add(struct draft *d, const char *id, const char *parent, struct err *e);
/* Fills d->out: messages, leaf, key (from `format` and all that was read), title and times where
 * they are missing. */
bool draft_finish(struct draft *d, const char *format, struct err *e);

/* Helpers for formats. Times in Unix ms; 0: none, or not to be understood. */
int64_t draft_seconds(const cJSON *number);
int64_t draft_iso_time(const char *text); /* "2026-11-21T14:30:00.123456Z", "+02:00" */
/* The title, cut to what the store takes; ERR_INPUT when it is longer than any title can be. */
bool draft_title(struct draft *d, const char *title, struct err *e);
void draft_tag(struct draft *d,
               const char *tag); /* left out: a 33rd, empty, too long, control characters */
/* a, separator, b in the arena; either may be NULL or "". NULL: *e. */
const char *draft_join(struct draft *d, const char *a, const char *separator, const char *b,
                       struct err *e);
/* One call in OpenAI's form as a JSON array. arguments: JSON text of an object, or any text. */
const char *draft_call(struct draft *d, const char *id, const char *name, const char *arguments,
                       struct err *e);
/* "NAME:" and the text, fenced: a file whose text came along. */
const char *draft_file_text(struct draft *d, const char *name, const char *text, struct err *e);
bool draft_no_memory(struct err *e); /* false, with "more than can be held" */
