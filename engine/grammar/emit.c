/* Turns expressions into a program. Each is emitted in front of what follows it, so no empty steps
 * arise between them; the network is then cleaned of nodes that can't reach the end or can't be
 * reached. */
#include <stdlib.h>
#include <string.h>

#include "engine/grammar/emit.h"

#define UNROLL_COUNT 8 /* counted repeats up to this many times ... */
#define UNROLL_SIZE 64 /* ... and this large are written out: cheaper to run than a counter */

uint32_t emit_node(struct emit *m, struct program_node n)
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
uint32_t emit_edges(struct emit *m, uint32_t n)
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

bool emit_failed(const struct emit *m)
{
    return m->over || m->nomem;
}

uint32_t emit_byte_range(struct emit *m, uint8_t lo, uint8_t hi, uint32_t next)
{
    uint32_t at = emit_edges(m, 1);
    if (emit_failed(m))
        return 0;
    m->edges[at] = (struct program_edge){lo, hi, 0, next};
    return emit_node(m, (struct program_node){.kind = NODE_BYTES, .a = at, .b = 1});
}

static uint32_t emit(struct emit *m, expr x, uint32_t next);

static uint32_t split2(struct emit *m, uint32_t a, uint32_t b, uint8_t flags)
{
    uint32_t at = emit_edges(m, 2);
    if (emit_failed(m))
        return 0;
    m->edges[at].target = a;
    m->edges[at + 1].target = b;
    return emit_node(m, (struct program_node){.kind = NODE_SPLIT, .flags = flags, .a = at, .b = 2});
}

/* Any number of times, at least `min` of 0 and 1. */
static uint32_t emit_loop(struct emit *m, const struct expr_node *x, int32_t min, uint32_t next)
{
    uint32_t loop = split2(m, 0, next, x->plain ? NODE_PLAIN_RUN : 0);
    uint32_t body = emit(m, x->body, loop);
    if (emit_failed(m))
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
        for (int32_t i = open ? x->min : x->max; i > 0 && !emit_failed(m); i--) {
            uint32_t body = emit(m, x->body, at);
            at = i > x->min ? split2(m, body, next, 0) : body; /* optional ones may leave at once */
        }
        return at;
    }
    uint32_t body = emit(m, x->body, 0);
    return emit_failed(m)
               ? 0
               : emit_node(m, (struct program_node){.kind = NODE_REPEAT,
                                                    .flags = x->plain ? NODE_PLAIN_RUN : 0,
                                                    .a = body,
                                                    .b = next,
                                                    .c = (uint32_t)x->min,
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
    return emit_node(m, (struct program_node){.kind = NODE_CALL,
                                              .a = (uint32_t)rule,
                                              .b = next}); /* a: see link_calls */
}

static uint32_t emit_alt(struct emit *m, const struct expr_node *x, uint32_t next)
{
    uint32_t at = emit_edges(m, x->n);
    for (uint32_t i = 0; i < x->n && !emit_failed(m); i++) {
        uint32_t to = emit(m, ((const expr *)x->list)[i], next);
        if (!emit_failed(m))
            m->edges[at + i].target = to;
    }
    return emit_failed(m)
               ? 0
               : emit_node(m, (struct program_node){.kind = NODE_SPLIT, .a = at, .b = x->n});
}

static uint32_t emit(struct emit *m, expr x, uint32_t next)
{
    const struct expr_node *n = &m->b->nodes[x];
    if (emit_failed(m))
        return 0;
    switch (n->kind) {
    case EXPR_EMPTY:
        return next;
    case EXPR_NEVER:
        return emit_node(m, (struct program_node){.kind = NODE_BYTES});
    case EXPR_BYTES:
        for (uint32_t i = n->n; i-- > 0 && !emit_failed(m);) {
            uint8_t c = ((const uint8_t *)n->list)[i];
            next = emit_byte_range(m, c, c, next);
        }
        return next;
    case EXPR_RANGE:
        return emit_byte_range(m, (uint8_t)n->min, (uint8_t)n->max, next);
    case EXPR_TOKEN:
        return emit_node(
            m, (struct program_node){.kind = NODE_TOKEN, .a = (uint32_t)n->min, .b = next});
    case EXPR_CLASS:
        return emit_class(m, n, next);
    case EXPR_SEQ:
        for (uint32_t i = n->n; i-- > 0;)
            next = emit(m, ((const expr *)n->list)[i], next);
        return next;
    case EXPR_ALT:
        return emit_alt(m, n, next);
    case EXPR_REPEAT:
        return emit_repeat(m, n, next);
    default:
        return emit_rule(m, x, next);
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
            uint32_t to = n->b, at = emit_edges(m, 1);
            if (emit_failed(m))
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

static uint32_t reach(uint32_t *number, uint32_t *work, uint32_t *n_work, uint32_t *n,
                      uint32_t node)
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
    bool ok = !nodes.failed && !edges.failed && buf_append(out, &h, sizeof h) &&
              buf_append(out, nodes.data, nodes.len) &&
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
        err_set(e, ERR_INPUT, "%.100s refers to itself before anything is read (left recursion)",
                name_of(m, m->owner[left]));
        goto out;
    }
    for (uint32_t i = 0; i < m->n_nodes; i++)
        if (m->nodes[i].kind == NODE_REPEAT && mark[m->nodes[i].a]) {
            err_set(e, ERR_INPUT, "%.100s repeats, a counted number of times, what may be empty",
                    name_of(m, m->owner[i]));
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
        err_set(e, b->failed ? ERR_LIMIT : ERR_NOMEM,
                "it is too large or nests too deeply to be compiled");
        goto out;
    }
    emit_node(&m, (struct program_node){.kind = NODE_RETURN}); /* node 0: where everything ends */
    uint32_t first = emit(&m, start, 0);
    for (uint32_t i = 0; i < m.n_queue && !emit_failed(&m); i++) {
        m.rule = m.queue[i];
        memset(&m.tail, 0, sizeof m.tail);
        uint32_t at = emit(&m, b->nodes[m.rule].body, 0);
        /* a rule that is nothing but its end still needs a node of its own: 0 means "not emitted"
         */
        m.entry[m.rule] = at ? at : emit_node(&m, (struct program_node){.kind = NODE_RETURN});
    }
    if (m.undefined >= 0)
        err_set(e, ERR_INPUT, "the rule '%.100s' is not defined", name_of(&m, m.undefined));
    else if (emit_failed(&m))
        err_set(e, m.over ? ERR_LIMIT : ERR_NOMEM,
                "it is too large to be compiled: more than %u states", PROGRAM_MAX_NODES);
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
