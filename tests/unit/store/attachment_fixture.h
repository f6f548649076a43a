/* Attachments of a fixture's users: added, read, posted and cleared as the service does it. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "sql/files/store_attachments.h"
#include "tests/unit/store/store_fixture.h"

/* A text file of `bytes`, which are its extracted text, too; returns its id. */
int64_t attachment_add(struct fixture *f, int64_t user, const char *name, const char *bytes);
struct store_attachment attachment_get(struct fixture *f, int64_t user, int64_t id);
/* Whether the bytes lie in the store's folder. */
bool attachment_has_file(struct fixture *f, const char *sha256);
/* Posts a message with these files and ends its answer; returns the message's id. */
int64_t attachment_post(struct fixture *f, int64_t conversation, const int64_t *ids, int n);
/* Clears until nothing is left to clear. */
void attachment_clear(struct fixture *f);
