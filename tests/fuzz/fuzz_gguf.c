/* Any bytes as a GGUF file: refused or read; then all values are walked, the tensors checked, the
 * tokenizer taken. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "engine/format/gguf_tensors.h"
#include "engine/tokenizer/gguf_vocab.h"
#include "engine/tokenizer/vocab_source.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static volatile uint8_t sink;

static void walk_values(const struct gguf *g)
{
    for (uint64_t i = 0; i < g->n_values; i++) {
        const struct gguf_value *v = &g->values[i];
        const uint8_t *at = NULL;
        for (uint64_t k = 0; v->type == GGUF_ARRAY && k < v->n; k++) {
            if (v->element != GGUF_STRING) {
                sink ^= (uint8_t)(gguf_array_number(v, k) != 0);
                continue;
            }
            struct gguf_string s = gguf_next_string(v, &at);
            for (size_t c = 0; c < s.len; c++)
                sink ^= (uint8_t)s.at[c];
        }
    }
}

static void walk_tensors(const struct gguf *g)
{
    struct arena *arena = arena_create(64u << 20);
    struct tensor_table t;
    struct err e = {0};
    tensor_table_init(&t, arena);
    if (gguf_add_tensors(g, 0, &t, &e))
        for (int32_t i = 0; i < t.n; i++)
            for (uint64_t k = 0; k < t.at[i].bytes; k++)
                sink ^= t.at[i].data[k];
    tensor_table_fini(&t);
    arena_destroy(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gguf g;
    struct vocab_source s = {0};
    struct err e = {0};
    if (gguf_read(&g, data, size, &e)) {
        walk_values(&g);
        walk_tensors(&g);
        gguf_vocab_source(&g, &s, &e);
        vocab_source_fini(&s);
    }
    gguf_fini(&g);
    return 0;
}
