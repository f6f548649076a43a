/* See wordpiece.h. Rules of Hugging Face `tokenizers` in the order in which they apply: characters
 * are dropped or become spaces, Chinese ones become words of their own, accents go, letters become
 * small; then words end at white space and at punctuation, which is a word of its own. */
#include "engine/tokenizer/wordpiece.h"

#include <string.h>
#include <utf8proc.h>

#include "engine/base/utf8.h"
#include "engine/tokenizer/vocab_image.h"

#define LONGEST_WORD 100 /* characters: a longer one is unknown as a whole */
#define MOST_PARTS 32    /* code points that one decomposes into, and more */

void wordpiece_fini(struct wordpiece *w)
{
    buf_fini(&w->word);
}

static bool is_space(uint32_t c)
{
    return unicode_class(c) == UNICODE_SPACE;
}

/* Code points that nobody assigned are kept, as there. */
static bool is_dropped(uint32_t c)
{
    if (c == 0 || c == 0xFFFD)
        return true;
    if (c == '\t' || c == '\n' || c == '\r')
        return false;
    const utf8proc_category_t k = utf8proc_category((utf8proc_int32_t)c);
    return k == UTF8PROC_CATEGORY_CC || k == UTF8PROC_CATEGORY_CF || k == UTF8PROC_CATEGORY_CO;
}

static bool is_chinese(uint32_t c)
{
    return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) ||
           (c >= 0x20000 && c <= 0x2A6DF) || (c >= 0x2A700 && c <= 0x2B73F) ||
           (c >= 0x2B740 && c <= 0x2B81F) || (c >= 0x2B920 && c <= 0x2CEAF) ||
           (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x2F800 && c <= 0x2FA1F);
}

/* `tokenizers` has the tables of an older Unicode here: it takes the marks of scripts that came
 * after 2015 for letters. */
static bool is_punctuation(uint32_t c)
{
    if (c < 0x80)
        return (c >= 33 && c <= 47) || (c >= 58 && c <= 64) || (c >= 91 && c <= 96) ||
               (c >= 123 && c <= 126);
    return unicode_class(c) == UNICODE_P;
}

struct run { /* of one call */
    struct wordpiece *w;
    const struct vocab *v;
    struct ids *out;
    size_t n_chars; /* of the word so far */
    bool ok;
};

/* The longest piece at `at`, or -1; *end is behind it. */
static int32_t longest_piece(const struct run *r, size_t at, size_t *end)
{
    static const char prefix[] = "##";
    char key[LONGEST_WORD * 4 + 4];
    const size_t len = r->w->word.len, skip = at ? 2 : 0;
    memcpy(key, prefix, skip);
    memcpy(key + skip, r->w->word.data + at, len - at);
    for (*end = len; *end > at;) {
        const int32_t id = vocab_find_plain(r->v, key, *end - at + skip);
        if (id >= 0)
            return id;
        do
            --*end;
        while (*end > at && ((unsigned char)r->w->word.data[*end] & 0xC0) == 0x80);
    }
    return -1;
}

static void end_word(struct run *r)
{
    const size_t before = r->out->n, len = r->w->word.len;
    size_t end = 0;
    bool known = r->n_chars <= LONGEST_WORD;
    for (size_t at = 0; at < len && known && r->ok; at = end) {
        const int32_t id = longest_piece(r, at, &end);
        known = id >= 0;
        r->ok = !known || ids_push(r->out, id);
    }
    if (len && !known) {
        r->out->n = before;
        r->ok = r->ok && ids_push(r->out, r->v->header->unknown_id);
    }
    buf_clear(&r->w->word);
    r->n_chars = 0;
}

static void add_char(struct run *r, uint32_t c)
{
    unsigned char bytes[4];
    r->ok = r->ok && buf_append(&r->w->word, bytes, utf8_encode(c, bytes));
    r->n_chars++;
}

/* A character as the pre-tokenizer sees it. */
static void take(struct run *r, uint32_t c)
{
    if (is_space(c)) {
        end_word(r);
    } else if (is_punctuation(c)) {
        end_word(r);
        add_char(r, c);
        end_word(r);
    } else {
        add_char(r, c);
    }
}

/* Small letters: one that has several is written as all of them, which happens once in Unicode. */
static void take_lower(struct run *r, uint32_t c)
{
    if (!(r->v->header->words & VOCAB_WORDS_LOWER)) {
        take(r, c);
    } else if (c == 0x130) {
        take(r, 'i');
        take(r, 0x307);
    } else {
        take(r, (uint32_t)utf8proc_tolower((utf8proc_int32_t)c));
    }
}

static void take_stripped(struct run *r, uint32_t c)
{
    utf8proc_int32_t parts[MOST_PARTS];
    int last = 0;
    if (c < 0x80 || !(r->v->header->words & VOCAB_WORDS_STRIP)) {
        take_lower(r, c);
        return;
    }
    const utf8proc_ssize_t n =
        utf8proc_decompose_char((utf8proc_int32_t)c, parts, MOST_PARTS, UTF8PROC_DECOMPOSE, &last);
    for (utf8proc_ssize_t i = 0; i < n && i < MOST_PARTS; i++)
        if (utf8proc_category(parts[i]) != UTF8PROC_CATEGORY_MN)
            take_lower(r, (uint32_t)parts[i]);
}

bool wordpiece_encode(struct wordpiece *w, const struct vocab *v, const char *text, size_t len,
                      struct ids *out)
{
    struct run r = {.w = w, .v = v, .out = out, .ok = true};
    const unsigned words = v->header->words;
    const unsigned char *p = (const unsigned char *)text, *end = p + len;
    buf_clear(&w->word);
    while (p < end && r.ok) {
        uint32_t c;
        p += utf8_next(p, &c);
        if (words & VOCAB_WORDS_CLEAN && is_dropped(c))
            continue;
        const bool alone = words & VOCAB_WORDS_CHINESE && is_chinese(c);
        if (alone)
            end_word(&r);
        take_stripped(&r, c);
        if (alone)
            end_word(&r);
    }
    end_word(&r);
    return r.ok;
}
