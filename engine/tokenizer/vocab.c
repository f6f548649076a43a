/* Opens, checks and caches compiled vocabularies; answers look-ups. */
#define LOG_MODULE "vocab"
#include "engine/tokenizer/vocab.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "engine/base/buf.h"
#include "engine/base/file.h"
#include "engine/base/hash.h"
#include "engine/base/log.h"
#include "engine/tokenizer/gguf_vocab.h"
#include "engine/tokenizer/vocab_image.h"
#include "engine/tokenizer/vocab_source.h"

/* The section's beginning, when it lies within the image and holds whole elements. */
static const void *section(const struct vocab *v, enum vocab_section s, size_t element, size_t *n)
{
    struct vocab_range r = v->header->sections[s];
    *n = 0;
    if (r.offset % VOCAB_ALIGN || r.offset > v->image_size || r.size > v->image_size - r.offset ||
        r.size % element || r.size / element > INT32_MAX)
        return NULL;
    *n = (size_t)r.size / element;
    return v->image + r.offset;
}

static bool bind_sections(struct vocab *v)
{
    size_t n_offsets, n_text, n_flags, n_bytes, n_hash, n_pairs, n_added, n_splits, n_scores;
    size_t n_ids = v->header->n_ids;
    v->offsets = section(v, VOCAB_OFFSETS, sizeof *v->offsets, &n_offsets);
    v->text = section(v, VOCAB_TEXT, 1, &n_text);
    v->flags = section(v, VOCAB_FLAGS, 1, &n_flags);
    v->byte_ids = section(v, VOCAB_BYTE_IDS, sizeof *v->byte_ids, &n_bytes);
    v->token_hash = section(v, VOCAB_TOKEN_HASH, sizeof *v->token_hash, &n_hash);
    v->pairs = section(v, VOCAB_PAIR_HASH, sizeof *v->pairs, &n_pairs);
    v->added = section(v, VOCAB_ADDED_LIST, sizeof *v->added, &n_added);
    v->splits = section(v, VOCAB_SPLIT_LIST, sizeof *v->splits, &n_splits);
    v->scores = section(v, VOCAB_SCORES, sizeof *v->scores, &n_scores);
    v->charsmap = section(v, VOCAB_CHARSMAP, 1, &v->n_charsmap);
    if (!v->offsets || !v->text || !v->flags || !v->byte_ids || !v->token_hash || !v->pairs ||
        !v->added || !v->splits || !v->scores || !v->charsmap)
        return false;
    if (n_ids == 0 || n_ids > VOCAB_IDS_MAX || n_offsets != n_ids + 1 || n_flags != n_ids ||
        n_bytes != 256 || n_splits > VOCAB_SPLITS_MAX ||
        n_scores != (v->header->kind == VOCAB_UNIGRAM ? n_ids : 0))
        return false;
    v->n_token_hash = (uint32_t)n_hash;
    v->n_pairs = (uint32_t)n_pairs;
    v->n_added = (uint32_t)n_added;
    v->n_splits = (uint32_t)n_splits;
    for (size_t i = 0; i < n_ids; i++)
        if (v->offsets[i] > v->offsets[i + 1])
            return false;
    if (v->offsets[n_ids] > n_text)
        return false;
    for (size_t i = 0; i < n_added; i++)
        if (v->added[i].offset > n_text || v->added[i].len > n_text - v->added[i].offset ||
            v->added[i].len == 0 || v->added[i].id < 0 || (size_t)v->added[i].id >= n_ids)
            return false;
    for (size_t i = 0; i < n_splits; i++)
        if (v->splits[i].offset > n_text || v->splits[i].len > n_text - v->splits[i].offset)
            return false;
    return true;
}

static bool check_around(const struct vocab *v)
{
    const struct vocab_around *a = &v->header->around;
    const struct {
        const int32_t *ids;
        int32_t n;
    } lists[] = {{a->before, a->n_before}, {a->between, a->n_between}, {a->after, a->n_after}};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        if (lists[i].n < 0 || lists[i].n > VOCAB_AROUND_MAX)
            return false;
        for (int32_t k = 0; k < lists[i].n; k++)
            if (lists[i].ids[k] < 0 || (uint32_t)lists[i].ids[k] >= v->header->n_ids)
                return false;
    }
    return v->header->kind < VOCAB_KIND__N &&
           (v->header->kind == VOCAB_BPE ||
            (v->header->unknown_id >= 0 && v->header->unknown_id < (int32_t)v->header->n_ids));
}

/* Every id in range, and an empty place in each table, without which a search would not end. */
static bool check_tables(const struct vocab *v)
{
    int32_t n_ids = (int32_t)v->header->n_ids;
    bool empty = false;
    for (int i = 0; i < 256; i++)
        if (v->byte_ids[i] < -1 || v->byte_ids[i] >= n_ids)
            return false;
    for (uint32_t i = 0; i < v->n_token_hash; i++) {
        empty |= v->token_hash[i] == -1;
        if (v->token_hash[i] < -1 || v->token_hash[i] >= n_ids)
            return false;
    }
    if (!empty)
        return false;
    empty = false;
    for (uint32_t i = 0; i < v->n_pairs; i++) {
        const struct vocab_pair *p = &v->pairs[i];
        empty |= p->left == -1;
        if (p->left < -1 || p->left >= n_ids || p->id >= n_ids ||
            (p->left >= 0 && (p->id < 0 || p->rank < 0)))
            return false;
    }
    return empty;
}

bool vocab_bind(struct vocab *v, const void *image, size_t size, struct err *e)
{
    v->image = image;
    v->image_size = size;
    v->header = image;
    const struct vocab_header *h = image;
    if (size < sizeof *h || memcmp(h->magic, VOCAB_MAGIC, sizeof h->magic))
        return err_set(e, ERR_FORMAT, "not a compiled vocabulary");
    if (h->version != VOCAB_VERSION || h->header_size != sizeof *h)
        return err_set(e, ERR_FORMAT, "compiled vocabulary of version %u, expected %d", h->version,
                       VOCAB_VERSION);
    if (h->file_size != size)
        return err_set(e, ERR_FORMAT, "compiled vocabulary has %zu bytes, its header says %llu",
                       size, (unsigned long long)h->file_size);
    size_t from = offsetof(struct vocab_header, fingerprint);
    if (h->checksum != hash64(v->image + from, size - from, VOCAB_VERSION))
        return err_set(e, ERR_FORMAT, "compiled vocabulary is damaged (checksum)");
    if (!bind_sections(v) || !check_around(v) || !check_tables(v))
        return err_set(e, ERR_FORMAT, "compiled vocabulary is damaged (tables)");
    return true;
}

struct vocab *vocab_open(const char *compiled, struct err *e)
{
    struct file_map m;
    if (!file_map(compiled, &m, e))
        return NULL;
    struct vocab *v = calloc(1, sizeof *v);
    if (!v) {
        err_set(e, ERR_NOMEM, "out of memory");
        file_unmap(&m);
        return NULL;
    }
    v->mapped = (void *)m.data;
    if (!vocab_bind(v, m.data, m.size, e)) {
        err_prefix(e, "%s", compiled);
        v->image_size = m.size;
        vocab_close(&v);
    }
    return v;
}

void vocab_close(struct vocab **v)
{
    if (!*v)
        return;
    if ((*v)->mapped)
        munmap((*v)->mapped, (*v)->image_size);
    free((*v)->owned);
    free(*v);
    *v = NULL;
}

/* The file that holds the model's tokenizer: `model` itself, tokenizer.json in the folder, or the
 * GGUF file there. */
static bool source_path(const char *model, char *out, size_t size, struct err *e)
{
    if (file_is_dir(model))
        return file_join(out, size, model, "tokenizer.json", e) &&
               (file_exists(out) || gguf_in_folder(model, out, size, NULL) ||
                file_join(out, size, model, "tokenizer.json", e));
    if (snprintf(out, size, "%s", model) >= (int)size)
        return err_set(e, ERR_LIMIT, "path too long");
    return true;
}

/* Source bytes to image. */
static bool compile(const char *path, const struct file_map *m, struct buf *image, struct err *e)
{
    if (gguf_is(m->data, m->size))
        return gguf_vocab_image(m, image, e) || err_prefix(e, "%s", path);
    struct vocab_source s = {0};
    bool ok = vocab_source_json(&s, (const char *)m->data, m->size, e) && vocab_build(&s, image, e);
    vocab_source_fini(&s);
    return ok || err_prefix(e, "%s", path);
}

bool vocab_compile(const char *model, const char *out, struct err *e)
{
    char path[4096];
    struct file_map m;
    struct buf image = {0};
    if (!source_path(model, path, sizeof path, e) || !file_map(path, &m, e))
        return false;
    bool ok =
        compile(path, &m, &image, e) && file_write_atomic(out, image.data, image.len, 0644, e);
    buf_fini(&image);
    file_unmap(&m);
    return ok;
}

static struct vocab *open_memory(struct buf *image, struct err *e)
{
    struct vocab *v = calloc(1, sizeof *v);
    if (!v) {
        err_set(e, ERR_NOMEM, "out of memory");
        return NULL;
    }
    v->owned = image->data;
    *image = (struct buf){.data = NULL};
    if (!vocab_bind(v, v->owned, (size_t)((struct vocab_header *)v->owned)->file_size, e))
        vocab_close(&v);
    return v;
}

/* How much of the source decides the image. */
static size_t key_bytes(const struct file_map *m)
{
    size_t head = gguf_is(m->data, m->size) ? gguf_vocab_head(m) : 0;
    return head ? head : m->size;
}

struct vocab *vocab_load(const char *model, const char *cache_dir, struct err *e)
{
    char path[4096], name[64], cached[4096];
    struct file_map m;
    struct buf image = {0};
    struct vocab *v = NULL;
    struct err quiet = {0};
    if (!source_path(model, path, sizeof path, e) || !file_map(path, &m, e))
        return NULL;
    cached[0] = 0;
    if (cache_dir) {
        snprintf(name, sizeof name, "vocab-%016llx.v%d",
                 (unsigned long long)hash64(m.data, key_bytes(&m), 0), VOCAB_VERSION);
        if (!file_join(cached, sizeof cached, cache_dir, name, e))
            goto out;
        /* missing or damaged: made anew below; two processes at once make the same bytes */
        if (file_exists(cached) && !(v = vocab_open(cached, &quiet)))
            log_warn("rebuilding: %s", quiet.text);
        if (v)
            goto out;
    }
    if (!compile(path, &m, &image, e))
        goto out;
    if (cached[0] && file_mkdirs(cache_dir, 0755, &quiet) &&
        file_write_atomic(cached, image.data, image.len, 0644, &quiet))
        v = vocab_open(cached, &quiet);
    if (cached[0] && !v)
        log_warn("not cached: %s", quiet.text);
    if (!v)
        v = open_memory(&image, e);
out:
    buf_fini(&image);
    file_unmap(&m);
    return v;
}

int32_t vocab_size(const struct vocab *v)
{
    return (int32_t)v->header->n_ids;
}

const char *vocab_bytes(const struct vocab *v, int32_t id, size_t *len)
{
    *len = 0;
    if (id < 0 || id >= vocab_size(v) || v->flags[id] & VOCAB_UNUSED)
        return NULL;
    *len = v->offsets[id + 1] - v->offsets[id];
    return v->text + v->offsets[id];
}

unsigned vocab_flags(const struct vocab *v, int32_t id)
{
    if (id < 0 || id >= vocab_size(v))
        return VOCAB_UNUSED;
    return v->flags[id] & (VOCAB_ADDED | VOCAB_SPECIAL | VOCAB_UNUSED);
}

/* First token with these bytes that has all bits of `with` and none of `without`. */
static int32_t find(const struct vocab *v, const char *bytes, size_t len, unsigned with,
                    unsigned without)
{
    uint32_t at = vocab_slot((uint32_t)(hash64(bytes, len, 0) >> 32), v->n_token_hash);
    for (;;) {
        int32_t id = v->token_hash[at];
        if (id < 0)
            return -1;
        if (v->offsets[id + 1] - v->offsets[id] == len && (v->flags[id] & with) == with &&
            !(v->flags[id] & without) && !memcmp(v->text + v->offsets[id], bytes, len))
            return id;
        at = at + 1 == v->n_token_hash ? 0 : at + 1;
    }
}

int32_t vocab_find(const struct vocab *v, const char *bytes, size_t len)
{
    return find(v, bytes, len, 0, 0);
}

int32_t vocab_find_plain(const struct vocab *v, const char *bytes, size_t len)
{
    return find(v, bytes, len, VOCAB_IN_MODEL, VOCAB_SPECIAL);
}

const struct vocab_around *vocab_around(const struct vocab *v)
{
    return &v->header->around;
}

uint64_t vocab_fingerprint(const struct vocab *v)
{
    return v->header->fingerprint;
}
