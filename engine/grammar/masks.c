/* Makes the mask of a state: which tokens the automaton takes from there. */
#include <stdlib.h>
#include <string.h>

#include "engine/grammar/grammar_internal.h"

#define LIST_MAX 1024 /* tokens of a mask that is kept as a list */

static void set_token(const struct token_trie *t, uint32_t *bits, int32_t id)
{
    for (; id >= 0; id = t->same[id])
        bits[id >> 5] |= 1u << (id & 31);
}

/* Sets all tokens of the tree that the automaton takes from this state. False: exhausted. */
static bool walk(struct mask_scratch *m, struct automaton *a, const struct trie *trie,
                 uint32_t state)
{
    const struct trie_node *nodes = trie->nodes;
    uint32_t n = trie->n;
    m->states[0] = state;
    for (uint32_t i = 0; i < n; m->nodes++) {
        const struct trie_node *at = &nodes[i];
        uint32_t from = m->states[at->depth];
        uint32_t to = a->steps[(size_t)from * a->n_classes + a->classes[at->byte]];
        if (to == STATE_UNKNOWN && (to = automaton_step(a, from, at->byte)) == STATE_UNKNOWN)
            return false;
        if (to == STATE_DEAD) {
            i = at->skip;
            continue;
        }
        if (at->token >= 0)
            set_token(m->trie, m->bits, at->token);
        if (at->depth + 1u < m->trie->max_len)
            m->states[at->depth + 1] = to;
        i++;
    }
    return true;
}

/* Is plain text read here by marked repeats alone? Then none longer than they take can follow. */
static bool plain_only(const struct automaton *a, const struct state *s)
{
    for (uint32_t i = 0; i < s->n; i++) {
        struct place p = a->places[s->first + i];
        const struct program_node *n = &a->program.nodes[p.node];
        const struct program_node *caller = &a->program.nodes[a->frames[p.frame].node];
        if (p.frame && caller->kind == NODE_REPEAT && caller->flags & NODE_PLAIN_RUN)
            continue;
        for (uint32_t k = 0; n->kind == NODE_BYTES && k < n->b; k++) {
            const struct program_edge *edge = &a->program.edges[n->a + k];
            bool quote = edge->lo == edge->hi && (edge->lo == '"' || edge->lo == '\\');
            if (edge->hi >= 0x20 && !quote)
                return false;
        }
    }
    return true;
}

static bool find_tokens(struct mask_scratch *m, struct automaton *a, uint32_t state)
{
    const struct token_trie *t = m->trie;
    struct state s = a->states[state];
    memset(m->bits, 0, t->n_words * sizeof *m->bits);
    if (s.plain) {
        uint32_t set = s.plain < TRIE_PLAIN_MAX ? s.plain : TRIE_PLAIN_MAX;
        memcpy(m->bits, t->plain_sets + (set - 1) * t->n_words, t->n_words * sizeof *m->bits);
    }
    if (s.plain < TRIE_PLAIN_MAX && !(s.plain && plain_only(a, &s)) &&
        !walk(m, a, &t->plain, state))
        return false;
    if (!walk(m, a, &t->other, state))
        return false;
    for (uint32_t i = 0; s.has_tokens && i < s.n; i++) {
        const struct program_node *n = &a->program.nodes[a->places[s.first + i].node];
        if (n->kind == NODE_TOKEN)
            m->bits[n->a >> 5] |= 1u << (n->a & 31);
    }
    for (size_t w = 0; s.may_end && w < t->n_words; w++)
        m->bits[w] |= t->ends[w];
    return true;
}

/* The set in m->bits, kept with its state. */
static bool keep_mask(struct mask_scratch *m, struct automaton *a, uint32_t state)
{
    struct cached_mask *mask = calloc(1, sizeof *mask);
    size_t n_words = m->trie->n_words;
    if (!mask)
        return false;
    for (size_t w = 0; w < n_words; w++)
        mask->n += __builtin_popcount(m->bits[w]);
    if (mask->n > LIST_MAX) {
        mask->bits = malloc(n_words * sizeof *mask->bits);
        if (mask->bits)
            memcpy(mask->bits, m->bits, n_words * sizeof *mask->bits);
    } else {
        int32_t k = 0;
        mask->list = malloc(((size_t)mask->n + 1) * sizeof *mask->list);
        for (size_t w = 0; mask->list && w < n_words; w++)
            for (uint32_t left = m->bits[w]; left; left &= left - 1)
                mask->list[k++] = (int32_t)(w * 32) + __builtin_ctz(left);
    }
    if (!mask->bits && !mask->list) {
        free(mask);
        return false;
    }
    a->mask_bytes += sizeof *mask + (mask->list ? (size_t)mask->n * 4 : a->mask_size);
    a->states[state].mask = mask;
    return true;
}

bool mask_make(struct mask_scratch *m, struct automaton *a, uint32_t state, struct err *e)
{
    if (!find_tokens(m, a, state))
        return grammar_too_much(e);
    return keep_mask(m, a, state) || err_set(e, ERR_NOMEM, "no memory for a grammar's tokens");
}

bool mask_scratch_init(struct mask_scratch *m, const struct token_trie *t, struct err *e)
{
    *m = (struct mask_scratch){
        .trie = t,
        .bits = malloc((t->n_words + 1) * sizeof *m->bits),
        .states = malloc(((size_t)t->max_len + 1) * sizeof *m->states),
    };
    if (m->bits && m->states)
        return true;
    mask_scratch_fini(m);
    return err_set(e, ERR_NOMEM, "no memory for grammars");
}

void mask_scratch_fini(struct mask_scratch *m)
{
    free(m->bits);
    free(m->states);
    *m = (struct mask_scratch){0};
}
