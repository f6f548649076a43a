/* Collects the intermediates that a backend shows (backend_params.dump) and writes them as one
 * safetensors file: chunks of one name are put one after the other, as if the prompt had been run
 * at once. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/err.h"

struct dump;
struct dump *dump_create(const char *dir, struct err *e);
void dump_destroy(struct dump **d);
/* Fits backend_params.dump; a lack of memory is kept for dump_write. */
void dump_take(void *context, const char *name, const void *data, int32_t rows, int32_t cols,
               bool is_int);
/* DIR/trace.safetensors. */
bool dump_write(struct dump *d, struct err *e);
