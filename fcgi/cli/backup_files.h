/* The attachments of a backup, and which backups a folder keeps.
 *
 *   FOLDER/sluice-20261121-143000.db   one per backup, UTC
 *   FOLDER/attachments/ab/ab34...      the bytes that any of them names, once each
 *
 * A content never changes, so a file that is there with the right length is not copied again. Every
 * copy is compared with its SHA-256 before it gets its name. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/err.h"

struct backup_files {
    int64_t named, copied,
        bytes;       /* contents that the copy names; of these copied now, and their bytes */
    int64_t missing; /* named, but not there */
};
/* For what the database `named_by` names: from beside `source` to beside `target` (both databases'
 * paths). */
bool backup_files_copy(const char *named_by, const char *source, const char *target,
                       struct backup_files *out, struct err *e);

#define BACKUP_NAME_SIZE 40
/* "sluice-20261121-143000.db" */
void backup_name(int64_t now_ms, char out[BACKUP_NAME_SIZE]);
/* The newest backup of a folder into out (a path); ERR_NOTFOUND: there is none. */
bool backup_newest(const char *folder, char *out, unsigned long size, struct err *e);
/* Keeps the `keep` newest, and of the attachments those that the kept ones name. *removed: backups.
 */
bool backup_rotate(const char *folder, int64_t keep, int *removed, struct err *e);
