/* Runs of a grammar: where an answer stands, which tokens may follow, and the cache of automata
 * that jobs with equal programs share. */
#include "engine/grammar/grammar.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/hash.h"
#include "engine/grammar/grammar_internal.h"

#define PUSH_VISITS 100000
#define PASS_VISITS 15000  /* of one pass in line, all runs together: about a millisecond */
#define NODES_PER_VISIT 10 /* of the tree of tokens, in time */
#define IDLE_MAX 32        /* automata without a run that are kept */
#define REBUILD_BYTES                                                                              \
    ((size_t)48 << 20) /* states of one automaton: over it they are found anew                     \
                        */

struct grammar_cache {
    const struct token_trie *trie;
    size_t max_bytes;
    uint64_t clock;
    struct entry *entries;
    struct mask_scratch scratch;
    struct mask_maker *maker; /* NULL until something is handed over */
    uint64_t pass;
    int64_t visits; /* that this pass may still spend itself */
};

struct grammar_run {
    struct grammar_cache *cache;
    struct entry *entry;
    struct grammar_run *previous, *next; /* of the entry */
    uint32_t state;
    bool ended;    /* a token ended the answer */
    uint64_t pass; /* in which it asked for a mask that was not there */
    int64_t spent; /* visits on that mask */
};

struct grammar_cache *grammar_cache_create(const struct token_trie *t, size_t max_bytes,
                                           struct err *e)
{
    struct grammar_cache *c = calloc(1, sizeof *c);
    if (!c) {
        err_set(e, ERR_NOMEM, "no memory for grammars");
        return NULL;
    }
    c->trie = t;
    c->pass = 1; /* no run asked in the one before */
    c->max_bytes = max_bytes ? max_bytes : (size_t)256 << 20;
    if (!mask_scratch_init(&c->scratch, t, e))
        grammar_cache_destroy(&c);
    return c;
}

static void entry_destroy(struct entry *x)
{
    automaton_fini(&x->a);
    free(x->program);
    free(x->wanted);
    free(x);
}

void grammar_cache_destroy(struct grammar_cache **c)
{
    if (!*c)
        return;
    mask_maker_destroy(&(*c)->maker);
    while ((*c)->entries) {
        struct entry *x = (*c)->entries;
        (*c)->entries = x->next;
        entry_destroy(x);
    }
    mask_scratch_fini(&(*c)->scratch);
    free(*c);
    *c = NULL;
}

size_t grammar_cache_bytes(const struct grammar_cache *c)
{
    size_t sum = 0;
    for (const struct entry *x = c->entries; x; x = x->next)
        sum += (x->busy ? x->bytes : automaton_bytes(&x->a)) + x->len;
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
            if ((*at)->runs || (*at)->busy)
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
            if (!x->busy)
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
    x->failed = STATE_UNKNOWN;
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

static struct grammar_run *add_run(struct grammar_cache *c, struct entry *x, struct err *e)
{
    struct grammar_run *r = calloc(1, sizeof *r);
    if (!r) {
        err_set(e, ERR_NOMEM, "no memory for a grammar");
        return NULL;
    }
    *r = (struct grammar_run){.cache = c, .entry = x, .state = x->a.start, .next = x->runs};
    if (x->runs)
        x->runs->previous = r;
    x->runs = r;
    x->used = ++c->clock;
    return r;
}

struct grammar_run *grammar_run_create(struct grammar_cache *c, const void *program, size_t len,
                                       struct err *e)
{
    uint64_t hash = hash64(program, len, 0);
    struct entry *x = find_entry(c, hash, program, len);
    if (!x)
        x = add_entry(c, hash, program, len, e);
    struct grammar_run *r = x ? add_run(c, x, e) : NULL;
    if (r)
        thin_out(c);
    return r;
}

struct grammar_run *grammar_run_fork(const struct grammar_run *r, struct err *e)
{
    struct grammar_run *fork = add_run(r->cache, r->entry, e);
    if (fork) {
        fork->state = r->state;
        fork->ended = r->ended;
    }
    return fork;
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

bool grammar_too_much(struct err *e)
{
    return err_field(e, ERR_LIMIT, "grammar", "the grammar is too ambiguous to be followed");
}

static bool over(const struct grammar_run *r)
{
    return r->ended || r->state == STATE_DEAD;
}

/* The state's mask that is there, if it is. */
static struct cached_mask *known_mask(const struct grammar_run *r)
{
    return r->entry->a.states[r->state].mask;
}

/* Takes back what the maker is done with. */
static void take_back(struct grammar_cache *c, double wait_ms)
{
    struct entry *x;
    while (c->maker && (x = mask_maker_take(c->maker, wait_ms)) != NULL) {
        x->busy = false;
        x->used = c->clock;
        wait_ms = 0;
    }
}

/* A mask in line; what it costs is taken from the pass's share. False: the share is spent. */
static bool make_now(struct grammar_cache *c, struct grammar_run *r)
{
    struct entry *x = r->entry;
    const int64_t nodes = c->scratch.nodes, share = c->visits;
    automaton_allow(&x->a, share);
    if (!mask_make(&c->scratch, &x->a, r->state, &x->why)) {
        r->spent = share;
        if (share >= MASK_VISITS) /* all that there is: what was too much stays too much */
            x->failed = r->state;
    }
    c->visits = x->a.budget - (c->scratch.nodes - nodes) / NODES_PER_VISIT;
    return known_mask(r) || x->failed == r->state;
}

/* No thread could be started, or memory is short. */
static void make_all_now(struct grammar_cache *c, struct entry *x)
{
    for (struct grammar_run *r = x->runs; r; r = r->next)
        if (r->pass == c->pass) {
            c->visits = MASK_VISITS;
            make_now(c, r);
            r->pass = 0;
        }
}

static void hand_over(struct grammar_cache *c, struct entry *x)
{
    uint32_t n = 0;
    struct err e = {0};
    for (const struct grammar_run *r = x->runs; r; r = r->next)
        n += r->pass == c->pass;
    struct wanted *wanted = realloc(x->wanted, (n + 1) * sizeof *wanted);
    x->wanted = wanted ? wanted : x->wanted;
    if (!wanted || (!c->maker && !(c->maker = mask_maker_create(c->trie, &e)))) {
        make_all_now(c, x);
        return;
    }
    x->n_wanted = 0;
    for (const struct grammar_run *r = x->runs; r; r = r->next)
        if (r->pass == c->pass)
            wanted[x->n_wanted++] = (struct wanted){r->state, MASK_VISITS - r->spent};
    x->bytes = automaton_bytes(&x->a);
    x->used = ++c->clock;
    x->busy = true;
    x->waited = false;
    mask_maker_give(c->maker, x);
}

void grammar_pass_begin(struct grammar_cache *c, bool alone)
{
    take_back(c, 0);
    c->pass++;
    c->visits = alone ? MASK_VISITS : PASS_VISITS;
}

void grammar_run_prepare(struct grammar_run *r)
{
    struct grammar_cache *c = r->cache;
    struct entry *x = r->entry;
    struct err e = {0};
    if (x->busy)
        return;
    bool ready = over(r) || (x->a.bytes > REBUILD_BYTES && !rebuild(x, &e)) || over(r) ||
                 known_mask(r) || x->failed == r->state;
    if (!ready && r->pass + 1 != c->pass) { /* else it was tried in the last pass */
        r->spent = 0;
        ready = c->visits > 0 && make_now(c, r);
    }
    if (x->pass != c->pass)
        x->any_ready = false;
    x->pass = c->pass;
    x->any_ready |= ready;
    if (!ready)
        r->pass = c->pass;
}

void grammar_pass_end(struct grammar_cache *c)
{
    for (struct entry *x = c->entries; x; x = x->next) {
        bool asked = false;
        for (const struct grammar_run *r = x->runs; r && x->pass == c->pass; r = r->next)
            asked |= r->pass == c->pass;
        if (asked && (!x->any_ready || x->waited))
            hand_over(c, x);
        else
            x->waited = asked;
    }
}

bool grammar_run_ready(const struct grammar_run *r)
{
    return !r->entry->busy && r->pass != r->cache->pass;
}

bool grammar_run_knows(const struct grammar_run *r)
{
    return !r->entry->busy && !over(r) && known_mask(r);
}

void grammar_pass_wait(struct grammar_cache *c, double ms)
{
    take_back(c, ms);
}

bool grammar_run_mask(struct grammar_run *r, struct grammar_mask *out, struct err *e)
{
    struct grammar_cache *c = r->cache;
    struct entry *x = r->entry;
    assert(!x->busy);
    if (x->a.bytes > REBUILD_BYTES && !rebuild(x, e))
        return false;
    if (grammar_cache_bytes(c) > c->max_bytes)
        thin_out(c);
    if (over(r))
        return err_field(e, ERR_INPUT, "grammar", "nothing may follow");
    if (x->failed == r->state) {
        x->failed = STATE_UNKNOWN;
        return err_field(e, x->why.code, x->why.field, "%s", x->why.text);
    }
    if (!known_mask(r)) {
        automaton_allow(&x->a, MASK_VISITS);
        if (!mask_make(&c->scratch, &x->a, r->state, e))
            return false;
    }
    struct cached_mask *m = known_mask(r);
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
            return grammar_too_much(e);
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
            return grammar_too_much(e);
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
