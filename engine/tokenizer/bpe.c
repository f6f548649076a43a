/* Merging: the pair of lowest rank first, of equal ones the leftmost.
 *
 * Pieces of up to SMALL symbols, nearly all there are, are scanned in place; longer ones use a
 * linked list and a heap, so that a word of 100 000 letters takes n log n and not n squared. */
#include "engine/tokenizer/bpe.h"

#include <stdlib.h>
#include <string.h>

#include "engine/tokenizer/vocab_image.h"

enum { SMALL = 48 };

void bpe_fini(struct bpe *b)
{
    free(b->symbols);
    free(b->heap);
    free(b->cache);
    *b = (struct bpe){0};
}

/* Single bytes' ids; a byte without a token is left out, as `tokenizers` does. */
static size_t byte_symbols(const struct vocab *v, const unsigned char *p, size_t len, int32_t *ids)
{
    size_t n = 0;
    for (size_t i = 0; i < len; i++)
        if (v->byte_ids[p[i]] >= 0)
            ids[n++] = v->byte_ids[p[i]];
    return n;
}

static bool merge_small(const struct vocab *v, const unsigned char *p, size_t len, struct ids *out)
{
    int32_t ids[SMALL], rank[SMALL], into[SMALL];
    size_t n = byte_symbols(v, p, len, ids);
    for (size_t i = 0; i + 1 < n; i++) {
        const struct vocab_pair *pair = vocab_pair_find(v, ids[i], ids[i + 1]);
        rank[i] = pair ? pair->rank : INT32_MAX;
        into[i] = pair ? pair->id : -1;
    }
    while (n > 1) {
        size_t best = 0;
        for (size_t i = 1; i + 1 < n; i++)
            if (rank[i] < rank[best])
                best = i;
        if (rank[best] == INT32_MAX)
            break;
        ids[best] = into[best];
        n--;
        for (size_t i = best + 1; i < n; i++)
            ids[i] = ids[i + 1];
        for (size_t i = best + 1; i + 1 < n; i++) {
            rank[i] = rank[i + 1];
            into[i] = into[i + 1];
        }
        for (size_t i = best ? best - 1 : 0; i <= best && i + 1 < n; i++) {
            const struct vocab_pair *pair = vocab_pair_find(v, ids[i], ids[i + 1]);
            rank[i] = pair ? pair->rank : INT32_MAX;
            into[i] = pair ? pair->id : -1;
        }
    }
    for (size_t i = 0; i < n; i++)
        if (!ids_push(out, ids[i]))
            return false;
    return true;
}

static bool heap_push(struct bpe *b, uint64_t key)
{
    if (b->n_heap == b->cap_heap) {
        size_t cap = b->cap_heap ? b->cap_heap * 2 : 256;
        uint64_t *p = realloc(b->heap, cap * sizeof *p);
        if (!p)
            return false;
        b->heap = p;
        b->cap_heap = cap;
    }
    size_t i = b->n_heap++;
    for (size_t up; i > 0 && b->heap[up = (i - 1) / 2] > key; i = up)
        b->heap[i] = b->heap[up];
    b->heap[i] = key;
    return true;
}

static uint64_t heap_pop(struct bpe *b)
{
    uint64_t top = b->heap[0], last = b->heap[--b->n_heap];
    size_t i = 0;
    for (size_t down; (down = i * 2 + 1) < b->n_heap; i = down) {
        if (down + 1 < b->n_heap && b->heap[down + 1] < b->heap[down])
            down++;
        if (b->heap[down] >= last)
            break;
        b->heap[i] = b->heap[down];
    }
    b->heap[i] = last;
    return top;
}

/* Looks the pair at i and its successor up again, and queues it if they merge. */
static bool rank_pair(struct bpe *b, const struct vocab *v, int32_t i)
{
    struct bpe_symbol *s = &b->symbols[i];
    const struct vocab_pair *pair =
        s->next < 0 ? NULL : vocab_pair_find(v, s->id, b->symbols[s->next].id);
    s->rank = pair ? pair->rank : INT32_MAX;
    s->into = pair ? pair->id : -1;
    return !pair || heap_push(b, (uint64_t)(uint32_t)pair->rank << 32 | (uint32_t)i);
}

static bool symbols_init(struct bpe *b, const struct vocab *v, const unsigned char *p, size_t len)
{
    if (b->cap_symbols < len) {
        struct bpe_symbol *s = realloc(b->symbols, len * sizeof *s);
        if (!s)
            return false;
        b->symbols = s;
        b->cap_symbols = len;
    }
    int32_t n = 0;
    for (size_t i = 0; i < len; i++) {
        int32_t id = v->byte_ids[p[i]];
        if (id < 0)
            continue;
        b->symbols[n] = (struct bpe_symbol){.id = id, .prev = n - 1, .next = n + 1};
        n++;
    }
    b->n_heap = 0;
    if (n == 0) {
        b->symbols[0].id = -1;
        b->symbols[0].next = -1;
        return true;
    }
    b->symbols[n - 1].next = -1;
    for (int32_t i = 0; i < n; i++)
        if (!rank_pair(b, v, i))
            return false;
    return true;
}

static bool merge_large(struct bpe *b, const struct vocab *v, const unsigned char *p, size_t len,
                        struct ids *out)
{
    if (len > INT32_MAX || !symbols_init(b, v, p, len))
        return false;
    struct bpe_symbol *s = b->symbols;
    while (b->n_heap) {
        uint64_t top = heap_pop(b);
        int32_t i = (int32_t)(uint32_t)top, rank = (int32_t)(top >> 32);
        if (s[i].id < 0 || s[i].rank != rank)
            continue; /* an old entry: the pair has changed since */
        int32_t gone = s[i].next;
        s[i].id = s[i].into;
        s[i].next = s[gone].next;
        s[gone].id = -1;
        if (s[i].next >= 0)
            s[s[i].next].prev = i;
        if (!rank_pair(b, v, i) || (s[i].prev >= 0 && !rank_pair(b, v, s[i].prev)))
            return false;
    }
    for (int32_t i = 0; i >= 0; i = s[i].next)
        if (s[i].id >= 0 && !ids_push(out, s[i].id))
            return false;
    return true;
}

static bool merge(struct bpe *b, const struct vocab *v, const char *piece, size_t len,
                  struct ids *out)
{
    if (v->header->ignore_merges) {
        int32_t id = vocab_find_plain(v, piece, len);
        if (id >= 0)
            return ids_push(out, id);
    }
    const unsigned char *p = (const unsigned char *)piece;
    return len <= SMALL ? merge_small(v, p, len, out) : merge_large(b, v, p, len, out);
}

bool bpe_encode(struct bpe *b, const struct vocab *v, const char *piece, size_t len,
                struct ids *out)
{
    if (len == 1 && v->byte_ids[(unsigned char)piece[0]] >= 0)
        return ids_push(out, v->byte_ids[(unsigned char)piece[0]]);
    if (!b->cache)
        b->cache = calloc(BPE_CACHE_SIZE, sizeof *b->cache);
    if (len > sizeof b->cache->key || !b->cache)
        return merge(b, v, piece, len, out);
    uint64_t key[BPE_KEY_WORDS] = {0};
    memcpy(key, piece, len);
    uint64_t h = (key[0] * 0x9E3779B97F4A7C15u) ^ (key[1] * 0xC2B2AE3D27D4EB4Fu) ^
                 (key[2] * 0x165667B19E3779F9u) ^ len;
    h = (h ^ h >> 29) * 0xD6E8FEB86659FD93u;
    struct bpe_cached *c = &b->cache[h >> (64 - 13)];
    if (c->len == len && c->key[0] == key[0] && c->key[1] == key[1] && c->key[2] == key[2]) {
        for (int i = 0; i < c->n; i++)
            if (!ids_push(out, c->ids[i]))
                return false;
        return true;
    }
    size_t before = out->n;
    if (!merge(b, v, piece, len, out))
        return false;
    if (out->n > before && out->n - before <= BPE_CACHED_IDS) {
        memcpy(c->key, key, sizeof key);
        c->len = (uint8_t)len;
        c->n = (uint8_t)(out->n - before);
        memcpy(c->ids, out->at + before, c->n * sizeof c->ids[0]);
    }
    return true;
}
