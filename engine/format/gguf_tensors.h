/* From a GGUF file's tensor infos to the model's tensor table: types, sizes and ranges checked,
 * dimensions reversed (GGUF counts the fastest first). */
#pragma once
#include "engine/format/gguf.h"
#include "engine/format/tensors.h"

/* Tensors point into g's data. Types that are not read here become TENSOR_OTHER. */
bool gguf_add_tensors(const struct gguf *g, int32_t file, struct tensor_table *t, struct err *e);
