/* Attachments inside other statements' transactions, and their files. Inside sql/ only. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/err.h"

struct store;
struct store_ref;
struct store_upload;

/* These files belong to the message from now on, in this order. ERR_INPUT "attachments": not the
 * user's, or twice. */
bool attachments_bind(struct store *s, const struct store_ref *message, const int64_t *ids, int n,
                      struct err *e);
/* The message `fork_id` is a copy of `id`. */
bool attachments_fork(struct store *s, int64_t user_id, int64_t id, int64_t fork_id, struct err *e);

/* Before the write transaction, since it waits for the disk: gives the upload its content's name as
 * well, synced. sha256 as digest_end gave it. */
bool attachment_file_prepare(struct store *s, struct store_upload *u, const char *sha256,
                             struct err *e);
/* Inside it: the file is there, and stays until the end of the transaction. It was prepared, and is
 * moved there once more where somebody has deleted it since, as a file that no row names. */
bool attachment_file_place(struct store *s, struct store_upload *u, const char *sha256,
                           struct err *e);
/* Deletes the file unless a row names it. Opens its own transaction. */
bool attachment_file_release(struct store *s, const char *sha256, struct err *e);
