/* Turns text into token ids in the order of Hugging Face `tokenizers`: repair UTF-8, take out added
 * tokens, normalize what is left, take out added tokens that want normalized text, split, merge. */
#include "engine/tokenizer/tokenizer.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "engine/tokenizer/bpe.h"
#include "engine/tokenizer/pretokenize.h"
#include "engine/tokenizer/added_tokens.h"
#include "engine/tokenizer/normalizer.h"
#include "engine/tokenizer/unigram.h"
#include "engine/tokenizer/vocab_image.h"
#include "engine/tokenizer/wordpiece.h"

enum { TEXT_MAX = 1 << 28, IDLE_MAX = 8, IDLE_TEXT_MAX = 1 << 18 };

/* The working memory of one call. It is kept between calls, so that its word cache stays warm. */
struct scratch {
    struct scratch *next;
    struct bpe bpe;
    struct wordpiece wordpiece;
    struct unigram unigram;
    struct pretokenizer_scratch *pretokenizer;
    struct normalizer repaired, composed, prefixed;
    struct text_span *spans; /* of one section */
    size_t cap_spans;
};

struct pool { /* idle scratch, under its lock */
    pthread_mutex_t lock;
    struct scratch *idle;
    int n_idle;
};

struct tokenizer {
    const struct vocab *vocab;
    struct pretokenizer *pretokenizer;
    struct added_tokens raw, normalized;
    struct unigram_model unigram;
    struct pool *pool;
};

bool ids_push(struct ids *l, int32_t id)
{
    if (l->n == l->cap) {
        size_t cap = l->cap ? l->cap * 2 : 64;
        int32_t *p = realloc(l->at, cap * sizeof *p);
        if (!p)
            return false;
        l->at = p;
        l->cap = cap;
    }
    l->at[l->n++] = id;
    return true;
}

void ids_fini(struct ids *l)
{
    free(l->at);
    *l = (struct ids){0};
}

static void scratch_destroy(struct scratch **s)
{
    if (!*s)
        return;
    bpe_fini(&(*s)->bpe);
    wordpiece_fini(&(*s)->wordpiece);
    unigram_fini(&(*s)->unigram);
    pretokenizer_scratch_destroy(&(*s)->pretokenizer);
    normalizer_fini(&(*s)->repaired);
    normalizer_fini(&(*s)->composed);
    normalizer_fini(&(*s)->prefixed);
    free((*s)->spans);
    free(*s);
    *s = NULL;
}

static struct scratch *scratch_take(const struct tokenizer *t)
{
    pthread_mutex_lock(&t->pool->lock);
    struct scratch *s = t->pool->idle;
    if (s) {
        t->pool->idle = s->next;
        t->pool->n_idle--;
    }
    pthread_mutex_unlock(&t->pool->lock);
    if (s)
        return s;
    s = calloc(1, sizeof *s);
    if (s && !(s->pretokenizer = pretokenizer_scratch_create(t->pretokenizer)))
        scratch_destroy(&s);
    return s;
}

/* Working memory that saw a long text is freed: one word of megabytes makes it forty times as
 * large. */
static void scratch_give(const struct tokenizer *t, struct scratch *s, size_t text_len)
{
    pthread_mutex_lock(&t->pool->lock);
    if (t->pool->n_idle < IDLE_MAX && text_len <= IDLE_TEXT_MAX) {
        s->next = t->pool->idle;
        t->pool->idle = s;
        t->pool->n_idle++;
        s = NULL;
    }
    pthread_mutex_unlock(&t->pool->lock);
    scratch_destroy(&s);
}

struct tokenizer *tokenizer_create(const struct vocab *v, struct err *e)
{
    struct tokenizer *t = calloc(1, sizeof *t);
    if (!t || !(t->pool = calloc(1, sizeof *t->pool))) {
        err_set(e, ERR_NOMEM, "out of memory");
        free(t);
        return NULL;
    }
    pthread_mutex_init(&t->pool->lock, NULL);
    t->vocab = v;
    if (v->header->kind == VOCAB_UNIGRAM)
        unigram_model_init(&t->unigram, v);
    added_tokens_init(&t->raw, v, false);
    added_tokens_init(&t->normalized, v, true);
    t->pretokenizer = pretokenizer_create(v, e);
    if (!t->pretokenizer)
        tokenizer_destroy(&t);
    return t;
}

void tokenizer_destroy(struct tokenizer **t)
{
    if (!*t)
        return;
    for (struct scratch *s = (*t)->pool->idle, *next; s; s = next) {
        next = s->next;
        scratch_destroy(&s);
    }
    pthread_mutex_destroy(&(*t)->pool->lock);
    free((*t)->pool);
    pretokenizer_destroy(&(*t)->pretokenizer);
    free(*t);
    *t = NULL;
}

struct call {
    const struct tokenizer *t;
    struct scratch *s;
    enum tokenize_mode mode;
    struct ids *out;
    struct err *e;
};

static bool on_piece(void *context, const char *piece, size_t len)
{
    struct call *c = context;
    return bpe_encode(&c->s->bpe, c->t->vocab, piece, len, c->out) ||
           err_set(c->e, ERR_NOMEM, "out of memory for token ids");
}

/* A part of a view; its spans are written to the scratch. */
static bool section(struct call *c, const struct text_view *view, struct text_span part,
                    bool with_spans, struct text_view *out)
{
    const size_t start = part.start, end = part.end;
    *out = (struct text_view){view->text + start, end - start, c->s->spans, 0};
    if (!with_spans)
        return true;
    if (c->s->cap_spans < view->n_spans) {
        struct text_span *p = realloc(c->s->spans, view->n_spans * sizeof *p);
        if (!p)
            return err_set(c->e, ERR_NOMEM, "out of memory");
        c->s->spans = p;
        c->s->cap_spans = view->n_spans;
    }
    out->spans = c->s->spans;
    for (size_t i = 0; i < view->n_spans; i++) {
        struct text_span s = view->spans[i];
        s.start = s.start > start ? s.start - start : 0;
        s.end = (s.end < end ? s.end : end);
        if (s.end <= start || s.start >= end - start)
            continue;
        c->s->spans[out->n_spans++] = (struct text_span){s.start, s.end - start};
    }
    return true;
}

static bool encode_words(struct call *c, const char *text, size_t len)
{
    const struct vocab *v = c->t->vocab;
    const struct unigram_input input = {v, text, len};
    if (v->header->kind == VOCAB_WORDPIECE)
        return wordpiece_encode(&c->s->wordpiece, v, text, len, c->out) ||
               err_set(c->e, ERR_NOMEM, "out of memory for token ids");
    if (v->header->kind == VOCAB_UNIGRAM)
        return unigram_encode(&c->s->unigram, &c->t->unigram, &input, c->out) ||
               err_set(c->e, ERR_NOMEM, "out of memory for token ids");
    struct text_view view = {text, len, NULL, 0};
    if (c->t->vocab->header->prefix_space && !normalizer_prefix_space(&c->s->prefixed, &view))
        return err_set(c->e, ERR_NOMEM, "out of memory");
    const struct pretokenizer_input in = {
        .text = view.text, .len = view.len, .on_piece = on_piece, .context = c};
    return pretokenizer_run(c->t->pretokenizer, c->s->pretokenizer, &in, c->e);
}

/* A section between added tokens of the first pass: normalize, second pass, words. */
static bool encode_section(struct call *c, const struct text_view *whole, size_t start, size_t end)
{
    struct text_view view;
    bool second = c->mode == TOKENIZE_SPECIAL && c->t->normalized.any;
    if (start == end)
        return true;
    if (!section(c, whole, (struct text_span){start, end}, second, &view))
        return false;
    if (c->t->vocab->header->nfc && !normalizer_nfc(&c->s->composed, &view))
        return err_set(c->e, ERR_NOMEM, "out of memory");
    size_t done = 0;
    struct added_token_match m;
    while (second && added_tokens_find(&c->t->normalized, &view, done, &m)) {
        if (!encode_words(c, view.text + done, m.start - done))
            return false;
        if (!ids_push(c->out, m.id))
            return err_set(c->e, ERR_NOMEM, "out of memory for token ids");
        done = m.end;
    }
    return encode_words(c, view.text + done, view.len - done);
}

static bool encode(struct call *c, struct text_view view)
{
    if (!normalizer_repair_utf8(&c->s->repaired, &view))
        return err_set(c->e, ERR_NOMEM, "out of memory");
    size_t done = 0;
    struct added_token_match m;
    while (c->mode == TOKENIZE_SPECIAL && added_tokens_find(&c->t->raw, &view, done, &m)) {
        if (!encode_section(c, &view, done, m.start))
            return false;
        if (!ids_push(c->out, m.id))
            return err_set(c->e, ERR_NOMEM, "out of memory for token ids");
        done = m.end;
    }
    return encode_section(c, &view, done, view.len);
}

bool tokenizer_encode(const struct tokenizer *t, const struct tokenizer_input *in, struct ids *out,
                      struct err *e)
{
    if (in->len > TEXT_MAX)
        return err_set(e, ERR_LIMIT, "text of %zu bytes, at most %d are tokenized", in->len,
                       TEXT_MAX);
    size_t last = 0;
    for (size_t i = 0; i < in->n_untrusted; last = in->untrusted[i++].end)
        if (in->untrusted[i].start < last || in->untrusted[i].end < in->untrusted[i].start ||
            in->untrusted[i].end > in->len)
            return err_set(e, ERR_INTERNAL, "untrusted span %zu is out of order", i);
    struct scratch *s = scratch_take(t);
    if (!s)
        return err_set(e, ERR_NOMEM, "out of memory");
    size_t before = out->n;
    struct call c = {t, s, in->mode, out, e};
    bool ok = in->len == 0 ||
              encode(&c, (struct text_view){in->text, in->len, in->untrusted, in->n_untrusted});
    if (!ok)
        out->n = before;
    scratch_give(t, s, in->len);
    return ok;
}
