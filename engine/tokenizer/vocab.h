/* The vocabulary: token ids, their bytes, merges and the pre-tokenizer's rules, compiled once from
 * tokenizer.json (or GGUF metadata) into one file that every process maps read-only.
 *
 * Called by the tokenizer, the detokenizer and (token bytes) the engine's sampler and the worker's
 * logprobs. Immutable after vocab_open; thread-safe. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/err.h"

struct vocab;

enum vocab_flag {
    VOCAB_ADDED = 1,   /* an added token: recognised as a whole in trusted text */
    VOCAB_SPECIAL = 2, /* control token: hidden from a client's text unless asked for */
    VOCAB_UNUSED = 4,  /* an id with no token (padding of the embedding) */
};

/* Compiles the tokenizer of `model` (a model folder, a tokenizer.json or a GGUF file) to `out`
 * (whole or not there). ERR_FORMAT names what is not understood. */
bool vocab_compile(const char *model, const char *out, struct err *e);
/* Maps a compiled file; its header (magic, version, sizes, checksum) is verified. */
struct vocab *vocab_open(const char *compiled, struct err *e);
/* Finds or makes the compiled file for `model` under cache_dir (keyed by the source's content) and
 * opens it. Safe when several processes do so at once. cache_dir NULL: compiled in memory. */
struct vocab *vocab_load(const char *model, const char *cache_dir, struct err *e);
void vocab_close(struct vocab **v);

int32_t vocab_size(const struct vocab *v); /* highest id + 1 */
/* The token's raw bytes (not NUL-terminated), NULL and 0 for an id out of range or unused. */
const char *vocab_bytes(const struct vocab *v, int32_t id, size_t *len);
unsigned vocab_flags(const struct vocab *v, int32_t id);
/* Exact look-up of a token by its bytes, added ones first; -1 when there is none. */
int32_t vocab_find(const struct vocab *v, const char *bytes, size_t len);
/* What is put around a text before a model reads it, where the vocabulary says so: [CLS] and [SEP],
 * or the end that an embedding is taken from. */
#define VOCAB_AROUND_MAX 4
struct vocab_around {
    int32_t before[VOCAB_AROUND_MAX], n_before;
    int32_t between[VOCAB_AROUND_MAX], n_between; /* of two texts that are read together */
    int32_t after[VOCAB_AROUND_MAX], n_after;
    int32_t second_type; /* 1: the second text is a segment of its own */
};
const struct vocab_around *vocab_around(const struct vocab *v);
/* Hash of everything that decides ids: part of cache fingerprints. */
uint64_t vocab_fingerprint(const struct vocab *v);
