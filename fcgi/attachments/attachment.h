/* Attached files between the request and the store: an upload becomes a row, rows become part of a
 * prompt.
 *
 * What the user wrote stays as it was typed; the prompt shows the files before it, each with its
 * name and its text between fences that are longer than any in it. It is made from the rows alone,
 * so it is the same bytes in every turn and the prompt cache keeps matching. Thread: the
 * request's. */
#pragma once
#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/buf.h"
#include "engine/base/err.h"

struct request;
struct store;
struct store_attachment;
struct store_upload;
struct text_model;

#define ATTACHMENT_PROMPT_BYTES ((size_t)8 << 20) /* text of all files of one message */

/* A text under a line of its own, between fences that are longer than any in it. */
bool attachment_block(struct buf *out, const char *head, const char *text);
/* A file as the prompt shows it. */
bool attachment_frame(struct buf *out, const char *name, const char *text);

struct attachment_source {
    struct store *store;
    int64_t user_id;
    const char *name;              /* a clean one */
    const struct text_model *text; /* NULL: its tokens stay uncounted */
    const char *model_id;
    int client;            /* its connection, for file_reading_run; -1: none */
    int64_t storage_bytes; /* that the user may keep in all; 0: no limit */
    bool without_landlock; /* file_reading.h */
};
/* Reads and keeps what was uploaded (taken over, whatever happens). r NULL: of an import; what is
 * wrong with this file alone is then ERR_INPUT or ERR_UNSUPPORTED, and has no HTTP status of its
 * own. */
bool attachment_take(struct request *r, const struct attachment_source *from,
                     struct store_upload *u, int64_t *id, struct err *e);

/* Its bytes as they were uploaded: a picture to be shown, anything else as a download that can't
 * run here. */
bool attachment_send(struct request *r, const struct store_attachment *a, struct err *e);

/* The member `attachments` of a body: ids of own files, in order. *n 0: none. */
bool attachments_read(struct request *r, const cJSON *body, int64_t *ids, int *n, struct err *e);
struct attachment_list {
    const int64_t *ids; /* [n] */
    int n;
};
/* Puts the files before `content`. ERR_UNSUPPORTED: one is an image, and the model sees none.
 * Nothing is appended when there are no files with a text. */
bool attachments_prompt(struct request *r, const struct attachment_list *files, const char *content,
                        struct buf *out, struct err *e);
/* The same for a message that is in the database already. */
bool attachments_prompt_of(struct request *r, int64_t message_id, const char *content,
                           struct buf *out, struct err *e);

#define ATTACHMENT_PICTURE_BYTES (16 << 20) /* of one message; and of those before it together */
/* Pictures are shown by the page, and to models that see; nothing else that a user uploaded is ever
 * more than a download. */
bool attachment_is_picture(const char *type);
/* The request's model takes pictures: they are parts of messages then. */
bool attachments_are_seen(const struct request *r);
/* Appends the pictures among the files, as parts of a message in OpenAI's form: none where the
 * model sees none. ERR_LIMIT, ERR_UNSUPPORTED (a type that nobody takes): field "attachments". */
bool attachments_pictures(struct request *r, const struct attachment_list *files, cJSON *parts,
                          struct err *e);
/* The same of a message that is in the database: rows as store_message.attachments has them. What
 * exceeds *room bytes, of which the shown ones are taken off, is named instead. */
bool attachments_pictures_of(struct request *r, const cJSON *rows, int64_t *room, cJSON *parts,
                             struct err *e);
