/* What the formats of export.h have in common: each is one file with one `const struct
 * export_format`. They append to w->out; the driver (export.c) sends it on and sees failures. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/buf.h"
#include "sql/chats/store_export.h"

/* The messages of one conversation without their texts, in the order of their ids. */
struct export_place {
    int64_t id;
    uint32_t parent;      /* number of the message (from 1), 0: a root */
    uint8_t role, status; /* enum store_role, store_status */
    bool shown;           /* on the branch that ends at the leaf */
};
struct export_tree {
    struct export_place *places;
    uint32_t n, room;
    uint32_t leaf;        /* number of the last message that is shown; 0: none */
    uint32_t last_answer; /* number of the last shown answer that is done; 0: none */
};
/* Fills a zeroed or used tree. ERR_FORMAT: a parent that is not there. */
bool export_tree_read(struct export_tree *t, struct store *s, int64_t user_id,
                      const struct store_export_conversation *c, struct err *e);
void export_tree_fini(struct export_tree *t);

struct export_format;
struct text_parts;

struct export_writer {
    struct buf out;
    const struct export_format *format; /* of the document that is open */
    int64_t exported_at;
    int64_t n_conversations; /* opened so far, with the one that is open */
    int64_t n_messages;      /* of the open one, written so far */
    int64_t n_files;         /* of an archive */
    bool comma;              /* the format's own: something stands before */
};

struct export_format {
    const char *name, *media, *suffix;
    bool shown_only; /* gets only the messages of the branch that is shown */
    bool archive;    /* a file per conversation, see archive.c; it has no functions */
    const struct text_parts *parts; /* of a format that is read as text (text_parts.h); else NULL */
    void (*begin)(struct export_writer *w);
    void (*open)(struct export_writer *w, const struct store_export_conversation *c,
                 const struct export_tree *t);
    /* number: of the message, from 1; its place is t->places[number - 1] */
    void (*message)(struct export_writer *w, const struct export_tree *t, uint32_t number,
                    const struct store_message *m);
    void (*close)(struct export_writer *w);
    void (*end)(struct export_writer *w);
};
extern const struct export_format export_json, export_jsonl, export_markdown, export_html,
    export_text, export_zip;

/* Shared by several formats */
#define EXPORT_TIME_SIZE 24
const char *export_time(int64_t ms, char out[EXPORT_TIME_SIZE]); /* "2026-11-21 14:30 UTC" */
const char *export_role(enum store_role r);                      /* "User" */
void export_line(struct buf *out,
                 const char *text); /* on one line: control characters become spaces */
/* "a.txt, b.png" of a message's attachments; nothing when it has none. out is empty before. */
void export_file_names(struct buf *out, const char *attachments);
/* The system prompt of a conversation's settings; NULL: none. The caller frees it. */
char *export_system(const char *settings);
