/* Matches all stop strings at once with Knuth-Morris-Pratt, and holds back the longest partial
 * match. */
#include "engine/sched/sampling/stop.h"

#include <stdlib.h>
#include <string.h>

struct stop_string {
    char *text;
    uint16_t len;
    uint16_t matched; /* bytes of text that the end of the stream equals */
    uint16_t *border; /* [len] Knuth-Morris-Pratt: longest proper border of text[0..i] */
};

struct stop_matcher {
    struct stop_string *stops;
    int32_t n;
    struct buf
        held; /* received, not shown yet; after a push: as long as the longest partial match */
};

static bool stop_string_init(struct stop_string *s, const char *text)
{
    size_t len = strlen(text);
    s->text = strdup(text);
    s->border = calloc(len, sizeof *s->border);
    if (!s->text || !s->border)
        return false;
    s->len = (uint16_t)len;
    for (uint16_t i = 1, k = 0; i < len; i++) {
        while (k && text[i] != text[k])
            k = s->border[k - 1];
        if (text[i] == text[k])
            k++;
        s->border[i] = k;
    }
    return true;
}

struct stop_matcher *stop_matcher_create(const char *const *stops, int32_t n, struct err *e)
{
    struct stop_matcher *m = calloc(1, sizeof *m);
    if (!m)
        goto nomem;
    m->stops = calloc(n ? (size_t)n : 1, sizeof *m->stops);
    if (!m->stops)
        goto nomem;
    for (m->n = 0; m->n < n;) {
        const char *text = stops[m->n];
        if (!text[0] || strlen(text) > UINT16_MAX) {
            err_field(e, ERR_INPUT, "stop", "string %d is empty or too long", m->n);
            stop_matcher_destroy(&m);
            return NULL;
        }
        if (!stop_string_init(&m->stops[m->n++], text))
            goto nomem;
    }
    return m;
nomem:
    err_set(e, ERR_NOMEM, "no memory for the stop strings");
    stop_matcher_destroy(&m);
    return NULL;
}

void stop_matcher_destroy(struct stop_matcher **m)
{
    if (!*m)
        return;
    for (int32_t i = 0; i < (*m)->n; i++) {
        free((*m)->stops[i].text);
        free((*m)->stops[i].border);
    }
    free((*m)->stops);
    buf_fini(&(*m)->held);
    free(*m);
    *m = NULL;
}

static bool advance(struct stop_string *s, char c)
{
    while (s->matched && (s->matched == s->len || s->text[s->matched] != c))
        s->matched = s->border[s->matched - 1];
    if (s->text[s->matched] == c)
        s->matched++;
    return s->matched == s->len;
}

int32_t stop_matcher_push(struct stop_matcher *m, const char *text, size_t len, struct buf *out)
{
    if (!m->n) {
        buf_append(out, text, len);
        return -1;
    }
    size_t start = m->held.len; /* of `text` within held */
    if (!buf_append(&m->held, text, len)) {
        out->failed = true;
        return -1;
    }
    for (size_t i = 0; i < len; i++) {
        int32_t met = -1;
        for (int32_t k = 0; k < m->n; k++)
            if (advance(&m->stops[k], text[i]) && (met < 0 || m->stops[k].len > m->stops[met].len))
                met = k;
        if (met >= 0) {
            buf_append(out, m->held.data, start + i + 1 - m->stops[met].len);
            buf_clear(&m->held);
            return met;
        }
    }
    size_t keep = 0;
    for (int32_t k = 0; k < m->n; k++)
        if (m->stops[k].matched > keep)
            keep = m->stops[k].matched;
    buf_append(out, m->held.data, m->held.len - keep);
    buf_consume(&m->held, m->held.len - keep);
    return -1;
}

void stop_matcher_flush(struct stop_matcher *m, struct buf *out)
{
    buf_append(out, m->held.data, m->held.len);
    buf_clear(&m->held);
    for (int32_t i = 0; i < m->n; i++)
        m->stops[i].matched = 0;
}
