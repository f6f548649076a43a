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

/* "word" or "wor" *; what holds letters that stand alone is a phrase of them. */
static bool put_term(struct buf *out, const char *word, size_t len)
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
    return !out->failed;
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

int ranking_query(struct buf *out, const char *owner, const char *question)
{
    struct {
        const char *at;
        size_t len;
    } seen[RANKING_TERMS];
    int n = 0;
    for (const char *p = question; *p && n < RANKING_TERMS;) {
        size_t len = 0;
        while (in_word(p[len]))
            len++;
        size_t used = len < WORD_BYTES ? len : WORD_BYTES;
        while (used && used < len && (p[used] & 0xc0) == 0x80)
            used--;
        int i = 0;
        while (i < n && (seen[i].len != used || !same(seen[i].at, p, used)))
            i++;
        /* A single Latin letter is no word that finds anything. */
        if (i == n && (used > 1 || (used == 1 && *p >= '0' && *p <= '9'))) {
            if (!n)
                buf_printf(out, "owner : \"%s\" AND text : (", owner);
            else
                buf_puts(out, " OR ");
            put_term(out, p, used);
            seen[n].at = p;
            seen[n++].len = used;
        }
        p += len ? len : 1;
    }
    if (n)
        buf_putc(out, ')');
    return n;
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
