/* Copies of the database, as store_backup makes them: looked into, and put back. Beside a copy, as
 * beside the database, lies the folder attachments/ (sql/files/store_attachments.h). No struct
 * store is needed; SQLite opens the file bare and read-only. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/err.h"
#include "sql/files/store_attachments.h"

/* Whole (quick_check, which reads all of it), Sluice's, and of a version that this program knows:
 * else ERR_FORMAT. */
bool store_copy_check(const char *path, struct err *e);

/* What its rows say is beside it: each content once, in the order of the hashes. Also of a database
 * that is in use. */
typedef bool (*store_copy_file_fn)(void *context, const char *sha256,
                                   int64_t bytes); /* false: enough */
bool store_copy_files(const char *path, store_copy_file_fn fn, void *context, struct err *e);
/* Where beside the database `path` the bytes of a content lie. */
bool store_copy_file_path(const char *path, const char *sha256, char out[STORE_PATH_SIZE],
                          struct err *e);

/* Puts the copy in place of the database `path`, which goes to `aside` with what its WAL holds;
 * path may be missing. The copy stays. ERR_CONFLICT: someone has the database open. Killed at any
 * moment, `path` is the old database, missing (then it is `aside`), or the restored one, never a
 * mixture. */
bool store_copy_restore(const char *copy, const char *path, const char *aside, struct err *e);
