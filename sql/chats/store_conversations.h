/* Conversations and their messages, as their owner sees them. Every function takes the user's id,
 * and the SQL itself compares it: a row of someone else is ERR_NOTFOUND. Rules as in
 * sql/core/store.h; the rows of a running answer are written through sql/chats/store_record.h by
 * the recorder alone. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/err.h"
#include "sql/core/store.h"

struct arena;
struct store;

#define STORE_TITLE_BYTES 512
#define STORE_SETTINGS_BYTES 65536
#define STORE_CONTENT_BYTES (4 << 20) /* of one message that is posted */
#define STORE_PAGE_MAX 200
#define STORE_TAG_BYTES 64
#define STORE_TAGS_MAX 32  /* of one conversation */
#define STORE_PAGE_TAGS 16 /* that one list asks for */
#define STORE_NO_PROJECT (-1)
#define STORE_TRASH_DAYS 30 /* then what is in the trash is deleted */

struct store_conversation {
    int64_t id, user_id;
    const char *title;    /* "" until it has one */
    const char *settings; /* JSON object */
    int64_t leaf_id;      /* last message of the branch that is shown; 0: none */
    int64_t created_at, updated_at;
    bool running; /* an answer is being written */
    bool pinned, archived;
    int64_t trashed_at; /* 0: not in the trash */
    int64_t fork_of;    /* the conversation whose messages it began with; 0: none, or deleted */
    const char *tags;   /* JSON array of texts */
    int64_t project_id; /* 0: in none */
    int64_t match_id; /* only of a search: the newest message with the text, or with a file that has
                         it; 0: it is in the title alone */
    const char
        *match_text;    /* that message's content, or the name or text of match_file; NULL: none */
    int64_t match_file; /* the attachment in which it was found; 0: in the message itself */
    const char *match_file_name;
    size_t match_at, match_bytes; /* where in it the text stands first, as it is written there */
};

enum store_role { ROLE_SYSTEM, ROLE_USER, ROLE_ASSISTANT, ROLE_TOOL, ROLE__N };
enum store_status {
    MESSAGE_DONE,
    MESSAGE_RUNNING,
    MESSAGE_STOPPED,
    MESSAGE_LENGTH,
    MESSAGE_ERROR,
    MESSAGE__N
};
const char *store_role_name(enum store_role r);     /* "user", ... */
const char *store_status_name(enum store_status s); /* "running", ... */
/* The reverse, of names out of the database. */
enum store_role store_role_of(const char *name);
enum store_status store_status_of(const char *name);

struct store_message {
    int64_t id, conversation_id;
    int64_t parent_id; /* 0: a root */
    enum store_role role;
    enum store_status status;
    const char *content, *reasoning;
    size_t content_len, reasoning_len; /* bytes, NUL characters among them */
    const char *tool_calls;            /* JSON array in OpenAI's shape, or NULL */
    const char *tool_call_id; /* of a tool's message: the call that it answers; else NULL */
    const char *runs; /* JSON array of an answer's calls that were run (tools/store_tool_runs.h) and
                         whose results are no messages yet; or NULL */
    const char *sources;      /* JSON object: what the answer was given of its project
                                 (fcgi/projects/project.h); NULL: it was in none */
    const char *error;        /* why, in words; NULL when nothing failed */
    const char *error_detail; /* the same as {"code", "params"}; NULL: the words are all there is */
    const char *model;        /* NULL for a user's message */
    const char *attachments;  /* JSON array of {id, name, type, bytes, sha256, tokens, model, note};
                                 "[]": none */
    const char *job_key;      /* the engine's detached job; NULL for a user's message */
    const char *parser;  /* JSON for fcgi/inference/stored_answer.h: how the model's text is to be
                            read; or NULL */
    const char *timings; /* JSON object, or NULL until done */
    bool has_usage;
    int64_t prompt_tokens, cached_tokens, completion_tokens;
    int64_t created_at, finished_at; /* finished_at 0: not yet */
};

struct store_conversation_new {
    int64_t user_id;
    const char *title, *settings; /* NULL: none; settings must be a JSON object */
    int64_t project_id; /* 0: in none; ERR_INPUT "project_id": the user has no such project */
};
bool store_conversation_add(struct store *s, const struct store_conversation_new *c, int64_t *id,
                            struct err *e);
bool store_conversation_get(struct store *s, struct arena *a, const struct store_ref *conversation,
                            struct store_conversation *out, struct err *e);

enum store_which { WHICH_ANY, WHICH_YES, WHICH_NO };
struct store_page {
    int64_t user_id;                   /* whose conversations */
    int limit;                         /* 1..STORE_PAGE_MAX */
    int64_t before_updated, before_id; /* the last row of the page before; both 0: the first page */
    int64_t after_updated,
        after_id; /* the first row of the page below: what comes right above it; not with `text` */
    const char *text; /* only those with it in the title or a finished message (letter case
                         ignored); NULL: all */
    bool *cut; /* set to whether a text of one or two letters was looked for in the newest messages
                  only; NULL: not asked */
    bool *indexing; /* set to whether a search misses texts that wait to be indexed; NULL: not asked
                     */
    const char *const *tags; /* [n_tags] that it must have, letter case ignored in any script */
    int n_tags;              /* at most STORE_PAGE_TAGS */
    enum store_which pinned, archived;
    bool trashed;     /* those in the trash; else those that are not */
    int64_t project;  /* only those of this one; STORE_NO_PROJECT: of none; 0: all */
    int64_t from, to; /* updated_at, from <= it < to; 0: without that bound */
};
/* Newest first by (updated_at, id): paging by key, so rows that come or go between pages shift
 * nothing. */
typedef bool (*store_conversation_fn)(void *context,
                                      const struct store_conversation *c); /* false: enough */
bool store_conversation_list(struct store *s, const struct store_page *page,
                             store_conversation_fn fn, void *context, struct err *e);

struct store_state {
    int64_t n_messages;
    const char *running; /* JSON array of the ids of answers that are being written */
};
/* Cheap: for polling. */
bool store_conversation_state(struct store *s, struct arena *a,
                              const struct store_ref *conversation, struct store_state *out,
                              struct err *e);
/* When any of the user's conversations was last written in; 0: there is none. */
bool store_conversation_newest(struct store *s, int64_t user_id, int64_t *updated_at,
                               struct err *e);
/* *own: the title is the user's own, not one that the program made. */
bool store_conversation_own_title(struct store *s, int64_t user_id, int64_t id, bool *own,
                                  struct err *e);
struct store_retitle {
    int64_t user_id, id;
    const char *old;   /* the title that is to be replaced */
    const char *title; /* one that the program made */
};
/* *changed: the conversation still had the old title, and not from its user. */
bool store_conversation_retitle(struct store *s, const struct store_retitle *r, bool *changed,
                                struct err *e);

struct store_conversation_change { /* NULL / 0: left as it is */
    const char *title, *settings;
    int64_t leaf_id; /* must be a message of this conversation: else ERR_INPUT */
    enum store_which pinned, archived, trashed; /* WHICH_ANY: left as it is */
    int64_t project_id; /* STORE_NO_PROJECT: in none; ERR_INPUT as in store_conversation_new */
    const char *tags;   /* JSON array of all its tags: texts of 1 to STORE_TAG_BYTES bytes, without
                         control characters */
};
bool store_conversation_change(struct store *s, int64_t user_id, int64_t id,
                               const struct store_conversation_change *c, struct err *e);
/* Gone for every function here at once; its rows are removed by the recorder in small steps, which
 * also cancels an answer that is still running. */
bool store_conversation_remove(struct store *s, int64_t user_id, int64_t id, struct err *e);

bool store_message_get(struct store *s, struct arena *a, const struct store_ref *message,
                       struct store_message *out, struct err *e);
/* Cheap: for polling. */
bool store_message_status(struct store *s, int64_t user_id, int64_t id, enum store_status *out,
                          struct err *e);
struct store_message_range {
    int64_t user_id, conversation_id;
    int64_t after; /* only ids above it */
    int limit;     /* 0: all */
};
/* In the order of their ids: parents come before children. */
typedef bool (*store_message_fn)(void *context, const struct store_message *m); /* false: enough */
bool store_message_list(struct store *s, const struct store_message_range *range,
                        store_message_fn fn, void *context, struct err *e);
struct store_branch {
    int64_t user_id, conversation_id;
    int64_t leaf_id; /* the last message */
    int limit;       /* only so many messages at the end of the branch; 0: all */
};
/* From the root, or the first message within the limit, down to the leaf. */
bool store_message_branch(struct store *s, const struct store_branch *branch, store_message_fn fn,
                          void *context, struct err *e);
/* Every message in order of the ids, with ids, role and status and without all else: cheap, however
 * long the texts are. */
bool store_message_places(struct store *s, const struct store_ref *conversation,
                          store_message_fn fn, void *context, struct err *e);
/* The answers of a conversation that are being written. */
bool store_message_running(struct store *s, const struct store_ref *conversation,
                           store_message_fn fn, void *context, struct err *e);

#define STORE_RESULTS_MAX 64
struct store_result {
    const char *tool_call_id, *content;
    const char *timings; /* JSON object of a call that was run here; NULL: somebody sent the text */
};
struct store_post {
    int64_t user_id, conversation_id;
    int64_t parent_id; /* content given: the message that it follows, 0 for a new root; must not be
                          running. else (another answer): the user's message to answer */
    const char *content; /* the user's text; NULL: only an answer to parent_id, or to the results */
    const struct store_result
        *results; /* [n_results] of the calls of parent_id, an answer: a tool's message each */
    int n_results;
    const int64_t
        *attachments;  /* of the user's message, in this order; no two equal, all the user's own */
    int n_attachments; /* at most STORE_MESSAGE_ATTACHMENTS */
    const char *title; /* given to a conversation that has none; NULL: none */
    const char *model, *job_key, *parser; /* of the answer; job_key is unique */
    const char *sources;                  /* of the answer, as in struct store_message */
    bool beside; /* the answer stands beside others to parent_id: a leaf under one of them stays */
    int64_t storage_bytes; /* that the user may keep in all, this with it (the answer comes on top);
                              0: no limit */
};
struct store_posted {
    int64_t user_message_id; /* or the last result's; 0: neither was there */
    int64_t message_id;      /* the answer: status running, empty */
};
/* One transaction: the user's message, the answer's row, the conversation's leaf and time. On the
 * disk when it returns. ERR_NOTFOUND: conversation; ERR_INPUT "parent_id": not in it, or of the
 * wrong role; ERR_CONFLICT: the parent is still running; ERR_LIMIT, field STORE_QUOTA_FIELD
 * (sql/users/store_limits.h). */
bool store_message_post(struct store *s, const struct store_post *p, struct store_posted *out,
                        struct err *e);
struct store_continue {
    int64_t user_id, conversation_id, message_id;
    const char *model, *job_key, *parser; /* as in store_post */
    const int32_t *tokens; /* [n_tokens] that stand for the text so far in the prompt */
    size_t n_tokens;
};
/* An answer that was stopped, cut or failed runs again, with its text. One transaction, on the disk
 * when it returns. ERR_CONFLICT: it has ended by itself, it runs, or something follows it. */
bool store_message_continue(struct store *s, const struct store_continue *c, struct err *e);
struct store_tokens {
    const int32_t *tokens; /* [n] that made the answer's text, in the arena; NULL: they are not
                              known (another program wrote the row, or a recorder died) */
    size_t n;
};
bool store_message_tokens(struct store *s, struct arena *a, const struct store_ref *message,
                          struct store_tokens *out, struct err *e);
struct store_failure {
    const char *text, *detail; /* as in struct store_message's error */
};
/* A running answer whose job never began ends as `error`; one that has ended is left alone. */
bool store_message_fail(struct store *s, int64_t user_id, int64_t id,
                        const struct store_failure *why, struct err *e);
