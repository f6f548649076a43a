/* The prompt cache's segment files, read beside the engine that owns them: each row's record is
 * compared with its key, size and checksum, and records are looked for that no row names. One
 * thread. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/err.h"

struct store;

struct prompt_records {
    int64_t rows, whole, missing, damaged;
    int64_t unlisted, unlisted_bytes; /* records without a row */
    int64_t files, file_bytes;        /* bytes: what the files take on the disk */
};

/* Called for each row whose record is missing or damaged. */
typedef void (*prompt_records_fn)(void *context, uint32_t segment, uint64_t offset, bool damaged);

struct prompt_folder { /* of one model's records */
    const char *path;
    int64_t model_id; /* row of a model beside the first; 0: the first model's */
};

/* Both add to *out. Only the files, for which no database is needed; a folder that is not there has
 * none. */
bool prompt_records_files(const char *folder, struct prompt_records *out, struct err *e);
/* Reads everything. */
bool prompt_records_verify(struct store *s, const struct prompt_folder *folder,
                           struct prompt_records *out, prompt_records_fn fn, void *context,
                           struct err *e);
