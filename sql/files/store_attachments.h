/* Files that users give along with messages. A row says what the file is and holds the text that
 * the model reads of it; the bytes lie in the folder attachments/ beside the database, under their
 * SHA-256: ab/ab34...; 0600. One file serves all rows with its content, and goes with the last of
 * them. Rules as in sql/core/store.h: another user's row is ERR_NOTFOUND.
 *
 * A row without its file cannot be: bytes are synced first, then get their name, then the row is
 * committed in a transaction that finds the file there, and a file goes only inside a transaction
 * that finds no row. Killed between the two, the file has no row, and the recorder's sweep finds
 * it. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/err.h"
#include "sql/core/digest.h"
#include "sql/core/store.h"

struct arena;

#define STORE_FILE_NAME_BYTES 255
#define STORE_ATTACHMENT_TEXT_BYTES ((size_t)4 << 20)
#define STORE_MESSAGE_ATTACHMENTS 20 /* of one message */
#define STORE_LOOSE_HOURS 24         /* what is in no message by then is deleted */

/* Bytes on their way in. A thread's own; a zeroed struct is none, and drop accepts it. */
struct store_upload {
    int fd; /* of the temporary file; readable too */
    bool open;
    char path[STORE_PATH_SIZE];
    struct digest digest;
    int64_t bytes;
};
bool store_upload_begin(struct store *s, struct store_upload *u, struct err *e);
bool store_upload_write(struct store_upload *u, const void *data, size_t len, struct err *e);
void store_upload_drop(struct store_upload *u);

struct store_attachment {
    int64_t id;
    int64_t user_id;    /* only for store_attachment_add */
    const char *sha256; /* lower case hexadecimal */
    const char *name;   /* valid UTF-8 without control characters, 1 to STORE_FILE_NAME_BYTES */
    const char *type;   /* media type, by content */
    int64_t bytes;
    int64_t tokens;        /* of its part of a prompt; -1: it has no text (an image) */
    const char *model;     /* that counted them; NULL: none */
    const char *note;      /* how it was read, in words; NULL: nothing to say */
    const char *text;      /* only for store_attachment_add; NULL: an image */
    int64_t storage_bytes; /* only for store_attachment_add: that the user may keep in all; 0: no
                              limit */
    int64_t created_at;
    bool sent; /* a message has it */
};
/* Takes the upload over (its file is gone from u, whatever happens). a->sha256, bytes, id,
 * created_at and sent are ignored. On the disk when it returns. ERR_LIMIT, field STORE_QUOTA_FIELD
 * (sql/users/store_limits.h). */
bool store_attachment_add(struct store *s, struct store_upload *u, const struct store_attachment *a,
                          int64_t *id, struct err *e);
bool store_attachment_get(struct store *s, struct arena *a, const struct store_ref *attachment,
                          struct store_attachment *out, struct err *e);
/* name and text (NULL: an image), valid in the callback. */
typedef bool (*store_attachment_text_fn)(void *context, const char *name,
                                         const char *text); /* false: enough */
bool store_attachment_text(struct store *s, const struct store_ref *attachment,
                           store_attachment_text_fn fn, void *context, struct err *e);
/* The same of all files of one message, in the order in which they were attached. */
bool store_attachment_texts(struct store *s, const struct store_ref *message,
                            store_attachment_text_fn fn, void *context, struct err *e);
/* ERR_CONFLICT: a message has it. */
bool store_attachment_remove(struct store *s, int64_t user_id, int64_t id, struct err *e);
/* The path under which the bytes of a content lie, or would lie. Open it at once: the file goes
 * with its last row. */
bool store_attachment_path(struct store *s, const char *sha256, char path[STORE_PATH_SIZE],
                           struct err *e);

/* The recorder's. clear: one short step over rows that belong to no message any more; *any: there
 * were some. sweep: files without a row in folder `folder` (0 to STORE_FILE_FOLDERS - 1), left
 * behind by processes that were killed. */
#define STORE_FILE_FOLDERS 257
bool store_attachment_clear(struct store *s, bool *any, struct err *e);
bool store_attachment_sweep(struct store *s, int folder, struct err *e);
