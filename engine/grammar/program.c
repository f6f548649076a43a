/* Checks a program that came from outside this process, and computes the properties of its nodes
 * that the check and the builder need. */
#include "engine/grammar/program.h"

#include <stdlib.h>
#include <string.h>

/* The reversed edges: lists of nodes by target. */
struct reverse {
    uint32_t *first; /* [n_nodes + 1] into from */
    uint32_t *from;
};

typedef void (*each_fn)(void *context, uint32_t target);

static void each_target(const struct program *p, const struct program_node *n, each_fn give,
                        void *context)
{
    switch (n->kind) {
    case NODE_BYTES:
    case NODE_SPLIT:
        for (uint32_t i = 0; i < n->b; i++)
            give(context, p->edges[n->a + i].target);
        break;
    case NODE_CALL:
    case NODE_REPEAT:
        give(context, n->a); /* fall through */
    case NODE_TOKEN:
        give(context, n->b);
        break;
    default:
        break;
    }
}

struct filler {
    struct reverse *r;
    uint32_t node;
    bool count;
};

static void fill_one(void *context, uint32_t target)
{
    struct filler *f = context;
    if (f->count)
        f->r->first[target + 1]++;
    else
        f->r->from[f->r->first[target]++] = f->node;
}

static bool reverse_make(struct reverse *r, const struct program *p)
{
    uint32_t n = p->header->n_nodes;
    r->first = calloc((size_t)n + 2, sizeof *r->first);
    r->from = NULL;
    if (!r->first)
        return false;
    struct filler f = {.r = r, .count = true};
    for (f.node = 0; f.node < n; f.node++)
        each_target(p, &p->nodes[f.node], fill_one, &f);
    for (uint32_t i = 0; i < n; i++)
        r->first[i + 1] += r->first[i];
    r->from = malloc(((size_t)r->first[n] + 1) * sizeof *r->from);
    if (!r->from) {
        free(r->first);
        return false;
    }
    f.count = false;
    for (f.node = 0; f.node < n; f.node++) /* first[i] moves to the end of its list ... */
        each_target(p, &p->nodes[f.node], fill_one, &f);
    memmove(r->first + 1, r->first,
            (size_t)n * sizeof *r->first); /* ... which is the next one's beginning */
    r->first[0] = 0;
    return true;
}

/* May the node be marked, now that some of its targets are? */
static bool holds(const struct program *p, const struct program_node *n, const uint8_t *mark,
                  bool reading)
{
    switch (n->kind) {
    case NODE_BYTES:
        if (!reading)
            return false;
        /* fall through */
    case NODE_SPLIT:
        for (uint32_t i = 0; i < n->b; i++)
            if (mark[p->edges[n->a + i].target])
                return true;
        return false;
    case NODE_CALL:
        return mark[n->a] && mark[n->b];
    case NODE_REPEAT:
        return (n->c == 0 || mark[n->a]) && mark[n->b];
    case NODE_TOKEN:
        return reading && mark[n->b];
    default:
        return true;
    }
}

/* The least fixed point of `holds`, by a worklist. */
static bool spread(const struct program *p, uint8_t *mark, bool reading)
{
    struct reverse r;
    uint32_t n = p->header->n_nodes, n_work = 0;
    uint32_t *work = malloc(((size_t)n + 1) * sizeof *work);
    if (!work || !reverse_make(&r, p)) {
        free(work);
        return false;
    }
    memset(mark, 0, n);
    for (uint32_t i = 0; i < n; i++)
        if (p->nodes[i].kind == NODE_RETURN) {
            mark[i] = 1;
            work[n_work++] = i;
        }
    while (n_work) {
        uint32_t at = work[--n_work];
        for (uint32_t k = r.first[at]; k < r.first[at + 1]; k++) {
            uint32_t from = r.from[k];
            if (!mark[from] && holds(p, &p->nodes[from], mark, reading)) {
                mark[from] = 1;
                work[n_work++] = from;
            }
        }
    }
    free(work);
    free(r.first);
    free(r.from);
    return true;
}

bool program_nullable(const struct program *p, uint8_t *nullable)
{
    return spread(p, nullable, false);
}

bool program_productive(const struct program *p, uint8_t *productive)
{
    return spread(p, productive, true);
}

/* ---- left recursion: strongly connected parts of the graph of what is reached without reading
 * (Tarjan, with its own stack); an entered call inside one part is the fault */

struct tarjan {
    const struct program *p;
    const uint8_t *nullable;
    uint32_t *index, *low, *part; /* 0: not seen; part: 1 + number */
    uint32_t *stack, n_stack;
    struct {
        uint32_t node, next;
    } *path;
    uint32_t n_path, n_index, n_parts;
};

/* The next-th silent successor of a node; false: no more. */
static bool silent(const struct tarjan *t, uint32_t node, uint32_t next, uint32_t *to)
{
    const struct program_node *n = &t->p->nodes[node];
    if (n->kind == NODE_SPLIT) {
        if (next < n->b)
            *to = t->p->edges[n->a + next].target;
        return next < n->b;
    }
    if (n->kind != NODE_CALL && n->kind != NODE_REPEAT)
        return false;
    bool passes = t->nullable[n->a] || (n->kind == NODE_REPEAT && n->c == 0);
    *to = next ? n->b : n->a;
    return next == 0 || (next == 1 && passes);
}

static void enter(struct tarjan *t, uint32_t node)
{
    t->index[node] = t->low[node] = ++t->n_index;
    t->stack[t->n_stack++] = node;
    t->path[t->n_path].node = node;
    t->path[t->n_path++].next = 0;
}

static void leave(struct tarjan *t, uint32_t node)
{
    t->n_path--;
    if (t->n_path) {
        uint32_t above = t->path[t->n_path - 1].node;
        if (t->low[node] < t->low[above])
            t->low[above] = t->low[node];
    }
    if (t->low[node] != t->index[node])
        return;
    t->n_parts++;
    uint32_t member;
    do {
        member = t->stack[--t->n_stack];
        t->part[member] = t->n_parts;
    } while (member != node);
}

static void walk_from(struct tarjan *t, uint32_t root)
{
    enter(t, root);
    while (t->n_path) {
        uint32_t node = t->path[t->n_path - 1].node, to;
        if (!silent(t, node, t->path[t->n_path - 1].next++, &to))
            leave(t, node);
        else if (!t->index[to])
            enter(t, to);
        else if (!t->part[to] && t->index[to] < t->low[node])
            t->low[node] = t->index[to];
    }
}

int64_t program_left_recursion(const struct program *p, const uint8_t *nullable)
{
    uint32_t n = p->header->n_nodes;
    int64_t found = -2;
    struct tarjan t = {.p = p, .nullable = nullable};
    t.index = calloc((size_t)n * 3 + 1, sizeof *t.index);
    t.stack = malloc(((size_t)n + 1) * sizeof *t.stack);
    t.path = malloc(((size_t)n + 1) * sizeof *t.path);
    if (!t.index || !t.stack || !t.path)
        goto out;
    t.low = t.index + n;
    t.part = t.low + n;
    for (uint32_t i = 0; i < n; i++)
        if (!t.index[i])
            walk_from(&t, i);
    found = -1;
    for (uint32_t i = 0; i < n && found < 0; i++) {
        const struct program_node *at = &p->nodes[i];
        if ((at->kind == NODE_CALL || at->kind == NODE_REPEAT) && t.part[i] == t.part[at->a])
            found = i;
    }
out:
    free(t.index);
    free(t.stack);
    free(t.path);
    return found;
}

/* ---- the check */

static bool invalid(struct err *e, const char *what)
{
    return err_field(e, ERR_INPUT, "grammar", "the compiled grammar is broken: %s", what);
}

static bool check_node(const struct program *p, const struct program_node *n, int32_t n_vocab)
{
    uint32_t nodes = p->header->n_nodes, edges = p->header->n_edges;
    switch (n->kind) {
    case NODE_BYTES:
    case NODE_SPLIT:
        return n->b <= edges && n->a <= edges - n->b;
    case NODE_CALL:
        return n->a < nodes && n->b < nodes;
    case NODE_REPEAT:
        return n->a < nodes && n->b < nodes && n->c <= n->d && n->d > 0;
    case NODE_TOKEN:
        return n->a < (uint32_t)n_vocab && n->b < nodes;
    default:
        return n->kind == NODE_RETURN;
    }
}

static bool check_flow(const struct program *p, struct err *e)
{
    uint32_t n = p->header->n_nodes;
    uint8_t *mark = malloc(n);
    bool ok = mark && program_productive(p, mark);
    if (!ok) {
        err_set(e, ERR_NOMEM, "no memory to check a grammar");
        goto out;
    }
    for (uint32_t i = 0; i < n && ok; i++)
        ok = mark[i] || invalid(e, "it can come to where nothing may follow");
    if (!ok)
        goto out;
    ok = program_nullable(p, mark) || err_set(e, ERR_NOMEM, "no memory to check a grammar");
    for (uint32_t i = 0; i < n && ok; i++)
        if (p->nodes[i].kind == NODE_REPEAT && mark[p->nodes[i].a])
            ok = invalid(e, "it repeats what may be empty");
    if (ok) {
        int64_t left = program_left_recursion(p, mark);
        if (left != -1)
            ok = left == -2 ? err_set(e, ERR_NOMEM, "no memory to check a grammar")
                            : invalid(e, "it is left-recursive");
    }
out:
    free(mark);
    return ok;
}

bool program_open(struct program *p, const void *bytes, size_t len, int32_t n_vocab, struct err *e)
{
    const struct program_header *h = bytes;
    if (len < sizeof *h || h->magic != PROGRAM_MAGIC)
        return invalid(e, "no header");
    if (!h->n_nodes || h->n_nodes > PROGRAM_MAX_NODES || h->n_edges > PROGRAM_MAX_EDGES ||
        h->start >= h->n_nodes ||
        len != sizeof *h + h->n_nodes * sizeof *p->nodes + h->n_edges * sizeof *p->edges)
        return invalid(e, "its sizes don't fit");
    *p = (struct program){h, (const void *)(h + 1), NULL};
    p->edges = (const void *)(p->nodes + h->n_nodes);
    for (uint32_t i = 0; i < h->n_edges; i++)
        if (p->edges[i].lo > p->edges[i].hi || p->edges[i].target >= h->n_nodes)
            return invalid(e, "an edge leads nowhere");
    for (uint32_t i = 0; i < h->n_nodes; i++)
        if (!check_node(p, &p->nodes[i], n_vocab))
            return invalid(e, "a node points outside");
    return check_flow(p, e);
}
