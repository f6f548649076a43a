/* Emits classes of characters as edges over the bytes of their UTF-8 encodings. */
#include <stdlib.h>
#include <string.h>

#include "engine/grammar/emit.h"

/* n whole continuation bytes (80 .. BF), then next. */
static uint32_t continuation(struct emit *m, int n, uint32_t next)
{
    if (n == 0)
        return next;
    if (m->tail.next != next || !m->tail.node[0])
        memset(&m->tail, 0, sizeof m->tail);
    m->tail.next = next;
    if (!m->tail.node[n]) {
        uint32_t node = emit_byte_range(m, 0x80, 0xBF, continuation(m, n - 1, next));
        m->tail.node[n] = node;
        m->tail.node[0] = 1;
    }
    return m->tail.node[n];
}

struct edge_list {
    struct program_edge at[1024];
    uint32_t n;
};

static void give_edge(struct emit *m, struct edge_list *l, uint32_t lo, uint32_t hi,
                      uint32_t target)
{
    if (l->n == sizeof l->at / sizeof *l->at)
        m->over = true;
    else
        l->at[l->n++] = (struct program_edge){(uint8_t)lo, (uint8_t)hi, 0, target};
}

static uint32_t lead_bits(int n)
{
    return n == 2 ? 0xC0 : n == 3 ? 0xE0 : 0xF0;
}

struct utf8_range { /* characters lo .. hi, which have equally many bytes */
    uint32_t lo, hi;
    int n; /* > 0: all n bytes are to be read; < 0: the -n continuation bytes that are left */
    uint32_t next; /* the node behind the last byte */
};

static void utf8_edges(struct emit *m, struct edge_list *l, struct utf8_range r);

/* The bytes behind the first of a range whose characters have the same bytes before. Returns a
 * node. */
static uint32_t utf8_rest(struct emit *m, struct utf8_range r)
{
    struct edge_list *l = malloc(sizeof *l);
    if (!l) {
        m->nomem = true;
        return 0;
    }
    l->n = 0;
    utf8_edges(m, l, r);
    uint32_t at = emit_edges(m, l->n), node = 0;
    if (!emit_failed(m)) {
        memcpy(m->edges + at, l->at, l->n * sizeof *l->at);
        node = emit_node(m, (struct program_node){.kind = NODE_BYTES, .a = at, .b = l->n});
    }
    free(l);
    return node;
}

/* Gives one edge for each range of the first byte that is left. */
static void utf8_edges(struct emit *m, struct edge_list *l, struct utf8_range r)
{
    uint32_t lo = r.lo, hi = r.hi;
    int n = r.n, left = (n > 0 ? n : -n) - 1; /* bytes behind this one */
    uint32_t span = 1u << (6 * left), mask = n > 0 ? 0xFF : 0x3F;
    uint32_t mark = n > 0 ? (n == 1 ? 0 : lead_bits(n)) : 0x80;
    while (lo <= hi && !emit_failed(m)) {
        uint32_t top = lo / span, last = hi / span;
        uint32_t end = (top + 1) * span - 1;
        if (lo % span == 0 && end <= hi) { /* whole blocks, as many as there are */
            uint32_t whole = (hi + 1) / span - 1;
            give_edge(m, l, mark | (top & mask), mark | (whole & mask),
                      continuation(m, left, r.next));
            lo = (whole + 1) * span;
        } else {
            uint32_t to = top == last ? hi : end;
            give_edge(m, l, mark | (top & mask), mark | (top & mask),
                      utf8_rest(m, (struct utf8_range){lo, to, -left, r.next}));
            lo = to + 1;
        }
    }
}

uint32_t emit_class(struct emit *m, const struct expr_node *x, uint32_t next)
{
    static const uint32_t limits[] = {0, 0x7F, 0x7FF, 0xFFFF, 0x10FFFF};
    const struct cp_range *r = x->list;
    struct edge_list *l = malloc(sizeof *l);
    if (!l) {
        m->nomem = true;
        return 0;
    }
    l->n = 0;
    for (uint32_t i = 0; i < x->n; i++)
        for (int n = 1; n <= 4; n++) {
            uint32_t from = n == 1 ? 0 : limits[n - 1] + 1;
            uint32_t lo = r[i].lo > from ? r[i].lo : from,
                     hi = r[i].hi < limits[n] ? r[i].hi : limits[n];
            if (lo <= hi)
                utf8_edges(m, l, (struct utf8_range){lo, hi, n, next});
        }
    uint32_t at = emit_edges(m, l->n), node = 0;
    if (!emit_failed(m)) {
        memcpy(m->edges + at, l->at, l->n * sizeof *l->at);
        node = emit_node(m, (struct program_node){.kind = NODE_BYTES, .a = at, .b = l->n});
    }
    free(l);
    return node;
}
