/* Runs of a grammar: where an answer stands, which tokens may follow, and the cache of automata
 * that jobs with equal programs share. */
#include "engine/grammar/grammar.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/hash.h"
#include "engine/grammar/automaton.h"

#define MASK_VISITS 150000 /* work of one mask at most: about ten milliseconds */
#define PUSH_VISITS 100000
#define LIST_MAX 1024 /* tokens of a mask that is kept as a list */
#define IDLE_MAX 32   /* automata without a run that are kept */
#define REBUILD_BYTES                                                                              \
    ((size_t)48 << 20) /* states of one automaton: over it they are found anew                     \
                        */

struct entry { /* one program */
    struct entry *next;
    uint64_t hash, used;
    void *program;
    size_t len;
    struct automaton a;
    struct grammar_run *runs;
};

struct grammar_cache {
    const struct token_trie *trie;
    size_t max_bytes;
    uint64_t clock;
    struct entry *entries;
    uint32_t *bits;   /* [n_words] of the mask being made */
    uint32_t *states; /* [max_len + 1] of the walk, by depth */
};

struct grammar_run {
    struct grammar_cache *cache;
    struct entry *entry;
    struct grammar_run *previous, *next; /* of the entry */
    uint32_t state;
    bool ended; /* a token ended the answer */
};

struct grammar_cache *grammar_cache_create(const struct token_trie *t, size_t max_bytes,
                                           struct err *e)
{
    struct grammar_cache *c = calloc(1, sizeof *c);
    if (c) {
        c->trie = t;
        c->max_bytes = max_bytes ? max_bytes : (size_t)256 << 20;
        c->bits = malloc((t->n_words + 1) * sizeof *c->bits);
        c->states = malloc(((size_t)t->max_len + 1) * sizeof *c->states);
    }
    if (!c || !c->bits || !c->states) {
        err_set(e, ERR_NOMEM, "no memory for grammars");
        grammar_cache_destroy(&c);
    }
    return c;
}

static void entry_destroy(struct entry *x)
{
    automaton_fini(&x->a);
    free(x->program);
    free(x);
}

void grammar_cache_destroy(struct grammar_cache **c)
{
    if (!*c)
        return;
    while ((*c)->entries) {
        struct entry *x = (*c)->entries;
        (*c)->entries = x->next;
        entry_destroy(x);
    }
    free((*c)->bits);
    free((*c)->states);
    free(*c);
    *c = NULL;
}

size_t grammar_cache_bytes(const struct grammar_cache *c)
{
    size_t sum = 0;
    for (const struct entry *x = c->entries; x; x = x->next)
        sum += automaton_bytes(&x->a) + x->len;
    return sum;
}

/* ---- keeping within bounds */

static void drop_masks_before(struct entry *x, uint64_t clock)
{
    for (uint32_t i = 0; i < x->a.n_states; i++) {
        struct state *s = &x->a.states[i];
        if (!s->mask || s->mask->used >= clock)
            continue;
        x->a.mask_bytes -=
            sizeof *s->mask + (s->mask->list ? (size_t)s->mask->n * 4 : x->a.mask_size);
        automaton_drop_mask(&x->a, s);
    }
}

/* Idle automata that were not used for longest go first, then the masks that were not. */
static void thin_out(struct grammar_cache *c)
{
    for (;;) {
        struct entry **oldest = NULL;
        int idle = 0;
        for (struct entry **at = &c->entries; *at; at = &(*at)->next) {
            if ((*at)->runs)
                continue;
            idle++;
            if (!oldest || (*at)->used < (*oldest)->used)
                oldest = at;
        }
        if (!oldest || (idle <= IDLE_MAX && grammar_cache_bytes(c) <= c->max_bytes))
            break;
        struct entry *x = *oldest;
        *oldest = x->next;
        entry_destroy(x);
    }
    for (uint64_t age = 4096; grammar_cache_bytes(c) > c->max_bytes; age /= 2) {
        for (struct entry *x = c->entries; x; x = x->next)
            drop_masks_before(x, c->clock > age ? c->clock - age : 0);
        if (!age)
            break;
    }
}

/* Too many states: the ones that runs stand in are taken over into a new automaton. */
static bool rebuild(struct entry *x, struct err *e)
{
    struct automaton fresh;
    if (!automaton_init(&fresh, &x->a.program, e))
        return false;
    fresh.mask_size = x->a.mask_size;
    for (struct grammar_run *r = x->runs; r; r = r->next) {
        r->state = automaton_adopt(&fresh, &x->a, r->state);
        if (r->state == STATE_UNKNOWN)
            r->state = STATE_DEAD; /* out of memory: this run ends with an error */
    }
    automaton_fini(&x->a);
    x->a = fresh;
    return true;
}

/* ---- runs */

static struct entry *find_entry(struct grammar_cache *c, uint64_t hash, const void *program,
                                size_t len)
{
    for (struct entry *x = c->entries; x; x = x->next)
        if (x->hash == hash && x->len == len && !memcmp(x->program, program, len))
            return x;
    return NULL;
}

static struct entry *add_entry(struct grammar_cache *c, uint64_t hash, const void *program,
                               size_t len, struct err *e)
{
    struct entry *x = calloc(1, sizeof *x);
    struct program p;
    if (!x || !(x->program = malloc(len + 1))) {
        free(x);
        err_set(e, ERR_NOMEM, "no memory for a grammar");
        return NULL;
    }
    memcpy(x->program, program, len);
    x->len = len;
    x->hash = hash;
    if (!program_open(&p, x->program, len, c->trie->n_vocab, e) || !automaton_init(&x->a, &p, e)) {
        free(x->program);
        free(x);
        return NULL;
    }
    x->a.mask_size = c->trie->n_words * sizeof(uint32_t);
    x->next = c->entries;
    c->entries = x;
    return x;
}

struct grammar_run *grammar_run_create(struct grammar_cache *c, const void *program, size_t len,
                                       struct err *e)
{
    uint64_t hash = hash64(program, len, 0);
    struct entry *x = find_entry(c, hash, program, len);
    if (!x)
        x = add_entry(c, hash, program, len, e);
    struct grammar_run *r = x ? calloc(1, sizeof *r) : NULL;
    if (!r) {
        if (x)
            err_set(e, ERR_NOMEM, "no memory for a grammar");
        return NULL;
    }
    *r = (struct grammar_run){.cache = c, .entry = x, .state = x->a.start, .next = x->runs};
    if (x->runs)
        x->runs->previous = r;
    x->runs = r;
    x->used = ++c->clock;
    thin_out(c);
    return r;
}

void grammar_run_destroy(struct grammar_run **at)
{
    struct grammar_run *r = *at;
    if (!r)
        return;
    *(r->previous ? &r->previous->next : &r->entry->runs) = r->next;
    if (r->next)
        r->next->previous = r->previous;
    thin_out(r->cache);
    free(r);
    *at = NULL;
}

/* ---- masks */

static void set_token(const struct token_trie *t, uint32_t *bits, int32_t id)
{
    for (; id >= 0; id = t->same[id])
        bits[id >> 5] |= 1u << (id & 31);
}

/* Sets all tokens of the tree that the automaton takes from this state. False: exhausted. */
static bool walk(struct grammar_cache *c, struct automaton *a, const struct trie *trie,
                 uint32_t state)
{
    const struct trie_node *nodes = trie->nodes;
    uint32_t n = trie->n;
    c->states[0] = state;
    for (uint32_t i = 0; i < n;) {
        const struct trie_node *at = &nodes[i];
        uint32_t from = c->states[at->depth];
        uint32_t to = a->steps[(size_t)from * a->n_classes + a->classes[at->byte]];
        if (to == STATE_UNKNOWN && (to = automaton_step(a, from, at->byte)) == STATE_UNKNOWN)
            return false;
        if (to == STATE_DEAD) {
            i = at->skip;
            continue;
        }
        if (at->token >= 0)
            set_token(c->trie, c->bits, at->token);
        if (at->depth + 1u < c->trie->max_len)
            c->states[at->depth + 1] = to;
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

static bool find_tokens(struct grammar_cache *c, struct automaton *a, uint32_t state)
{
    const struct token_trie *t = c->trie;
    struct state s = a->states[state];
    memset(c->bits, 0, t->n_words * sizeof *c->bits);
    if (s.plain) {
        uint32_t set = s.plain < TRIE_PLAIN_MAX ? s.plain : TRIE_PLAIN_MAX;
        memcpy(c->bits, t->plain_sets + (set - 1) * t->n_words, t->n_words * sizeof *c->bits);
    }
    if (s.plain < TRIE_PLAIN_MAX && !(s.plain && plain_only(a, &s)) &&
        !walk(c, a, &t->plain, state))
        return false;
    if (!walk(c, a, &t->other, state))
        return false;
    for (uint32_t i = 0; s.has_tokens && i < s.n; i++) {
        const struct program_node *n = &a->program.nodes[a->places[s.first + i].node];
        if (n->kind == NODE_TOKEN)
            c->bits[n->a >> 5] |= 1u << (n->a & 31);
    }
    for (size_t w = 0; s.may_end && w < t->n_words; w++)
        c->bits[w] |= t->ends[w];
    return true;
}

/* The set in c->bits, kept with its state. */
static struct cached_mask *keep_mask(struct grammar_cache *c, struct automaton *a, uint32_t state)
{
    struct cached_mask *m = calloc(1, sizeof *m);
    size_t n_words = c->trie->n_words;
    if (!m)
        return NULL;
    for (size_t w = 0; w < n_words; w++)
        m->n += __builtin_popcount(c->bits[w]);
    if (m->n > LIST_MAX) {
        m->bits = malloc(n_words * sizeof *m->bits);
        if (m->bits)
            memcpy(m->bits, c->bits, n_words * sizeof *m->bits);
    } else {
        int32_t k = 0;
        m->list = malloc(((size_t)m->n + 1) * sizeof *m->list);
        for (size_t w = 0; m->list && w < n_words; w++)
            for (uint32_t left = c->bits[w]; left; left &= left - 1)
                m->list[k++] = (int32_t)(w * 32) + __builtin_ctz(left);
    }
    if (!m->bits && !m->list) {
        free(m);
        return NULL;
    }
    a->mask_bytes += sizeof *m + (m->list ? (size_t)m->n * 4 : a->mask_size);
    a->states[state].mask = m;
    return m;
}

static bool too_much(struct err *e)
{
    return err_field(e, ERR_LIMIT, "grammar", "the grammar is too ambiguous to be followed");
}

bool grammar_run_mask(struct grammar_run *r, struct grammar_mask *out, struct err *e)
{
    struct grammar_cache *c = r->cache;
    struct entry *x = r->entry;
    if (x->a.bytes > REBUILD_BYTES && !rebuild(x, e))
        return false;
    if (grammar_cache_bytes(c) > c->max_bytes)
        thin_out(c);
    if (r->ended || r->state == STATE_DEAD)
        return err_field(e, ERR_INPUT, "grammar", "nothing may follow");
    struct cached_mask *m = x->a.states[r->state].mask;
    if (!m) {
        automaton_allow(&x->a, MASK_VISITS);
        if (!find_tokens(c, &x->a, r->state))
            return too_much(e);
        m = keep_mask(c, &x->a, r->state);
        if (!m)
            return err_set(e, ERR_NOMEM, "no memory for a grammar's tokens");
    }
    m->used = ++c->clock;
    x->used = c->clock;
    *out = (struct grammar_mask){m->n, m->list, m->bits};
    return m->n ||
           err_field(e, ERR_INPUT, "grammar", "no token of this model's vocabulary can go on");
}

static bool push_bytes(struct grammar_run *r, const uint8_t *bytes, size_t len, struct err *e)
{
    struct automaton *a = &r->entry->a;
    uint32_t state = r->state;
    automaton_allow(a, PUSH_VISITS);
    for (size_t i = 0; i < len && state != STATE_DEAD; i++) {
        state = automaton_step(a, state, bytes[i]);
        if (state == STATE_UNKNOWN)
            return too_much(e);
    }
    if (state == STATE_DEAD)
        return err_field(e, ERR_INPUT, "grammar", "this can't follow here");
    r->state = state;
    return true;
}

bool grammar_run_push_bytes(struct grammar_run *r, const void *bytes, size_t len, struct err *e)
{
    return push_bytes(r, bytes, len, e);
}

bool grammar_run_push(struct grammar_run *r, int32_t id, struct err *e)
{
    const struct token_trie *t = r->cache->trie;
    struct automaton *a = &r->entry->a;
    size_t len;
    if (id < 0 || id >= t->n_vocab || r->ended || r->state == STATE_DEAD)
        return err_field(e, ERR_INPUT, "grammar", "this can't follow here");
    if (t->ends[id >> 5] >> (id & 31) & 1 && a->states[r->state].may_end) {
        r->ended = true;
        return true;
    }
    if (a->states[r->state].has_tokens) {
        automaton_allow(a, PUSH_VISITS);
        uint32_t state = automaton_step_token(a, r->state, id);
        if (state == STATE_UNKNOWN)
            return too_much(e);
        if (state != STATE_DEAD) {
            r->state = state;
            return true;
        }
    }
    const char *bytes = vocab_bytes(t->vocab, id, &len);
    if (!len || vocab_flags(t->vocab, id) & (VOCAB_SPECIAL | VOCAB_UNUSED))
        return err_field(e, ERR_INPUT, "grammar", "this can't follow here");
    return push_bytes(r, (const uint8_t *)bytes, len, e);
}

bool grammar_run_may_end(const struct grammar_run *r)
{
    return r->ended || r->entry->a.states[r->state].may_end;
}

bool grammar_run_must_end(const struct grammar_run *r)
{
    const struct state *s = &r->entry->a.states[r->state];
    return r->ended || (s->may_end && !s->n);
}
