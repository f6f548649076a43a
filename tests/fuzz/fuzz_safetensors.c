/* Any bytes as a safetensors file: refused or read, and then every byte of every tensor may be
 * touched. */
#include <stddef.h>
#include <stdint.h>

#include "engine/format/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static volatile uint8_t sink;
    struct arena *arena = arena_create(64u << 20);
    struct tensor_table t;
    struct err e = {0};
    tensor_table_init(&t, arena);
    if (safetensors_read(&(struct safetensors_source){.data = data, .size = size}, &t, &e))
        for (int32_t i = 0; i < t.n; i++)
            for (uint64_t k = 0; k < t.at[i].bytes; k++)
                sink ^= t.at[i].data[k];
    tensor_table_fini(&t);
    arena_destroy(&arena);
    return 0;
}
