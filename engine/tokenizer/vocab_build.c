/* Turns a vocab_source into the flat image: tokens spelled in the byte-level alphabet become raw
 * bytes, merges become pairs of ids, and the hash tables are laid out once for every process. */
#include "engine/tokenizer/vocab_source.h"

#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/arena.h"
#include "engine/base/hash.h"
#include "engine/base/utf8.h"
#include "engine/tokenizer/vocab_image.h"

void vocab_source_fini(struct vocab_source *s)
{
    free(s->tokens);
    free(s->scores);
    free(s->merges);
    free(s->added);
    arena_destroy(&s->strings);
    cJSON_Delete(s->tree);
    *s = (struct vocab_source){0};
}

struct builder {
    const struct vocab_source *source;
    size_t n_ids;
    int16_t byte_of[324]; /* code point of the byte-level alphabet to its byte, -1 */
    int32_t *spelled;     /* open addressing: spelled model token to id */
    uint32_t n_spelled;
    const struct vocab_added **added_of; /* by id, or NULL */
    struct vocab_image_added *added;     /* sorted by bytes */
    struct buf out;
    struct vocab_header header;
};

/* GPT-2's alphabet: printable Latin-1 stands for itself, the other bytes for U+0100 and up. */
static void alphabet_init(int16_t byte_of[324])
{
    memset(byte_of, -1, 324 * sizeof byte_of[0]);
    int next = 256;
    for (int b = 0; b < 256; b++) {
        bool self = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
        byte_of[self ? b : next++] = (int16_t)b;
    }
}

/* Raw bytes of a spelled token into out (which has len bytes); 0 when a character is not of the
 * alphabet. */
static size_t unspell(const struct builder *b, struct vocab_string s, unsigned char *out)
{
    const unsigned char *p = (const unsigned char *)s.at, *end = p + s.len;
    size_t n = 0;
    while (p < end) {
        uint32_t cp;
        p += utf8_next(p, &cp);
        if (cp >= 324 || b->byte_of[cp] < 0)
            return 0;
        out[n++] = (unsigned char)b->byte_of[cp];
    }
    return n;
}

static uint32_t string_hash(const char *a, size_t n, const char *c, size_t m)
{
    /* two parts, so that a merge's product is looked up without being joined */
    char small[512];
    if (n + m <= sizeof small) {
        memcpy(small, a, n);
        memcpy(small + n, c, m);
        return (uint32_t)(hash64(small, n + m, 0) >> 32);
    }
    uint64_t h = 0; /* over 512 bytes: by the ends alone is enough */
    for (size_t i = 0; i < 512; i++) {
        size_t at = i < 256 ? i : n + m - 512 + i;
        h = (h ^ (unsigned char)(at < n ? a[at] : c[at - n])) * 0x100000001B3u;
    }
    return (uint32_t)(h >> 32);
}

static int32_t spelled_find(const struct builder *b, struct vocab_string l, struct vocab_string r)
{
    uint32_t at = vocab_slot(string_hash(l.at, l.len, r.at, r.len), b->n_spelled);
    for (;;) {
        int32_t id = b->spelled[at];
        if (id < 0)
            return -1;
        struct vocab_string t = b->source->tokens[id];
        if (t.len == l.len + r.len && !memcmp(t.at, l.at, l.len) &&
            !memcmp(t.at + l.len, r.at, r.len))
            return id;
        at = at + 1 == b->n_spelled ? 0 : at + 1;
    }
}

static bool check_strings(const struct vocab_source *s, struct err *e)
{
    for (size_t i = 0; i < s->n_tokens; i++)
        if (s->tokens[i].at && utf8_valid((const unsigned char *)s->tokens[i].at,
                                          s->tokens[i].len) != s->tokens[i].len)
            return err_set(e, ERR_FORMAT, "token %zu is not UTF-8", i);
    for (size_t i = 0; i < s->n_added; i++) {
        const struct vocab_added *a = &s->added[i];
        if (a->id < 0 || a->id >= VOCAB_IDS_MAX)
            return err_set(e, ERR_FORMAT, "added token %zu has id %d", i, a->id);
        if (a->text.len == 0 ||
            utf8_valid((const unsigned char *)a->text.at, a->text.len) != a->text.len)
            return err_set(e, ERR_FORMAT, "added token %d is empty or not UTF-8", a->id);
    }
    return true;
}

static bool builder_init(struct builder *b, const struct vocab_source *s, struct err *e)
{
    *b = (struct builder){.source = s, .n_ids = s->n_tokens};
    alphabet_init(b->byte_of);
    if (!check_strings(s, e))
        return false;
    for (size_t i = 0; i < s->n_added; i++)
        if ((size_t)s->added[i].id >= b->n_ids)
            b->n_ids = (size_t)s->added[i].id + 1;
    if (b->n_ids == 0 || b->n_ids > VOCAB_IDS_MAX)
        return err_set(e, ERR_LIMIT, "%zu token ids, at most %d are read", b->n_ids, VOCAB_IDS_MAX);
    b->n_spelled = (uint32_t)(s->n_tokens * 2 + 16);
    b->spelled = malloc(b->n_spelled * sizeof *b->spelled);
    b->added_of = calloc(b->n_ids, sizeof *b->added_of);
    if (!b->spelled || !b->added_of)
        return err_set(e, ERR_NOMEM, "out of memory for %zu tokens", b->n_ids);
    memset(b->spelled, -1, b->n_spelled * sizeof *b->spelled);
    for (size_t i = 0; i < s->n_tokens; i++) {
        struct vocab_string t = s->tokens[i];
        if (!t.at)
            continue;
        uint32_t at = vocab_slot(string_hash(t.at, t.len, "", 0), b->n_spelled);
        while (b->spelled[at] >= 0)
            at = at + 1 == b->n_spelled ? 0 : at + 1;
        b->spelled[at] = (int32_t)i;
    }
    for (size_t i = 0; i < s->n_added; i++)
        b->added_of[s->added[i].id] = &s->added[i];
    return true;
}

static void builder_fini(struct builder *b)
{
    free(b->spelled);
    free(b->added_of);
    free(b->added);
    buf_fini(&b->out);
}

static void section_begin(struct builder *b, enum vocab_section s)
{
    while (b->out.len % VOCAB_ALIGN && buf_putc(&b->out, 0))
        ;
    b->header.sections[s].offset = b->out.len;
}

static void section_end(struct builder *b, enum vocab_section s)
{
    b->header.sections[s].size = b->out.len - b->header.sections[s].offset;
}

/* TEXT and, from the places gathered on the way, OFFSETS and FLAGS. */
static bool put_tokens(struct builder *b, uint32_t *offsets, uint8_t *flags, struct err *e)
{
    section_begin(b, VOCAB_TEXT);
    size_t start = b->out.len;
    for (size_t id = 0; id < b->n_ids; id++) {
        offsets[id] = (uint32_t)(b->out.len - start);
        struct vocab_string t =
            id < b->source->n_tokens ? b->source->tokens[id] : (struct vocab_string){0};
        const struct vocab_added *a = b->added_of[id];
        flags[id] = (uint8_t)((a ? VOCAB_ADDED : 0) | (t.at ? VOCAB_IN_MODEL : 0) |
                              (a && a->flags & VOCAB_ADDED_SPECIAL ? VOCAB_SPECIAL : 0));
        if (a) {
            buf_append(&b->out, a->text.at, a->text.len);
        } else if (!t.at) {
            flags[id] |= VOCAB_UNUSED;
        } else if (b->source->kind != VOCAB_BPE) {
            buf_append(&b->out, t.at, t.len);
        } else if (buf_reserve(&b->out, t.len)) {
            size_t n = unspell(b, t, (unsigned char *)b->out.data + b->out.len);
            if (n > 0) {
                b->out.len += n;
            } else { /* not of the alphabet: stands for its own text, never made by merging */
                flags[id] &= (uint8_t)~VOCAB_IN_MODEL;
                buf_append(&b->out, t.at, t.len);
            }
        }
        if (b->out.failed || b->out.len - start > UINT32_MAX / 2)
            return err_set(e, ERR_NOMEM, "out of memory for the tokens' text");
    }
    offsets[b->n_ids] = (uint32_t)(b->out.len - start);
    return true;
}

static uint32_t put_text(struct builder *b, struct vocab_string s)
{
    size_t at = b->out.len - b->header.sections[VOCAB_TEXT].offset;
    buf_append(&b->out, s.at, s.len);
    return (uint32_t)at;
}

struct added_sort {
    const struct vocab_added *a;
};

static int by_bytes(const void *x, const void *y)
{
    const struct vocab_added *a = ((const struct added_sort *)x)->a;
    const struct vocab_added *c = ((const struct added_sort *)y)->a;
    size_t n = a->text.len < c->text.len ? a->text.len : c->text.len;
    int d = memcmp(a->text.at, c->text.at, n);
    return d ? d : (a->text.len > c->text.len) - (a->text.len < c->text.len);
}

/* The rest of TEXT, then ADDED_LIST and SPLIT_LIST. */
static bool put_lists(struct builder *b, struct err *e)
{
    const struct vocab_source *s = b->source;
    struct vocab_image_split splits[VOCAB_SPLITS_MAX];
    struct added_sort *order = calloc(s->n_added + 1, sizeof *order);
    b->added = calloc(s->n_added + 1, sizeof *b->added);
    if (!order || !b->added) {
        free(order);
        return err_set(e, ERR_NOMEM, "out of memory for %zu added tokens", s->n_added);
    }
    for (size_t i = 0; i < s->n_added; i++)
        order[i].a = &s->added[i];
    qsort(order, s->n_added, sizeof *order, by_bytes);
    for (size_t i = 0; i < s->n_added; i++) {
        const struct vocab_added *a = order[i].a;
        b->added[i] = (struct vocab_image_added){put_text(b, a->text), (uint32_t)a->text.len, a->id,
                                                 a->flags};
    }
    free(order);
    for (size_t i = 0; i < s->n_splits; i++)
        splits[i] =
            (struct vocab_image_split){put_text(b, s->splits[i].pattern),
                                       (uint32_t)s->splits[i].pattern.len, s->splits[i].kind, 0};
    section_end(b, VOCAB_TEXT);
    section_begin(b, VOCAB_ADDED_LIST);
    buf_append(&b->out, b->added, s->n_added * sizeof *b->added);
    section_end(b, VOCAB_ADDED_LIST);
    section_begin(b, VOCAB_SPLIT_LIST);
    buf_append(&b->out, splits, s->n_splits * sizeof splits[0]);
    section_end(b, VOCAB_SPLIT_LIST);
    return true;
}

/* TOKEN_HASH holds added tokens first, so that vocab_find finds them first; then BYTE_IDS. */
static bool put_token_hash(struct builder *b, const uint32_t *offsets, const uint8_t *flags,
                           struct err *e)
{
    uint32_t n = (uint32_t)(b->n_ids * 2 + 16);
    int32_t *table = malloc(n * sizeof *table);
    if (!table)
        return err_set(e, ERR_NOMEM, "out of memory for the table of %zu tokens", b->n_ids);
    memset(table, -1, n * sizeof *table);
    int32_t bytes[256];
    memset(bytes, -1, sizeof bytes);
    const char *text = b->out.data + b->header.sections[VOCAB_TEXT].offset;
    for (int added = 1; added >= 0; added--)
        for (size_t id = 0; id < b->n_ids; id++) {
            size_t len = offsets[id + 1] - offsets[id];
            if (flags[id] & VOCAB_UNUSED || !(flags[id] & VOCAB_ADDED) != !added)
                continue;
            uint64_t h = hash64(text + offsets[id], len, 0);
            uint32_t at = vocab_slot((uint32_t)(h >> 32), n);
            while (table[at] >= 0)
                at = at + 1 == n ? 0 : at + 1;
            table[at] = (int32_t)id;
            if (len == 1 && flags[id] & VOCAB_IN_MODEL)
                bytes[(unsigned char)text[offsets[id]]] = (int32_t)id;
        }
    for (int c = 0; c < 0xF5; c++)
        if (b->source->kind == VOCAB_BPE && b->source->unknown_token && bytes[c] < 0 && c != 0xC0 &&
            c != 0xC1) {
            free(table);
            return err_set(e, ERR_UNSUPPORTED, "byte %02x has no token and would be unknown", c);
        }
    section_begin(b, VOCAB_TOKEN_HASH);
    buf_append(&b->out, table, n * sizeof *table);
    section_end(b, VOCAB_TOKEN_HASH);
    section_begin(b, VOCAB_BYTE_IDS);
    buf_append(&b->out, bytes, sizeof bytes);
    section_end(b, VOCAB_BYTE_IDS);
    free(table);
    return true;
}

static bool put_pairs(struct builder *b, const uint8_t *flags, struct err *e)
{
    const struct vocab_source *s = b->source;
    uint32_t n = (uint32_t)(s->n_merges + s->n_merges / 2 + 16);
    struct vocab_pair *table = malloc(n * sizeof *table);
    if (!table)
        return err_set(e, ERR_NOMEM, "out of memory for %zu merges", s->n_merges);
    memset(table, -1, n * sizeof *table);
    bool ok = true;
    for (size_t i = 0; i < s->n_merges && ok; i++) {
        const struct vocab_merge *m = &s->merges[i];
        struct vocab_string none = {"", 0};
        struct vocab_pair p = {spelled_find(b, m->left, none), spelled_find(b, m->right, none),
                               (int32_t)i, spelled_find(b, m->left, m->right)};
        if (p.left < 0 || p.right < 0 || p.id < 0) {
            ok = err_set(e, ERR_FORMAT, "merge %zu: %s is not a token", i,
                         p.left < 0    ? "its left part"
                         : p.right < 0 ? "its right part"
                                       : "its product");
            break;
        }
        if (flags[p.id] & VOCAB_SPECIAL)
            continue; /* plain text must never become a control token */
        uint32_t at = vocab_slot(vocab_pair_hash(p.left, p.right), n);
        while (table[at].left >= 0 && (table[at].left != p.left || table[at].right != p.right))
            at = at + 1 == n ? 0 : at + 1;
        table[at] = p; /* of two equal merges the last counts, as in `tokenizers` */
    }
    section_begin(b, VOCAB_PAIR_HASH);
    buf_append(&b->out, table, n * sizeof *table);
    section_end(b, VOCAB_PAIR_HASH);
    free(table);
    return ok;
}

/* Of a unigram model, and its map of characters. */
static void put_unigram(struct builder *b)
{
    const struct vocab_source *s = b->source;
    section_begin(b, VOCAB_SCORES);
    for (size_t id = 0; s->scores && id < b->n_ids; id++)
        buf_append(&b->out, id < s->n_tokens ? &s->scores[id] : &(double){0}, sizeof(double));
    section_end(b, VOCAB_SCORES);
    section_begin(b, VOCAB_CHARSMAP);
    buf_append(&b->out, s->charsmap.at, s->charsmap.len);
    section_end(b, VOCAB_CHARSMAP);
}

static void finish_header(struct builder *b)
{
    struct vocab_header *h = &b->header;
    memcpy(h->magic, VOCAB_MAGIC, sizeof h->magic);
    h->version = VOCAB_VERSION;
    h->header_size = sizeof *h;
    h->file_size = b->out.len;
    h->n_ids = (uint32_t)b->n_ids;
    h->n_merges = (uint32_t)b->source->n_merges;
    h->nfc = b->source->nfc;
    h->prefix_space = b->source->prefix_space;
    h->ignore_merges = b->source->ignore_merges;
    h->kind = b->source->kind;
    h->words = b->source->words;
    h->unknown_id = b->source->unknown_id;
    h->around = b->source->around;
    uint64_t flags = hash64(
        &h->n_ids, offsetof(struct vocab_header, sections) - offsetof(struct vocab_header, n_ids),
        VOCAB_VERSION);
    h->fingerprint = hash64(b->out.data + sizeof *h, b->out.len - sizeof *h, flags);
    memcpy(b->out.data, h, sizeof *h);
    size_t from = offsetof(struct vocab_header, fingerprint);
    h->checksum = hash64(b->out.data + from, b->out.len - from, VOCAB_VERSION);
    memcpy(b->out.data, h, sizeof *h);
}

bool vocab_build(const struct vocab_source *s, struct buf *out, struct err *e)
{
    struct builder b;
    uint32_t *offsets = NULL;
    uint8_t *flags = NULL;
    bool ok = builder_init(&b, s, e);
    if (!ok)
        goto out;
    offsets = calloc(b.n_ids + 1, sizeof *offsets);
    flags = calloc(b.n_ids, 1);
    ok = offsets && flags && buf_append(&b.out, &b.header, sizeof b.header);
    if (!ok) {
        err_set(e, ERR_NOMEM, "out of memory for %zu tokens", b.n_ids);
        goto out;
    }
    ok = put_tokens(&b, offsets, flags, e) && put_lists(&b, e) &&
         put_token_hash(&b, offsets, flags, e) && put_pairs(&b, flags, e);
    if (!ok)
        goto out;
    put_unigram(&b);
    section_begin(&b, VOCAB_OFFSETS);
    buf_append(&b.out, offsets, (b.n_ids + 1) * sizeof *offsets);
    section_end(&b, VOCAB_OFFSETS);
    section_begin(&b, VOCAB_FLAGS);
    buf_append(&b.out, flags, b.n_ids);
    section_end(&b, VOCAB_FLAGS);
    ok = !b.out.failed || err_set(e, ERR_NOMEM, "out of memory for the compiled vocabulary");
    if (ok) {
        finish_header(&b);
        *out = b.out;
        b.out = (struct buf){0};
    }
out:
    free(offsets);
    free(flags);
    builder_fini(&b);
    return ok;
}
