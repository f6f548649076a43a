/* Orders the nodes of an imported conversation so that parents come before children, as the store
 * wants them. */
#include "fcgi/import/draft_tree.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/arena.h"
#include "sql/core/secret.h"

enum { UNSEEN = -1, ON_PATH = -2 };

struct tree {
    struct draft *d;
    int *table; /* place by hash of the id; -1: free. n_table is a power of two */
    size_t n_table;
    int *parent;   /* node's parent node; -1: a root */
    int *order;    /* nodes by time */
    int64_t *when; /* node's time, or that of the node before it */
    int *placed;   /* UNSEEN, ON_PATH, or the message that stands for the node: its own, or its
                      nearest parent's + 1; 0: none */
    int *path;
    const char **thoughts; /* gathered on the way down through hidden nodes */
    struct store_import_message *messages;
    int n;
};

static bool bad_node(const struct draft_node *n, struct err *e, const char *what)
{
    return err_field(e, ERR_INPUT, n->id, "%s", what);
}

static int find(const struct tree *t, const char *id)
{
    for (size_t at = secret_table_hash(id) & (t->n_table - 1); t->table[at] >= 0;
         at = (at + 1) & (t->n_table - 1))
        if (!strcmp(t->d->nodes[t->table[at]].id, id))
            return t->table[at];
    return -1;
}

static bool fill_table(struct tree *t, struct err *e)
{
    for (size_t i = 0; i < t->n_table; i++)
        t->table[i] = -1;
    for (int i = 0; i < t->d->n_nodes; i++) {
        const char *id = t->d->nodes[i].id;
        if (find(t, id) >= 0)
            return bad_node(&t->d->nodes[i], e, "this id stands for two messages");
        size_t at = secret_table_hash(id) & (t->n_table - 1);
        while (t->table[at] >= 0)
            at = (at + 1) & (t->n_table - 1);
        t->table[at] = i;
    }
    return true;
}

static bool find_parents(struct tree *t, struct err *e)
{
    int roots = 0;
    for (int i = 0; i < t->d->n_nodes; i++) {
        const struct draft_node *n = &t->d->nodes[i];
        t->parent[i] = n->parent ? find(t, n->parent) : -1;
        if (n->parent && t->parent[i] < 0)
            return bad_node(n, e, "its parent does not exist");
        if (!n->parent && roots++ && t->d->one_root)
            return bad_node(n, e, "this is a second root; there must be one");
    }
    return roots || !t->d->n_nodes ||
           err_set(e, ERR_INPUT, "no message is the first: the parents run in a circle");
}

static int by_time(const void *a, const void *b, void *context)
{
    const int64_t *when = context;
    const int i = *(const int *)a, j = *(const int *)b;
    return when[i] != when[j] ? (when[i] > when[j]) - (when[i] < when[j]) : (i > j) - (i < j);
}

/* Its parent is placed. */
static bool place(struct tree *t, int i, struct err *e)
{
    struct draft_node *n = &t->d->nodes[i];
    const int parent = t->parent[i], above = parent >= 0 ? t->placed[parent] : 0;
    const char *thoughts = parent >= 0 && t->d->nodes[parent].hidden ? t->thoughts[parent] : NULL;
    if (n->hidden) {
        t->placed[i] = above;
        t->thoughts[i] = draft_join(t->d, thoughts, "\n\n", n->thoughts, e);
        return t->thoughts[i] != NULL;
    }
    struct store_import_message *m = &t->messages[t->n++];
    *m = n->message;
    m->parent = above - 1;
    t->placed[i] = t->n;
    if (thoughts && m->role == ROLE_ASSISTANT)
        m->reasoning = draft_join(t->d, thoughts, "\n\n", m->reasoning, e);
    return m->reasoning != NULL;
}

static bool place_with_parents(struct tree *t, int i, struct err *e)
{
    int depth = 0;
    for (; i >= 0 && t->placed[i] == UNSEEN; i = t->parent[i]) {
        t->placed[i] = ON_PATH;
        t->path[depth++] = i;
    }
    if (i >= 0 && t->placed[i] == ON_PATH)
        return bad_node(&t->d->nodes[i], e, "its parents run in a circle");
    while (depth > 0)
        if (!place(t, t->path[--depth], e))
            return false;
    return true;
}

static bool find_leaf(struct tree *t, struct err *e)
{
    struct draft *d = t->d;
    d->out.leaf = t->n - 1;
    if (!d->shown || !*d->shown)
        return true;
    int i = find(t, d->shown);
    if (i < 0)
        return err_set(e, ERR_INPUT, "the message that is shown last does not exist");
    if (t->placed[i] > 0)
        d->out.leaf = t->placed[i] - 1;
    return true;
}

static bool order(struct tree *t, struct err *e)
{
    const int n = t->d->n_nodes;
    for (int i = 0; i < n; i++) {
        const int64_t at = t->d->nodes[i].message.created_at;
        t->order[i] = i;
        t->when[i] = at || !i ? at : t->when[i - 1];
        t->placed[i] = UNSEEN;
    }
    if (!fill_table(t, e) || !find_parents(t, e))
        return false;
    if (n)
        qsort_r(t->order, (size_t)n, sizeof *t->order, by_time, t->when);
    for (int i = 0; i < n; i++)
        if (!place_with_parents(t, t->order[i], e))
            return false;
    return find_leaf(t, e);
}

bool draft_order(struct draft *d, struct store_import_message **messages, struct err *e)
{
    const size_t n = (size_t)d->n_nodes + 1;
    struct tree t = {.d = d, .n_table = 4};
    while (t.n_table < 2 * n)
        t.n_table *= 2;
    t.table = calloc(t.n_table, sizeof *t.table);
    t.parent = calloc(n, sizeof *t.parent);
    t.order = calloc(n, sizeof *t.order);
    t.when = calloc(n, sizeof *t.when);
    t.placed = calloc(n, sizeof *t.placed);
    t.path = calloc(n, sizeof *t.path);
    t.thoughts = calloc(n, sizeof *t.thoughts);
    t.messages = arena_alloc(d->arena, n * sizeof *t.messages);
    bool ok =
        t.table && t.parent && t.order && t.when && t.placed && t.path && t.thoughts && t.messages
            ? order(&t, e)
            : draft_no_memory(e);
    free(t.table);
    free(t.parent);
    free(t.order);
    free(t.when);
    free(t.placed);
    free(t.path);
    free(t.thoughts);
    *messages = t.messages;
    d->out.messages = t.messages;
    d->out.n_messages = t.n;
    return ok;
}
