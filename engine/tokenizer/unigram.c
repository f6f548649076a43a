/* Maps a text's characters, divides it into words and finds each word's best pieces. */
#include "engine/tokenizer/unigram.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "engine/base/utf8.h"
#include "engine/tokenizer/vocab_image.h"

#define UNKNOWN_PENALTY 10.0 /* below the worst piece */
#define SMALL_CLUSTER 6 /* bytes: shorter clusters are mapped as a whole if the table has them */
#define MOST_GROWTH                                                                                \
    16 /* times; the longest compatibility form, of U+FDFA, has 11 times its bytes */

static const char low_line[] = "\xe2\x96\x81";

void unigram_fini(struct unigram *u)
{
    buf_fini(&u->mapped);
    buf_fini(&u->word);
    free(u->nodes);
    free(u->path);
    *u = (struct unigram){0};
}

void unigram_model_init(struct unigram_model *m, const struct vocab *v)
{
    double worst = INFINITY;
    *m = (struct unigram_model){0};
    for (int32_t id = 0; id < vocab_size(v); id++) {
        const size_t len = v->offsets[id + 1] - v->offsets[id];
        if (!(v->flags[id] & VOCAB_IN_MODEL))
            continue;
        m->longest = len > m->longest ? len : m->longest;
        worst = v->scores[id] < worst ? v->scores[id] : worst;
    }
    m->unknown = worst - UNKNOWN_PENALTY;
}

/* --- the precompiled map: a double-array trie (darts-clone) whose values are places in a list of
 * NUL-terminated texts; all of it from the model's file, so every step is checked --- */

struct charsmap {
    const unsigned char *units; /* of four bytes, little-endian */
    uint32_t n_units;
    const char *texts;
    size_t n_texts;
};

static struct charsmap charsmap_of(const struct vocab *v)
{
    struct charsmap m = {0};
    uint32_t bytes;
    if (v->n_charsmap < 4)
        return m;
    memcpy(&bytes, v->charsmap, 4);
    if (bytes > v->n_charsmap - 4)
        return m;
    m.units = v->charsmap + 4;
    m.n_units = bytes / 4;
    m.texts = (const char *)v->charsmap + 4 + bytes;
    m.n_texts = v->n_charsmap - 4 - bytes;
    return m;
}

static uint32_t unit_at(const struct charsmap *m, uint32_t at)
{
    uint32_t u = 0;
    if (at < m->n_units)
        memcpy(&u, m->units + (size_t)at * 4, 4);
    return u;
}

static uint32_t unit_offset(uint32_t unit)
{
    return (unit >> 10) << ((unit & (1u << 9)) >> 6);
}

/* What stands there, if it is a whole text that may replace so many bytes. */
static const char *charsmap_text(const struct charsmap *m, uint32_t place, size_t replaced)
{
    const size_t left = place < m->n_texts ? m->n_texts - place : 0, most = replaced * MOST_GROWTH;
    const char *text = m->texts + (left ? place : 0);
    const char *end = left ? memchr(text, 0, left < most + 1 ? left : most + 1) : NULL;
    const size_t len = end ? (size_t)(end - text) : 0;
    return end && utf8_valid((const unsigned char *)text, len) == len ? text : NULL;
}

/* The text that replaces the bytes from the first prefix on that the table has; NULL: none. What
 * follows takes texts for well-formed, so one that isn't is none. */
static const char *charsmap_find(const struct charsmap *m, const char *text, size_t len)
{
    uint32_t at = 0, unit = unit_at(m, 0);
    at ^= unit_offset(unit);
    for (size_t i = 0; i < len && m->n_units; i++) {
        const unsigned char c = (unsigned char)text[i];
        if (!c)
            return NULL;
        at ^= c;
        unit = unit_at(m, at);
        if ((unit & ((1u << 31) | 0xFFu)) != c)
            return NULL;
        at ^= unit_offset(unit);
        if (unit >> 8 & 1)
            return charsmap_text(m, unit_at(m, at) & ((1u << 31) - 1), i + 1);
    }
    return NULL;
}

/* Character by character, where no cluster was replaced as a whole. */
static bool map_chars(struct buf *out, const struct charsmap *m, const char *text, size_t len)
{
    for (size_t at = 0; at < len;) {
        uint32_t c;
        const size_t n = utf8_next((const unsigned char *)text + at, &c);
        const char *to = charsmap_find(m, text + at, n);
        if (!(to ? buf_puts(out, to) : buf_append(out, text + at, n)))
            return false;
        at += n;
    }
    return true;
}

static bool map_text(struct unigram *u, const struct vocab *v, const char *text, size_t len)
{
    const struct charsmap m = charsmap_of(v);
    bool ok = true;
    buf_clear(&u->mapped);
    for (size_t at = 0; at < len && ok;) {
        uint32_t before, c;
        utf8proc_int32_t state = 0;
        size_t end = at + utf8_next((const unsigned char *)text + at, &before);
        while (end < len) {
            const size_t n = utf8_next((const unsigned char *)text + end, &c);
            if (utf8proc_grapheme_break_stateful((utf8proc_int32_t)before, (utf8proc_int32_t)c,
                                                 &state))
                break;
            before = c;
            end += n;
        }
        const char *to = end - at < SMALL_CLUSTER ? charsmap_find(&m, text + at, end - at) : NULL;
        ok = to ? buf_puts(&u->mapped, to) : map_chars(&u->mapped, &m, text + at, end - at);
        at = end;
    }
    return ok;
}

/* --- the best path --- */

static bool reserve(struct unigram *u, size_t n)
{
    if (n <= u->cap_nodes)
        return true;
    const size_t cap = n * 2;
    struct unigram_node *nodes = realloc(u->nodes, cap * sizeof *nodes);
    if (nodes)
        u->nodes = nodes;
    int32_t *path = realloc(u->path, cap * sizeof *path);
    if (path)
        u->path = path;
    if (nodes && path)
        u->cap_nodes = u->cap_path = cap;
    return nodes && path;
}

static void offer(struct unigram_node *to, double score, int32_t id, int32_t start)
{
    if (to->start < 0 || score > to->score)
        *to = (struct unigram_node){score, id, start};
}

/* Pieces that begin at `at`. */
static void extend(struct unigram *u, const struct unigram_model *m, const struct vocab *v,
                   size_t at)
{
    const char *text = u->word.data;
    const size_t left = u->word.len - at, most = left < m->longest ? left : m->longest;
    uint32_t c;
    const size_t first = utf8_next((const unsigned char *)text + at, &c);
    const double score = u->nodes[at].score;
    bool single = false;
    for (size_t n = first; n <= most;) {
        const int32_t id = vocab_find_plain(v, text + at, n);
        if (id >= 0)
            offer(&u->nodes[at + n], score + v->scores[id], id, (int32_t)at);
        single = single || (id >= 0 && n == first);
        if (n == left)
            break;
        n += utf8_next((const unsigned char *)text + at + n, &c);
    }
    if (!single)
        offer(&u->nodes[at + first], score + m->unknown, (int32_t)v->header->unknown_id,
              (int32_t)at);
}

static bool encode_word(struct unigram *u, const struct unigram_model *m, const struct vocab *v,
                        struct ids *out)
{
    const size_t len = u->word.len;
    size_t n = 0;
    if (!reserve(u, len + 1))
        return false;
    for (size_t i = 0; i <= len; i++)
        u->nodes[i] = (struct unigram_node){0, -1, i ? -1 : 0};
    for (size_t at = 0; at < len; at++)
        if (u->nodes[at].start >= 0)
            extend(u, m, v, at);
    for (size_t at = len; at; at = (size_t)u->nodes[at].start)
        u->path[n++] = u->nodes[at].id;
    bool was_unknown = false; /* several in a row are one */
    while (n--) {
        const bool unknown = u->path[n] == (int32_t)v->header->unknown_id;
        if (!(unknown && was_unknown) && !ids_push(out, u->path[n]))
            return false;
        was_unknown = unknown;
    }
    return true;
}

bool unigram_encode(struct unigram *u, const struct unigram_model *m,
                    const struct unigram_input *in, struct ids *out)
{
    const struct vocab *v = in->vocab;
    if (!map_text(u, v, in->text, in->len))
        return false;
    const char *text = u->mapped.data;
    const size_t len = u->mapped.len;
    buf_clear(&u->word);
    for (size_t at = 0; at < len;) {
        uint32_t c;
        const size_t n = utf8_next((const unsigned char *)text + at, &c);
        const bool space =
            v->header->words & VOCAB_WORDS_END ? c == ' ' : unicode_class(c) == UNICODE_SPACE;
        if (space && u->word.len && !encode_word(u, m, v, out))
            return false;
        if (space)
            buf_clear(&u->word);
        else if ((!u->word.len && c != 0x2581 && !buf_puts(&u->word, low_line)) ||
                 !buf_append(&u->word, text + at, n))
            return false;
        at += n;
    }
    if (!u->word.len && len && v->header->words & VOCAB_WORDS_END && !buf_puts(&u->word, low_line))
        return false;
    return !u->word.len || encode_word(u, m, v, out);
}
