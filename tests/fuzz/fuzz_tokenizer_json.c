/* tokenizer.json of any form: refused, or compiled to an image that opens, encodes and decodes
 * within bounds. The first byte chooses between that and taking the input as a compiled image. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/hash.h"
#include "engine/tokenizer/detokenizer.h"
#include "engine/tokenizer/tokenizer.h"
#include "engine/tokenizer/vocab_image.h"
#include "engine/tokenizer/vocab_source.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void use(struct vocab *v, const char *text, size_t len)
{
    struct err e = {0};
    struct tokenizer *t = tokenizer_create(v, &e);
    struct ids ids = {0};
    struct buf out = {0};
    struct detokenizer d;
    struct text_span span = {len / 3, len / 2};
    if (!t && e.code == ERR_NONE)
        abort();
    if (t && tokenizer_encode(t,
                              &(struct tokenizer_input){.text = text,
                                                        .len = len,
                                                        .mode = TOKENIZE_SPECIAL,
                                                        .untrusted = &span,
                                                        .n_untrusted = 1},
                              &ids, &e)) {
        detokenizer_init(&d, v, true);
        for (size_t i = 0; i < ids.n; i++)
            if (ids.at[i] < 0 || ids.at[i] >= vocab_size(v) ||
                !detokenizer_push(&d, ids.at[i], &out))
                abort();
        detokenizer_flush(&d, &out);
    }
    ids_fini(&ids);
    buf_fini(&out);
    tokenizer_destroy(&t);
}

/* Past the checksum, which no fuzzer guesses, to the checks behind it. */
static void try_image(const uint8_t *data, size_t size)
{
    struct vocab v = {0};
    struct err e = {0};
    unsigned char *copy = malloc(size + 1);
    memcpy(copy, data, size);
    if (size >= sizeof(struct vocab_header)) {
        struct vocab_header *h = (struct vocab_header *)copy;
        memcpy(h->magic, VOCAB_MAGIC, sizeof h->magic);
        h->version = VOCAB_VERSION;
        h->header_size = sizeof *h;
        h->file_size = size;
        size_t from = offsetof(struct vocab_header, fingerprint);
        h->checksum = hash64(copy + from, size - from, VOCAB_VERSION);
    }
    if (vocab_bind(&v, copy, size, &e))
        use(&v, (const char *)data, size);
    else if (e.code == ERR_NONE)
        abort();
    free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct err e = {0};
    struct vocab_source s = {0};
    struct buf image = {0};
    if (size && data[0] == 0xFF) {
        try_image(data + 1, size - 1);
        return 0;
    }
    if (vocab_source_json(&s, (const char *)data, size, &e) && vocab_build(&s, &image, &e)) {
        struct vocab v = {0};
        if (!vocab_bind(&v, image.data, image.len, &e))
            abort(); /* what we build must open */
        use(&v, (const char *)data, size);
    } else if (e.code == ERR_NONE) {
        abort();
    }
    buf_fini(&image);
    vocab_source_fini(&s);
    return 0;
}
