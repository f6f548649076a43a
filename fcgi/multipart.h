/* The file out of a stored multipart/form-data body (RFC 7578): its first part that has a filename. */
#pragma once
#include <stdbool.h>

#include "engine/base/err.h"

bool multipart_is(const char *content_type); /* NULL: no */
/* Copies the file from descriptor `body`, read from its beginning, to descriptor `file`. ERR_INPUT: there is none, or the
 * body is not what its media type says. Needs some 64 KB of stack. */
bool multipart_file(int body, const char *content_type, int file, struct err *e);
