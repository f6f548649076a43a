/* Expressions to a program. Each is emitted in front of what follows it, so no empty steps arise between them; the
 * network is then cleaned of what can't reach the end, or can't be reached. */
#include <stdlib.h>
#include <string.h>

#include "engine/grammar/builder_state.h"

#define UNROLL_COUNT 8 /* counted repeats up to this many times ... */
#define UNROLL_SIZE 64 /* ... and this large are written out: cheaper to run than a counter */

struct emit {
    struct builder *b;
    struct program_node *nodes;
    struct program_edge *edges;
    int32_t *owner;        /* [n_nodes] the rule that a node belongs to, -1: none */
    uint32_t n_nodes, cap_nodes, n_edges, cap_edges;
    uint32_t *entry;       /* [b->n] of rules; 0 (the RETURN node): not emitted yet */
    expr *queue;           /* rules to be emitted */
    uint32_t n_queue, cap_queue;
    int32_t rule;          /* being emitted */
    struct { uint32_t next, node[4]; } tail; /* shared continuation bytes in front of `next` */
    bool over, nomem;
    expr undefined;
};

static uint32_t add_node(struct emit *m, struct program_node n)
{
    if (m->n_nodes == m->cap_nodes) {
        uint32_t cap = m->cap_nodes ? m->cap_nodes * 2 : 1024;
        struct program_node *nodes = realloc(m->nodes, cap * sizeof *nodes);
        if (nodes)
            m->nodes = nodes;
        int32_t *owner = nodes ? realloc(m->owner, cap * sizeof *owner) : NULL;
        if (!owner) {
            m->nomem = true;
            return 0;
        }
        m->owner = owner;
        m->cap_nodes = cap;
    }
    if (m->n_nodes == PROGRAM_MAX_NODES) {
        m->over = true;
        return 0;
    }
    m->owner[m->n_nodes] = m->rule;
    m->nodes[m->n_nodes] = n;
    return m->n_nodes++;
}

/* Room for n edges; their place. */
static uint32_t add_edges(struct emit *m, uint32_t n)
{
    if (m->n_edges + n > PROGRAM_MAX_EDGES) {
        m->over = true;
        return 0;
    }
    if (m->n_edges + n > m->cap_edges) {
        uint32_t cap = m->cap_edges * 2 > m->n_edges + n ? m->cap_edges * 2 : m->n_edges + n + 1024;
        struct program_edge *edges = realloc(m->edges, cap * sizeof *edges);
        if (!edges) {
            m->nomem = true;
            return 0;
        }
        m->edges = edges;
        m->cap_edges = cap;
    }
    memset(m->edges + m->n_edges, 0, n * sizeof *m->edges);
    m->n_edges += n;
    return m->n_edges - n;
}

static bool bad(const struct emit *m)
{
    return m->over || m->nomem;
}

static uint32_t one_edge(struct emit *m, uint8_t lo, uint8_t hi, uint32_t next)
{
    uint32_t at = add_edges(m, 1);
    if (bad(m))
        return 0;
    m->edges[at] = (struct program_edge){lo, hi, 0, next};
    return add_node(m, (struct program_node){.kind = NODE_BYTES, .a = at, .b = 1});
}

/* n whole continuation bytes (80 .. BF), then next. */
static uint32_t continuation(struct emit *m, int n, uint32_t next)
{
    if (n == 0)
        return next;
    if (m->tail.next != next || !m->tail.node[0])
        memset(&m->tail, 0, sizeof m->tail);
    m->tail.next = next;
    if (!m->tail.node[n]) {
        uint32_t node = one_edge(m, 0x80, 0xBF, continuation(m, n - 1, next));
        m->tail.node[n] = node;
        m->tail.node[0] = 1;
    }
    return m->tail.node[n];
}

struct edge_list {
    struct program_edge at[1024];
    uint32_t n;
};

static void give_edge(struct emit *m, struct edge_list *l, uint32_t lo, uint32_t hi, uint32_t target)
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
    int n;         /* > 0: all n bytes are to be read; < 0: the -n continuation bytes that are left */
    uint32_t next; /* the node behind the last byte */
};

static void utf8_edges(struct emit *m, struct edge_list *l, struct utf8_range r);

/* The bytes behind the first of a range whose characters have the same bytes before. Returns a node. */
static uint32_t utf8_rest(struct emit *m, struct utf8_range r)
{
    struct edge_list *l = malloc(sizeof *l);
    if (!l) {
        m->nomem = true;
        return 0;
    }
    l->n = 0;
    utf8_edges(m, l, r);
    uint32_t at = add_edges(m, l->n), node = 0;
    if (!bad(m)) {
        memcpy(m->edges + at, l->at, l->n * sizeof *l->at);
        node = add_node(m, (struct program_node){.kind = NODE_BYTES, .a = at, .b = l->n});
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
    while (lo <= hi && !bad(m)) {
        uint32_t top = lo / span, last = hi / span;
        uint32_t end = (top + 1) * span - 1;
        if (lo % span == 0 && end <= hi) { /* whole blocks, as many as there are */
            uint32_t whole = (hi + 1) / span - 1;
            give_edge(m, l, mark | (top & mask), mark | (whole & mask), continuation(m, left, r.next));
            lo = (whole + 1) * span;
        } else {
            uint32_t to = top == last ? hi : end;
            give_edge(m, l, mark | (top & mask), mark | (top & mask), utf8_rest(m, (struct utf8_range){lo, to, -left, r.next}));
            lo = to + 1;
        }
    }
}

static uint32_t emit_class(struct emit *m, const struct expr_node *x, uint32_t next)
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
            uint32_t lo = r[i].lo > from ? r[i].lo : from, hi = r[i].hi < limits[n] ? r[i].hi : limits[n];
            if (lo <= hi)
                utf8_edges(m, l, (struct utf8_range){lo, hi, n, next});
        }
    uint32_t at = add_edges(m, l->n), node = 0;
    if (!bad(m)) {
        memcpy(m->edges + at, l->at, l->n * sizeof *l->at);
        node = add_node(m, (struct program_node){.kind = NODE_BYTES, .a = at, .b = l->n});
    }
    free(l);
    return node;
}

static uint32_t emit(struct emit *m, expr x, uint32_t next);

static uint32_t split2(struct emit *m, uint32_t a, uint32_t b, uint8_t flags)
{
    uint32_t at = add_edges(m, 2);
    if (bad(m))
        return 0;
    m->edges[at].target = a;
    m->edges[at + 1].target = b;
    return add_node(m, (struct program_node){.kind = NODE_SPLIT, .flags = flags, .a = at, .b = 2});
}

/* Any number of times, at least `min` of 0 and 1. */
static uint32_t emit_loop(struct emit *m, const struct expr_node *x, int32_t min, uint32_t next)
{
    uint32_t loop = split2(m, 0, next, x->plain ? NODE_PLAIN_RUN : 0);
    uint32_t body = emit(m, x->body, loop);
    if (bad(m))
        return 0;
    m->edges[m->nodes[loop].a].target = body;
    return min ? body : loop;
}

static uint32_t emit_repeat(struct emit *m, const struct expr_node *x, uint32_t next)
{
    bool open = x->max == EXPR_NO_MAX;
    int32_t count = open ? x->min : x->max;
    uint64_t size = (uint64_t)m->b->nodes[x->body].size * (uint64_t)count;
    if (open && x->min <= 1)
        return emit_loop(m, x, x->min, next);
    if (count <= UNROLL_COUNT && size <= UNROLL_SIZE) {
        uint32_t at = open ? emit_loop(m, x, 0, next) : next;
        for (int32_t i = open ? x->min : x->max; i > 0 && !bad(m); i--) {
            uint32_t body = emit(m, x->body, at);
            at = i > x->min ? split2(m, body, next, 0) : body; /* optional ones may leave at once */
        }
        return at;
    }
    uint32_t body = emit(m, x->body, 0);
    return bad(m) ? 0 : add_node(m, (struct program_node){.kind = NODE_REPEAT, .flags = x->plain ? NODE_PLAIN_RUN : 0,
                                                          .a = body, .b = next, .c = (uint32_t)x->min,
                                                          .d = open ? PROGRAM_NO_MAX : (uint32_t)x->max});
}

static uint32_t emit_rule(struct emit *m, expr rule, uint32_t next)
{
    if (m->b->nodes[rule].body < 0) {
        if (m->undefined < 0)
            m->undefined = rule;
        return next;
    }
    if (!m->entry[rule]) {
        if (m->n_queue == m->cap_queue) {
            uint32_t cap = m->cap_queue ? m->cap_queue * 2 : 64;
            expr *grown = realloc(m->queue, cap * sizeof *grown);
            if (!grown) {
                m->nomem = true;
                return 0;
            }
            m->queue = grown;
            m->cap_queue = cap;
        }
        m->queue[m->n_queue++] = rule;
        m->entry[rule] = UINT32_MAX; /* on its way */
    }
    return add_node(m, (struct program_node){.kind = NODE_CALL, .a = (uint32_t)rule, .b = next}); /* a: see link_calls */
}

static uint32_t emit_alt(struct emit *m, const struct expr_node *x, uint32_t next)
{
    uint32_t at = add_edges(m, x->n);
    for (uint32_t i = 0; i < x->n && !bad(m); i++) {
        uint32_t to = emit(m, ((const expr *)x->list)[i], next);
        if (!bad(m))
            m->edges[at + i].target = to;
    }
    return bad(m) ? 0 : add_node(m, (struct program_node){.kind = NODE_SPLIT, .a = at, .b = x->n});
}

static uint32_t emit(struct emit *m, expr x, uint32_t next)
{
    const struct expr_node *n = &m->b->nodes[x];
    if (bad(m))
        return 0;
    switch (n->kind) {
    case EXPR_EMPTY: return next;
    case EXPR_NEVER: return add_node(m, (struct program_node){.kind = NODE_BYTES});
    case EXPR_BYTES:
        for (uint32_t i = n->n; i-- > 0 && !bad(m);) {
            uint8_t c = ((const uint8_t *)n->list)[i];
            next = one_edge(m, c, c, next);
        }
        return next;
    case EXPR_RANGE: return one_edge(m, (uint8_t)n->min, (uint8_t)n->max, next);
    case EXPR_TOKEN: return add_node(m, (struct program_node){.kind = NODE_TOKEN, .a = (uint32_t)n->min, .b = next});
    case EXPR_CLASS: return emit_class(m, n, next);
    case EXPR_SEQ:
        for (uint32_t i = n->n; i-- > 0;)
            next = emit(m, ((const expr *)n->list)[i], next);
        return next;
    case EXPR_ALT: return emit_alt(m, n, next);
    case EXPR_REPEAT: return emit_repeat(m, n, next);
    default: return emit_rule(m, x, next);
    }
}

/* ---- cleaning */

static struct program view(const struct emit *m, const struct program_header *h)
{
    return (struct program){h, m->nodes, m->edges};
}

/* Edges to where the end can't be reached go; a repeat that can't happen even once is no repeat. */
static void prune(struct emit *m, const uint8_t *productive)
{
    for (uint32_t i = 0; i < m->n_nodes; i++) {
        struct program_node *n = &m->nodes[i];
        uint32_t k = 0;
        if (n->kind == NODE_REPEAT && !productive[n->a]) {
            uint32_t to = n->b, at = add_edges(m, 1);
            if (bad(m))
                return;
            m->edges[at].target = to;
            *n = (struct program_node){.kind = NODE_SPLIT, .a = at, .b = 1};
        }
        if (n->kind != NODE_BYTES && n->kind != NODE_SPLIT)
            continue;
        for (uint32_t j = 0; j < n->b; j++)
            if (productive[m->edges[n->a + j].target])
                m->edges[n->a + k++] = m->edges[n->a + j];
        n->b = k;
    }
}

static uint32_t reach(uint32_t *number, uint32_t *work, uint32_t *n_work, uint32_t *n, uint32_t node)
{
    if (!number[node]) {
        number[node] = ++*n;
        work[(*n_work)++] = node;
    }
    return number[node] - 1;
}

/* Appends the nodes that the start reaches to out, numbered in order of discovery. */
static bool write_reached(struct emit *m, uint32_t start, struct buf *out)
{
    uint32_t n = 0, n_work = 0, n_edges = 0;
    uint32_t *number = calloc((size_t)m->n_nodes * 2, sizeof *number), *work = number + m->n_nodes;
    struct buf nodes = {0}, edges = {0};
    if (!number)
        return false;
    reach(number, work, &n_work, &n, start);
    for (uint32_t i = 0; i < n_work; i++) {
        struct program_node copy = m->nodes[work[i]];
        if (copy.kind == NODE_BYTES || copy.kind == NODE_SPLIT) {
            for (uint32_t j = 0; j < copy.b; j++) {
                struct program_edge edge = m->edges[copy.a + j];
                edge.target = reach(number, work, &n_work, &n, edge.target);
                buf_append(&edges, &edge, sizeof edge);
            }
            copy.a = n_edges;
            n_edges += copy.b;
        } else if (copy.kind != NODE_RETURN) {
            if (copy.kind != NODE_TOKEN)
                copy.a = reach(number, work, &n_work, &n, copy.a);
            copy.b = reach(number, work, &n_work, &n, copy.b);
        }
        buf_append(&nodes, &copy, sizeof copy);
    }
    struct program_header h = {PROGRAM_MAGIC, n, n_edges, 0};
    bool ok = !nodes.failed && !edges.failed && buf_append(out, &h, sizeof h) && buf_append(out, nodes.data, nodes.len) &&
              buf_append(out, edges.data ? edges.data : "", edges.len);
    free(number);
    buf_fini(&nodes);
    buf_fini(&edges);
    return ok;
}

static const char *name_of(const struct emit *m, int32_t rule)
{
    const char *name = rule >= 0 ? m->b->nodes[rule].list : NULL;
    return name ? name : "the grammar";
}

static bool finish(struct emit *m, uint32_t start, struct buf *out, struct err *e)
{
    struct program_header h = {PROGRAM_MAGIC, m->n_nodes, m->n_edges, start};
    struct program p = view(m, &h);
    uint8_t *mark = malloc(m->n_nodes);
    bool ok = false;
    if (!mark || !program_productive(&p, mark))
        goto nomem;
    if (!mark[start]) {
        err_set(e, ERR_INPUT, "nothing can ever match it");
        goto out;
    }
    prune(m, mark);
    p = view(m, &h);
    h.n_edges = m->n_edges;
    if (m->nomem || !program_nullable(&p, mark))
        goto nomem;
    int64_t left = program_left_recursion(&p, mark);
    if (left == -2)
        goto nomem;
    if (left >= 0) {
        err_set(e, ERR_INPUT, "%.100s refers to itself before anything is read (left recursion)", name_of(m, m->owner[left]));
        goto out;
    }
    for (uint32_t i = 0; i < m->n_nodes; i++)
        if (m->nodes[i].kind == NODE_REPEAT && mark[m->nodes[i].a]) {
            err_set(e, ERR_INPUT, "%.100s repeats, a counted number of times, what may be empty", name_of(m, m->owner[i]));
            goto out;
        }
    ok = write_reached(m, start, out);
    if (!ok)
        goto nomem;
    goto out;
nomem:
    err_set(e, ERR_NOMEM, "no memory to compile a grammar");
out:
    free(mark);
    return ok;
}

static void link_calls(struct emit *m)
{
    for (uint32_t i = 0; i < m->n_nodes; i++)
        if (m->nodes[i].kind == NODE_CALL)
            m->nodes[i].a = m->entry[m->nodes[i].a];
}

bool builder_finish(struct builder *b, expr start, struct buf *out, struct err *e)
{
    struct emit m = {.b = b, .rule = -1, .undefined = -1};
    bool ok = false;
    if (!b->failed)
        m.entry = calloc((size_t)b->n + 1, sizeof *m.entry);
    if (!m.entry) {
        err_set(e, b->failed ? ERR_LIMIT : ERR_NOMEM, "it is too large or nests too deeply to be compiled");
        goto out;
    }
    add_node(&m, (struct program_node){.kind = NODE_RETURN}); /* node 0: where everything ends */
    uint32_t first = emit(&m, start, 0);
    for (uint32_t i = 0; i < m.n_queue && !bad(&m); i++) {
        m.rule = m.queue[i];
        memset(&m.tail, 0, sizeof m.tail);
        uint32_t at = emit(&m, b->nodes[m.rule].body, 0);
        /* a rule that is nothing but its end still needs a node of its own: 0 means "not emitted" */
        m.entry[m.rule] = at ? at : add_node(&m, (struct program_node){.kind = NODE_RETURN});
    }
    if (m.undefined >= 0)
        err_set(e, ERR_INPUT, "the rule '%.100s' is not defined", name_of(&m, m.undefined));
    else if (bad(&m))
        err_set(e, m.over ? ERR_LIMIT : ERR_NOMEM, "it is too large to be compiled: more than %u states", PROGRAM_MAX_NODES);
    else {
        link_calls(&m);
        ok = finish(&m, first, out, e);
    }
out:
    free(m.nodes);
    free(m.edges);
    free(m.owner);
    free(m.entry);
    free(m.queue);
    return ok;
}
