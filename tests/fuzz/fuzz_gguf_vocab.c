/* A tokenizer from any bytes that claim to be GGUF: refused, or a vocabulary that encodes and
 * decodes. */
#include <stddef.h>
#include <stdint.h>

#include "engine/tokenizer/gguf_vocab.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct file_map m = {.data = data, .size = size};
    struct buf image = {0};
    struct err e = {0};
    size_t head = gguf_vocab_head(&m);
    if (head > size)
        __builtin_trap();
    bool ok = gguf_vocab_image(&m, &image, &e);
    if (ok && !image.len)
        __builtin_trap();
    if (!ok && !e.code)
        __builtin_trap();
    buf_fini(&image);
    return 0;
}
