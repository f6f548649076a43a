/* Where audit_ship.h writes to. Nothing here waits for a reader. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/err.h"

struct audit_file {
    int fd;
    uint64_t dev, ino;
    int64_t size;
};
/* Opens or makes (0640) a regular file for appending. */
bool audit_file_open(struct audit_file *f, const char *path, struct err *e);
/* All of it, on the disk, or nothing. */
bool audit_file_append(struct audit_file *f, const char *data, size_t len, struct err *e);
/* Looks for the file with was's numbers, at path or beside it, and raises *id to that of the last
 * whole line after was->size; a piece of a line after that is cut off. A file that is gone says
 * nothing. */
bool audit_file_tail(const char *path, const struct audit_file *was, int64_t *id, struct err *e);
/* target "-" or "syslog". Sends the lines of text one by one; *id follows what was sent. */
bool audit_sink_send(const char *target, const char *text, int64_t *id, struct err *e);
