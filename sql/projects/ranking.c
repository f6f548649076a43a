/* ranking.h: the words of a question, BM25 (Robertson and Zaragoza 2009), and the choice. */
#include "sql/projects/ranking.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/buf.h"
#include "sql/core/search_chunks_internal.h"

#define K1 1.2
#define B 0.75
#define LEAST 0.2     /* of the best score; what has less is chance */
#define FUSION 60     /* Cormack's */
#define WORD_BYTES 64 /* of a longer one the beginning counts */

static bool in_word(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c & 0x80;
}

static size_t letters(const char *text, size_t len)
{
    size_t n = 0;
    for (size_t i = 0; i < len; i++)
        n += (text[i] & 0xc0) != 0x80;
    return n;
}

/* The word without its last n letters. */
static size_t without_end(const char *word, size_t len, size_t n)
{
    for (; n; n--)
        do
            len--;
        while (len && (word[len] & 0xc0) == 0x80);
    return len;
}

/* The first bytes of a longer word, without a part of a letter. */
static size_t cut(const char *word, size_t len)
{
    while (len && (word[len] & 0xc0) == 0x80)
        len--;
    return len;
}

struct term {
    const char *at;
    size_t len;
};
struct terms {
    struct term seen[RANKING_TERMS];
    int n;
    struct buf *out;
    const char *owner;
};

/* "word" or "wor" *; letters that stand alone are a phrase. */
static void put_term(struct buf *out, const char *word, size_t len)
{
    struct buf apart = {0};
    const size_t n = letters(word, len);
    size_t kept = n >= 7 ? without_end(word, len, 2) : n >= 5 ? without_end(word, len, 1) : len;
    search_chunks_words(&apart, word, len);
    const bool phrase = apart.len != len;
    buf_putc(out, '"');
    if (phrase)
        buf_append(out, apart.data, apart.len);
    else
        buf_append(out, word, kept);
    buf_puts(out, n >= 4 && !phrase ? "\" *" : "\"");
    buf_fini(&apart);
}

static bool same(const char *a, const char *b, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        const char x = a[i] >= 'A' && a[i] <= 'Z' ? (char)(a[i] + 32) : a[i];
        const char y = b[i] >= 'A' && b[i] <= 'Z' ? (char)(b[i] + 32) : b[i];
        if (x != y)
            return false;
    }
    return true;
}

static void add_term(struct terms *t, const char *word, size_t len)
{
    int i = 0;
    while (i < t->n && (t->seen[i].len != len || !same(t->seen[i].at, word, len)))
        i++;
    /* A single Latin letter is no word that finds anything. */
    if (i < t->n || t->n == RANKING_TERMS || !len || (len == 1 && (*word < '0' || *word > '9')))
        return;
    if (!t->n)
        buf_printf(t->out, "owner : \"%s\" AND text : (", t->owner);
    else
        buf_puts(t->out, " OR ");
    put_term(t->out, word, len);
    t->seen[t->n++] = (struct term){word, len};
}

static size_t next_letter(const char *word, size_t at, size_t len)
{
    do
        at++;
    while (at < len && (word[at] & 0xc0) == 0x80);
    return at;
}

static bool stands_alone(const char *letter, size_t len)
{
    struct buf apart = {0};
    search_chunks_words(&apart, letter, len);
    const bool alone = apart.len != len;
    buf_fini(&apart);
    return alone;
}

/* Of a run of letters that stand alone, each pair of neighbours, since nothing says where a word
 * ends; what stands between such runs is a word. */
static void add_run(struct terms *t, const char *run, size_t len)
{
    for (size_t at = 0, end; at < len && t->n < RANKING_TERMS; at = end) {
        size_t before = at;
        bool any = false;
        const bool alone = stands_alone(run + at, next_letter(run, at, len) - at);
        for (end = next_letter(run, at, len); end < len;) {
            const size_t next = next_letter(run, end, len);
            if (stands_alone(run + end, next - end) != alone)
                break;
            if (alone)
                add_term(t, run + before, next - before);
            any = true;
            before = end;
            end = next;
        }
        if (!alone)
            add_term(t, run + at, end - at < WORD_BYTES ? end - at : cut(run + at, WORD_BYTES));
        else if (!any)
            add_term(t, run + at, end - at);
    }
}

int ranking_query(struct buf *out, const char *owner, const char *question)
{
    struct terms t = {.out = out, .owner = owner};
    for (const char *p = question; *p && t.n < RANKING_TERMS;) {
        size_t len = 0;
        while (in_word(p[len]))
            len++;
        add_run(&t, p, len);
        p += len ? len : 1;
    }
    if (t.n)
        buf_putc(out, ')');
    return t.n;
}

void ranking_score(struct ranking_passage *p, int n, int n_terms, int64_t n_all)
{
    int64_t with[RANKING_TERMS] = {0}, words = 0;
    for (int i = 0; i < n; i++) {
        words += p[i].words;
        for (int t = 0; t < n_terms; t++)
            with[t] += p[i].counts[t] > 0;
    }
    const double average = n && words ? (double)words / n : 1;
    for (int i = 0; i < n; i++) {
        p[i].score = 0;
        for (int t = 0; t < n_terms; t++) {
            const double f = p[i].counts[t];
            const double rare =
                log(1 + ((double)(n_all - with[t]) + 0.5) / ((double)with[t] + 0.5));
            p[i].score += rare * f * (K1 + 1) / (f + K1 * (1 - B + B * p[i].words / average));
        }
    }
}

static int by_score(const void *a, const void *b)
{
    const struct ranking_passage *x = a, *y = b;
    if (x->score != y->score)
        return x->score < y->score ? 1 : -1;
    return x->file != y->file ? (x->file > y->file) - (x->file < y->file)
                              : (x->start > y->start) - (x->start < y->start);
}

static int by_place(const void *a, const void *b)
{
    const struct ranking_passage *x = a, *y = b;
    return x->file != y->file ? (x->file > y->file) - (x->file < y->file)
                              : (x->start > y->start) - (x->start < y->start);
}

static double at_rank(int rank)
{
    return 1.0 / (FUSION + rank);
}

int ranking_fuse(struct ranking_passage *words, int n_words, const struct ranking_passage *near,
                 int n_near, struct ranking_passage *out)
{
    int n = 0;
    if (n_words)
        qsort(words, (size_t)n_words, sizeof *words, by_score);
    const double least = n_words ? words[0].score * LEAST : 0;
    for (; n < n_words && n < RANKING_FUSED && words[n].score >= least; n++) {
        out[n] = words[n];
        out[n].score = at_rank(n + 1);
    }
    const int n_counted = n;
    for (int i = 0; i < n_near; i++) {
        int k = 0;
        while (k < n_counted && by_place(&out[k], &near[i]) != 0)
            k++;
        if (k == n_counted) {
            out[k = n++] = near[i];
            out[k].score = 0;
        }
        out[k].score += at_rank(i + 1);
    }
    qsort(out, (size_t)n, sizeof *out, by_score);
    return n;
}

int ranking_choose(struct ranking_passage *p, int n, const struct ranking_budget *b)
{
    int taken = 0;
    double left = (double)b->tokens;
    qsort(p, (size_t)n, sizeof *p, by_score);
    const double least = n ? p[0].score * LEAST : 0;
    for (int i = 0; i < n && taken < b->most && p[i].score >= least; i++) {
        const double tokens = (double)p[i].bytes * b->tokens_per_byte(b->context, p[i].file);
        if (tokens > left)
            continue;
        left -= tokens;
        p[taken++] = p[i];
    }
    qsort(p, (size_t)taken, sizeof *p, by_place);
    int out = 0;
    for (int i = 0; i < taken; i++)
        if (out && p[out - 1].file == p[i].file &&
            p[out - 1].start + p[out - 1].bytes == p[i].start)
            p[out - 1].bytes += p[i].bytes;
        else
            p[out++] = p[i];
    return out;
}
