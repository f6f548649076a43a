/* One safetensors file by itself: for data beside models (token ids, logits, goldens), and for
 * writing models. Reading maps the file; writing streams, so that gigabytes need no memory. One
 * thread each. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "engine/base/arena.h"
#include "engine/base/err.h"
#include "engine/base/file.h"
#include "engine/format/tensors.h"

struct tensor_file {
    struct file_map map;
    struct arena *arena;
    struct tensor_table tensors;
};

bool tensor_file_open(struct tensor_file *f, const char *path, struct err *e);
void tensor_file_close(struct tensor_file *f); /* accepts a zeroed struct */
/* The tensor when it is there with this dtype ("F32", "I32", ...); else NULL and *e. */
const struct tensor *tensor_file_get(const struct tensor_file *f, const char *name,
                                     const char *dtype, struct err *e);

/* --- writing --- */

struct tensor_entry {
    const char *name;
    const char *dtype; /* "F32", "BF16", "U32", "U8", "I32" */
    int n_dims;
    int64_t dims[TENSOR_MAX_DIMS];
};

struct tensor_writer {
    FILE *out;
    char path[4096], part[4112]; /* the name while it is incomplete */
    uint64_t expected, written;  /* bytes of data */
};

uint64_t tensor_entry_bytes(const struct tensor_entry *t);
struct tensor_list {
    const struct tensor_entry *entries; /* [n]; the data follow in this order */
    size_t n;
    const char *about; /* member of __metadata__; NULL: none */
};
/* Writes the header. Data begin at a multiple of 64. */
bool tensor_writer_begin(struct tensor_writer *w, const char *path, const struct tensor_list *list,
                         struct err *e);

struct tensor_raw_header { /* of a file of another kind */
    const void *data;
    size_t len;
    uint64_t data_bytes; /* that follow it */
};
bool tensor_writer_begin_raw(struct tensor_writer *w, const char *path,
                             const struct tensor_raw_header *header, struct err *e);
bool tensor_writer_put(struct tensor_writer *w, const void *data, size_t len, struct err *e);
/* Gives the file its name, when all promised bytes were written. */
bool tensor_writer_end(struct tensor_writer *w, struct err *e);
/* Removes what was begun; accepts a zeroed or ended writer. */
void tensor_writer_abort(struct tensor_writer *w);
