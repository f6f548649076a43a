/* Reads chat template, end tokens and context length from GGUF metadata. */
#include "engine/text/text_gguf.h"

#include <stdio.h>
#include <string.h>

#include "engine/format/gguf.h"
#include "engine/text/text_model.h"

static void add_eos(struct text_model *m, const struct gguf *g, const char *key)
{
    double id;
    if (!gguf_number(g, key, &id) || !(id >= 0 && id < vocab_size(m->vocab)) ||
        m->n_eos == (int)(sizeof m->eos / sizeof m->eos[0]))
        return;
    for (int i = 0; i < m->n_eos; i++)
        if (m->eos[i] == (int32_t)id)
            return;
    m->eos[m->n_eos++] = (int32_t)id;
}

/* The token's text in out, or NULL when the file names none. */
static const char *token(const struct text_model *m, const struct gguf *g, const char *key,
                         char *out, size_t size)
{
    double id;
    size_t n = 0;
    const char *bytes = gguf_number(g, key, &id) && id >= 0 && id < vocab_size(m->vocab)
                            ? vocab_bytes(m->vocab, (int32_t)id, &n)
                            : NULL;
    if (!bytes || n >= size)
        return NULL;
    memcpy(out, bytes, n);
    out[n] = 0;
    return out;
}

bool text_gguf_read(struct text_model *m, const char *path, struct err *e)
{
    struct gguf g;
    struct gguf_string source, arch;
    char key[160], bos[256], eos[256];
    double n_ctx;
    if (!gguf_open(&g, path, e))
        return false;
    add_eos(m, &g, "tokenizer.ggml.eos_token_id");
    add_eos(m, &g, "tokenizer.ggml.eot_token_id");
    add_eos(m, &g, "tokenizer.ggml.eom_token_id");
    if (gguf_get_string(&g, "general.architecture", &arch) && arch.len < 100) {
        snprintf(key, sizeof key, "%.*s.context_length", (int)arch.len, arch.at);
        if (gguf_number(&g, key, &n_ctx) && n_ctx >= 1 && n_ctx <= 1 << 30)
            m->n_ctx = (int32_t)n_ctx;
    }
    bool ok = true;
    if (gguf_get_string(&g, "tokenizer.chat_template", &source)) {
        m->chat_template = chat_template_compile(
            source.at, source.len, token(m, &g, "tokenizer.ggml.bos_token_id", bos, sizeof bos),
            token(m, &g, "tokenizer.ggml.eos_token_id", eos, sizeof eos), e);
        ok = m->chat_template || err_prefix(e, "chat template");
    }
    gguf_fini(&g);
    return ok;
}
