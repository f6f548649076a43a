/* What the handlers of conversations share; they are split over api_conversations*.c. Thread: the request's.
 *
 * An answer goes three ways at once: the engine makes it (a detached job), the recorder writes it down, and a stream
 * shows it to whoever looks. None of them waits for the stream. */
#pragma once
#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/err.h"
#include "engine/engine.h"
#include "fcgi/prompt.h"

struct buf;
struct request;
struct store_conversation;

/* Route handlers of other files than the table's. */
bool conversation_list(struct request *r, struct err *e);   /* GET /api/conversations */
bool conversation_post(struct request *r, struct err *e);   /* POST /api/conversations/{id}/messages */
bool conversation_stream(struct request *r, struct err *e); /* GET /api/messages/{id}/stream */
bool conversation_fork(struct request *r, struct err *e);   /* POST /api/conversations/{id}/fork */
bool conversation_cut(struct request *r, struct err *e);    /* DELETE /api/messages/{id} */
bool conversation_defaults(struct request *r, struct err *e);        /* GET /api/defaults */
bool conversation_change_defaults(struct request *r, struct err *e); /* PATCH /api/defaults */

/* Replies with the conversation, without its messages. */
bool conversation_send(struct request *r, int status, int64_t id, struct err *e);
/* What every place says of a conversation; the object is left open. */
void conversation_json(struct buf *out, const struct store_conversation *c);
/* Ids are decimal strings. False: not one. */
bool conversation_read_id(const char *text, int64_t *id);
/* The {id} of the path; ERR_NOTFOUND when it can't be one. */
bool conversation_path_id(const struct request *r, int64_t *id, struct err *e);

/* `stored` (JSON text) with the members of `change` put over it (null removes one), checked. Caller owns the tree. */
cJSON *conversation_settings(struct request *r, const char *stored, const cJSON *change, struct err *e);
/* The prompt for an answer after message `leaf` (0: nothing before) and `content` (NULL: leaf is the question).
 * ERR_LIMIT: it leaves no room in the engine's context. */
bool conversation_prompt(struct request *r, int64_t conversation_id, int64_t leaf, const char *content,
                         const cJSON *settings, struct prompt *out, struct err *e);

/* Begins the stream, sends start, then what the job gives until its end, then the row as it was written down.
 * user_message_id 0: none. *job: attached to the answer's job, or NULL with *failed set; it is closed. */
bool conversation_follow(struct request *r, int64_t user_message_id, int64_t message_id, struct engine_job **job,
                         const struct err *failed);
