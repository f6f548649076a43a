/* Reader of one safetensors file: 8 bytes of header length, a JSON header, the data.
 * https://github.com/huggingface/safetensors#format
 *
 * Everything in the header is checked here: its size, types, shapes, that each range lies in the
 * file, has the size that its shape asks for, and overlaps no other. Thread-safe. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/err.h"
#include "engine/format/tensors.h"

#define SAFETENSORS_MAX_HEADER (100u << 20) /* the format's own limit */

/* Whether a tensor is to be added. */
typedef bool (*safetensors_want)(void *context, const char *name);

struct safetensors_source {
    const uint8_t *data; /* the whole file; must outlive the table, whose tensors point into it */
    size_t size;
    int32_t file;          /* what tensor.file becomes */
    safetensors_want want; /* NULL: all tensors are added */
    void *context;         /* of want */
};

/* Adds the tensors of the mapped bytes to t. Errors name the tensor; the caller prefixes the file's
 * name. */
bool safetensors_read(const struct safetensors_source *s, struct tensor_table *t, struct err *e);
