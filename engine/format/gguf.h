/* Reader of the GGUF container (v2, v3): metadata and tensor table of one file.
 * https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
 *
 * gguf_read walks the mapped bytes once and checks every length against the file before anything is
 * used, so that its results are safe to walk. Strings point into the file. Used by the model
 * (weights, hyper-parameters) and by the text side (tokenizer, chat template). Immutable once read;
 * thread-safe. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/err.h"
#include "engine/base/file.h"

#define GGUF_MAX_KEYS 65536
#define GGUF_MAX_TENSORS (1 << 20)
#define GGUF_MAX_DIMS 4

enum gguf_type {
    GGUF_U8,
    GGUF_I8,
    GGUF_U16,
    GGUF_I16,
    GGUF_U32,
    GGUF_I32,
    GGUF_F32,
    GGUF_BOOL,
    GGUF_STRING,
    GGUF_ARRAY,
    GGUF_U64,
    GGUF_I64,
    GGUF_F64,
    GGUF_TYPE__N
};

struct gguf_string { /* not NUL-terminated, in the file; any bytes */
    const char *at;
    size_t len;
};

struct gguf_value {
    struct gguf_string key;
    enum gguf_type type;
    enum gguf_type element; /* ARRAY: never itself ARRAY */
    uint64_t n;             /* ARRAY: its length; else 1 */
    const uint8_t *at;      /* the value, or the array's first element */
};

struct gguf_tensor {
    struct gguf_string name;
    int n_dims;
    int64_t dims[GGUF_MAX_DIMS]; /* fastest first, as in the file */
    uint32_t type;               /* ggml's number */
    uint64_t offset;             /* from the data part's start */
};

struct gguf {
    const uint8_t *data;
    size_t size;
    struct gguf_value *values;
    uint64_t n_values;
    struct gguf_tensor *tensors;
    uint64_t n_tensors;
    size_t data_start; /* of the tensors */
    uint64_t alignment;
    struct file_map map; /* gguf_open only */
};

/* True for data that begins with GGUF's magic number. */
bool gguf_is(const void *data, size_t size);
/* data must outlive g. The caller calls gguf_fini, also after a failure. */
bool gguf_read(struct gguf *g, const void *data, size_t size, struct err *e);
/* Maps the file and reads it; errors name it. */
bool gguf_open(struct gguf *g, const char *path, struct err *e);
void gguf_fini(struct gguf *g); /* accepts a zeroed struct; unmaps what gguf_open mapped */

/* NULL when absent. */
const struct gguf_value *gguf_find(const struct gguf *g, const char *key);
/* False when absent or of another type. Numbers of any width and booleans convert. */
bool gguf_number(const struct gguf *g, const char *key, double *out);
bool gguf_get_string(const struct gguf *g, const char *key, struct gguf_string *out);
/* Element i of an array of numbers or booleans; i < v->n. */
double gguf_array_number(const struct gguf_value *v, uint64_t i);
/* The next string of an array of them: *at is NULL before the first. The caller counts to v->n. */
struct gguf_string gguf_next_string(const struct gguf_value *v, const uint8_t **at);

/* gguf_files.c */
#define GGUF_SPLIT_TAIL "-00001-of-00001.gguf"
/* A split file's number, and how many there are; 0 for other names. */
int gguf_split_of(const char *name, int *number);
/* The GGUF file that a folder holds: the only one, or the first of the only split one. */
bool gguf_in_folder(const char *folder, char *out, size_t size, struct err *e);
