/* Declares what the handlers of conversations share; they are split over api_conversations*.c.
 * Thread: the request's.
 *
 * An answer goes three ways at once: the engine makes it (a detached job), the recorder writes it
 * down, and a stream shows it to whoever looks. None of them waits for the stream. */
#pragma once
#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/buf.h"
#include "engine/base/err.h"
#include "engine/engine.h"
#include "fcgi/attachments/attachment.h"
#include "fcgi/inference/prompt.h"
#include "sql/chats/store_conversations.h"

struct buf;
struct request;
struct store_conversation;
struct store_message;
struct store_result;

#define CONVERSATION_TEXTS_MAX 1000 /* messages that come with their texts at once */

/* Route handlers of other files than the table's. */
bool conversation_list(struct request *r, struct err *e); /* GET /api/conversations */
bool conversation_post(struct request *r,
                       struct err *e); /* POST /api/conversations/{id}/messages */
bool conversation_stream(struct request *r, struct err *e); /* GET /api/messages/{id}/stream */
bool conversation_fork(struct request *r, struct err *e);   /* POST /api/conversations/{id}/fork */
bool conversation_truncate(struct request *r, struct err *e); /* DELETE /api/messages/{id} */
bool conversation_version(struct request *r, struct err *e);  /* POST /api/messages/{id}/versions */
bool conversation_bulk(struct request *r, struct err *e);     /* POST /api/conversations/bulk */
bool conversation_empty_trash(struct request *r, struct err *e); /* DELETE /api/trash */
bool conversation_tags(struct request *r, struct err *e);        /* GET /api/conversation-tags */
bool conversation_texts(struct request *r, struct err *e); /* GET /api/conversations/{id}/texts */
bool conversation_defaults(struct request *r, struct err *e);        /* GET /api/defaults */
bool conversation_change_defaults(struct request *r, struct err *e); /* PATCH /api/defaults */
bool conversation_title(struct request *r, struct err *e); /* POST /api/conversations/{id}/title */

/* Replies with the conversation, without its messages. */
bool conversation_send(struct request *r, int status, int64_t id, struct err *e);
/* Writes the members that every view of a conversation has; the object is left open. */
void conversation_json(struct buf *out, const struct store_conversation *c);
/* Adds the messages of a conversation: of the branch that is shown the last `texts` as they are, of
 * all others only where they stand. */
bool conversation_put_end(struct request *r, const struct store_conversation *c, int texts,
                          struct buf *out, struct err *e);
/* A message as the page sees it (docs/API-pages.md). */
void conversation_message_json(struct buf *out, const struct store_message *m);
/* The same for each row of a list: context is the struct buf, which holds the list from its "[" on.
 */
bool conversation_message_list_item(void *context, const struct store_message *m);
/* A boolean of a body that may be absent or null: then *out stays. */
bool conversation_read_which(const cJSON *body, const char *name, enum store_which *out,
                             struct err *e);
/* The member project_id of a body: absent leaves *out, null is STORE_NO_PROJECT. */
bool conversation_read_project(const cJSON *body, int64_t *out, struct err *e);
/* `stored` (JSON text) with the members of `change` put over it (null removes one), checked. Caller
 * owns the tree. */
cJSON *conversation_settings(struct request *r, const char *stored, const cJSON *change,
                             struct err *e);
/* The change of the settings by which the model `name` answers instead of the chat's own: what was
 * chosen of thinking for that one is left out where it is another. ERR_NOTFOUND, the field `model`.
 * Caller owns the tree. */
cJSON *conversation_for_model(struct request *r, const char *stored, const char *name,
                              struct err *e);
/* Names, types and ranges of a conversation's settings as a file brings them: all that does not
 * depend on the model that runs. The error's field is the member's name. */
bool conversation_settings_check(struct request *r, const cJSON *o, struct arena *a, struct err *e);
/* Which model the settings name: r->model. ERR_NOTFOUND, the field `model`: it is gone, or is not
 * for this user any more. */
bool conversation_model(struct request *r, const cJSON *settings, struct err *e);
/* The template's variables that these settings make. Caller owns the tree; NULL: *e. */
cJSON *conversation_kwargs(struct request *r, const cJSON *settings, struct err *e);
/* The program that holds the answer to the settings' JSON schema; nothing is appended where there
 * is none. prompt NULL: only to see whether it can be made. */
bool conversation_grammar(struct request *r, const cJSON *settings, const struct prompt *prompt,
                          struct buf *out, struct err *e);
/* Describes what is to be answered: the branch up to message `leaf` (0: nothing), then `content` or
 * the results of calls. */
struct conversation_ask {
    int64_t conversation_id, leaf;
    const char *content;                /* NULL: the leaf, or the results, are the question */
    const struct store_result *results; /* [n_results] of the leaf's calls */
    int n_results;
    struct attachment_list attachments; /* that go along with content */
    const cJSON *settings, *kwargs;
    const char *given;  /* of an answer that is resumed: its sources (fcgi/projects/project.h), "{}"
                           when it has none */
    int64_t project_id; /* without a conversation: of the one that would begin; 0: none */
    bool search;        /* no file of the project is given whole */
    struct buf *sources; /* set to those of the new answer, empty without a project; NULL: nobody
                            wants them */
};
/* The messages of it, the project's part among them, for a model that another server answers.
 * *whole: files of the project stand in them whole. Caller owns the list. NULL: *e. */
cJSON *conversation_messages(struct request *r, const struct conversation_ask *ask, bool *whole,
                             struct err *e);
/* A prompt of so many tokens leaves the model's context room for an answer. Where it does not and
 * has files of the project whole, it is made again with `search`. */
bool conversation_leaves_room(struct request *r, int64_t tokens);
/* Whatever its length. */
bool conversation_render(struct request *r, const struct conversation_ask *ask, struct prompt *out,
                         struct err *e);
/* The same; ERR_LIMIT: it leaves no room in the engine's context. */
bool conversation_prompt(struct request *r, const struct conversation_ask *ask, struct prompt *out,
                         struct err *e);
/* ERR_LIMIT: the prompt leaves no room in the engine's context. */
bool conversation_fits(struct request *r, const struct prompt *p, struct err *e);

/* An answer that is resumed: the model continues the text that it had written. Zeroed: empty;
 * conversation_resume_fini frees. */
struct conversation_resume {
    cJSON *parser;       /* of the row; NULL: it has none */
    const cJSON *kwargs; /* in it: those that its prompt was made with; NULL: not known */
    double reasoning_ms;
    struct buf text; /* what the model had written */
    struct ids ids;  /* the same as tokens */
};
/* ERR_CONFLICT: it runs, or has ended by itself; ERR_UNSUPPORTED: a grammar held it. */
bool conversation_can_resume(struct request *r, const struct store_message *m,
                             struct conversation_resume *a, struct err *e);
/* Appends to the prompt `p` what the model had written for the message above. */
bool conversation_resume(struct request *r, const struct store_message *m, struct prompt *p,
                         struct conversation_resume *a, struct err *e);
void conversation_resume_fini(struct conversation_resume *a);

struct conversation_results { /* of calls, in the body of the request */
    struct store_result at[STORE_RESULTS_MAX];
    int n;
};
struct conversation_place {
    int64_t conversation_id, message_id; /* message 0: before the first one */
};
/* The body's tool_results, [{tool_call_id, content}], checked against the calls of the message at
 * `place`: each of them once. */
bool conversation_read_results(struct request *r, const struct conversation_place *place,
                               const cJSON *list, struct conversation_results *out, struct err *e);

struct conversation_begun {
    int64_t user_message_id, message_id; /* user_message_id 0: none */
    const char *parser;                  /* of the answer's row as it was posted */
    const struct err *failed;            /* why there is no job */
};
/* Begins the stream, sends start, then what the job gives until its end, then the row as it was
 * written down. *job: attached to the answer's job, or NULL with `failed` set; it is closed. */
bool conversation_follow(struct request *r, const struct conversation_begun *b,
                         struct engine_job **job);
