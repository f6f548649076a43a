/* The state of one import, which import.c and zip_read.c share. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "fcgi/import/import.h"
#include "fcgi/import/split.h"

struct arena;

struct import_seen { /* a set of hashes; 0 is a free place, cap a power of two */
    uint64_t *table;
    size_t n, cap;
};

struct import_run {
    const struct import_params *params;
    struct import_report *report;
    struct arena *arena; /* of one conversation */
    int64_t total_bytes;
    int64_t bytes; /* of the file, so far */
    bool found;    /* something that is a list of conversations, even an empty one */
    /* Of a dry run, where nothing is written that could tell: keys so far, and contents of the
     * archive's files. */
    struct import_seen keys, files;
};

void import_see(struct import_seen *seen, const char *text);

/* Reads one stream of JSON. entry: its name in an archive; NULL: the file itself. False: the import
 * ends here. */
bool import_stream(struct import_run *x, split_read_fn read, void *context, const char *entry,
                   struct err *e);
/* The file is a ZIP archive: all its entries. */
bool import_archive(struct import_run *x, struct err *e);
void import_problem(struct import_run *x, const char *item, const struct err *why);
