/* The automaton of Aho and Corasick over characters, as right-linear rules: one for each beginning
 * of a string. */
#include "engine/grammar/expr_without.h"

#include <string.h>

#include "engine/base/utf8.h"

struct beginnings {                    /* node 0: nothing of any string */
    uint32_t cp[TEXT_WITHOUT_MAX + 1]; /* the last character */
    int parent[TEXT_WITHOUT_MAX + 1], fail[TEXT_WITHOUT_MAX + 1];
    bool whole[TEXT_WITHOUT_MAX + 1];
    int n;
};

static int child_of(const struct beginnings *t, int node, uint32_t cp)
{
    for (int i = 1; i < t->n; i++)
        if (t->parent[i] == node && t->cp[i] == cp)
            return i;
    return -1;
}

static bool add(struct beginnings *t, const char *stop)
{
    int node = 0;
    while (*stop) {
        uint32_t cp;
        stop += utf8_next((const unsigned char *)stop, &cp);
        int next = child_of(t, node, cp);
        if (next < 0) {
            if (t->n > TEXT_WITHOUT_MAX)
                return false;
            next = t->n++;
            t->cp[next] = cp;
            t->parent[next] = node;
            t->whole[next] = false;
        }
        node = next;
    }
    t->whole[node] = true;
    return true;
}

static int step(const struct beginnings *t, int node, uint32_t cp)
{
    for (;;) {
        int next = child_of(t, node, cp);
        if (next >= 0)
            return next;
        if (!node)
            return 0;
        node = t->fail[node];
    }
}

/* Shorter beginnings first: strings are added one after another, so by depth. */
static void link(struct beginnings *t)
{
    int depth[TEXT_WITHOUT_MAX + 1] = {0}, deepest = 0;
    for (int i = 1; i < t->n; i++) {
        depth[i] = depth[t->parent[i]] + 1;
        deepest = depth[i] > deepest ? depth[i] : deepest;
    }
    t->fail[0] = 0;
    for (int d = 1; d <= deepest; d++)
        for (int i = 1; i < t->n; i++) {
            if (depth[i] != d)
                continue;
            t->fail[i] = d == 1 ? 0 : step(t, t->fail[t->parent[i]], t->cp[i]);
            t->whole[i] |= t->whole[t->fail[i]];
        }
}

expr expr_text_without(struct builder *b, const char *const *stops, size_t n, expr after)
{
    struct beginnings t = {.n = 1};
    expr rules[TEXT_WITHOUT_MAX + 1] = {0};
    struct cp_range letters[TEXT_WITHOUT_MAX + 2] = {{0, 0}};
    size_t n_letters = 1;
    for (size_t i = 0; i < n; i++)
        if (!add(&t, stops[i]))
            return expr_never(b);
    link(&t);
    for (int i = 0; i < t.n; i++)
        rules[i] = expr_rule(b, NULL);
    for (int i = 1; i < t.n; i++) {
        bool known = false;
        for (size_t k = 1; k < n_letters; k++)
            known = known || letters[k].lo == t.cp[i];
        if (!known)
            letters[n_letters++] = (struct cp_range){t.cp[i], t.cp[i]};
    }
    expr other = expr_seq2(b, expr_class_not(b, letters, n_letters), rules[0]);
    for (int i = 0; i < t.n; i++) {
        struct expr_list all = {0};
        expr_list_add(b, &all, after);
        expr_list_add(b, &all, other);
        for (size_t k = 1; k < n_letters; k++) {
            int to = step(&t, i, letters[k].lo);
            if (!t.whole[to])
                expr_list_add(b, &all, expr_seq2(b, expr_class(b, &letters[k], 1), rules[to]));
        }
        expr_define(b, rules[i], expr_alt_list(b, &all));
    }
    return rules[0];
}
