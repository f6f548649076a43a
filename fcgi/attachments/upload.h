/* One file in a request's body: the body itself, or the file of a multipart form. It goes to the
 * disk piece by piece. Thread: the request's. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "engine/base/err.h"
#include "fcgi/http/file_name.h"

struct request;
struct store_upload;

/* Fills *u (the caller's to drop) and the cleaned name: a form says it, else the query's `name`. At
 * most `limit` bytes: 413. */
bool upload_take(struct request *r, size_t limit, struct store_upload *u, char name[FILE_NAME_SIZE],
                 struct err *e);
