/* Names of files that clients give: what is kept of them, and how they go back as a header.
 * Thread-safe. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#define FILE_NAME_SIZE 256

/* The last part of a path, without control characters, marks that turn the direction of writing,
 * line ends or ill-formed UTF-8, at most FILE_NAME_SIZE - 1 bytes of whole characters (the end,
 * with its extension, is kept). "file" if nothing is left. */
void file_name_clean(const char *given, size_t len, char out[FILE_NAME_SIZE]);
/* Content-Disposition by RFC 6266: kind is "inline" or "attachment"; name is a clean one. */
#define FILE_DISPOSITION_SIZE (64 + 4 * FILE_NAME_SIZE)
void file_name_disposition(const char *kind, const char *name, char out[FILE_DISPOSITION_SIZE]);
