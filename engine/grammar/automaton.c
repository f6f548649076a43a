/* Builds an automaton's states while they are reached: stacks and states are interned, the closure
 * finds what is reached without reading a byte, and each step is remembered. */
#include "engine/grammar/automaton.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/hash.h"

#define MAX_DEPTH 600   /* calls within calls: deeper nesting is not followed */
#define MAX_PLACES 4096 /* of one state */
#define MAX_BYTES                                                                                  \
    ((size_t)160 << 20) /* of one automaton without its masks; over it the job fails */

static bool out_of(struct automaton *a)
{
    a->exhausted = true;
    return false;
}

/* Grows an array to hold n + 1. */
static bool room(struct automaton *a, void *array, uint32_t n, uint32_t *cap, size_t size)
{
    if (n < *cap)
        return true;
    uint32_t larger = *cap ? *cap * 2 : 256;
    void *grown = larger * size > MAX_BYTES ? NULL : realloc(*(void **)array, larger * size);
    if (!grown)
        return out_of(a);
    a->bytes += (larger - *cap) * size;
    *(void **)array = grown;
    *cap = larger;
    return true;
}

/* ---- interning */

static uint64_t hash_frame(uint32_t parent, uint32_t node, uint32_t count)
{
    uint64_t h = ((uint64_t)parent << 32 | node) * 0x9E3779B97F4A7C15u ^
                 (uint64_t)count * 0xD6E8FEB86659FD93u;
    return h ^ h >> 29;
}

static bool index_grow(struct automaton *a, struct index *x,
                       uint64_t (*hash_of)(const struct automaton *, uint32_t))
{
    if (x->n * 2 < x->n_slots)
        return true;
    uint32_t n = x->n_slots ? x->n_slots * 2 : 512;
    uint32_t *slots = calloc(n, sizeof *slots);
    if (!slots)
        return out_of(a);
    for (uint32_t i = 0; i < x->n_slots; i++) {
        if (!x->slots[i])
            continue;
        uint32_t at = (uint32_t)hash_of(a, x->slots[i]) & (n - 1);
        while (slots[at])
            at = (at + 1) & (n - 1);
        slots[at] = x->slots[i];
    }
    a->bytes += (n - x->n_slots) * sizeof *slots;
    free(x->slots);
    x->slots = slots;
    x->n_slots = n;
    return true;
}

static uint64_t frame_hash_of(const struct automaton *a, uint32_t id)
{
    return hash_frame(a->frames[id].parent, a->frames[id].node, a->frames[id].count);
}

/* The number of a stack; 0 (which is no result) when it is too deep or there is no room. */
static uint32_t intern_frame(struct automaton *a, uint32_t parent, uint32_t node, uint32_t count)
{
    if (a->frames[parent].depth >= MAX_DEPTH || !index_grow(a, &a->frame_index, frame_hash_of))
        return 0;
    struct index *x = &a->frame_index;
    uint32_t at = (uint32_t)hash_frame(parent, node, count) & (x->n_slots - 1);
    for (; x->slots[at]; at = (at + 1) & (x->n_slots - 1)) {
        const struct frame *f = &a->frames[x->slots[at]];
        if (f->parent == parent && f->node == node && f->count == count)
            return x->slots[at];
    }
    if (!room(a, &a->frames, a->n_frames, &a->cap_frames, sizeof *a->frames))
        return 0;
    a->frames[a->n_frames] = (struct frame){parent, node, count, a->frames[parent].depth + 1};
    x->slots[at] = a->n_frames;
    x->n++;
    return a->n_frames++;
}

static uint64_t hash_places(const struct place *p, uint32_t n, bool may_end)
{
    return hash64(p, n * sizeof *p, may_end);
}

static uint64_t state_hash_of(const struct automaton *a, uint32_t id)
{
    const struct state *s = &a->states[id];
    return hash_places(a->places + s->first, s->n, s->may_end);
}

static int by_place(const void *x, const void *y)
{
    const struct place *a = x, *b = y;
    if (a->node != b->node)
        return a->node < b->node ? -1 : 1;
    return a->frame < b->frame ? -1 : a->frame > b->frame;
}

static bool add_places(struct automaton *a, const struct place *p, uint32_t n)
{
    while (a->n_places + n > a->cap_places)
        if (!room(a, &a->places, a->cap_places, &a->cap_places, sizeof *a->places))
            return false;
    memcpy(a->places + a->n_places, p, n * sizeof *p);
    a->n_places += n;
    return true;
}

static uint32_t new_state(struct automaton *a)
{
    uint32_t cap = a->cap_states;
    if (!room(a, &a->states, a->n_states, &a->cap_states, sizeof *a->states))
        return STATE_UNKNOWN;
    if (a->cap_states != cap) {
        uint32_t *steps = realloc(a->steps, (size_t)a->cap_states * a->n_classes * sizeof *steps);
        if (!steps) {
            a->cap_states = cap;
            out_of(a);
            return STATE_UNKNOWN;
        }
        a->steps = steps;
        a->bytes += (size_t)(a->cap_states - cap) * a->n_classes * sizeof *steps;
    }
    memset(a->steps + (size_t)a->n_states * a->n_classes, 0, a->n_classes * sizeof *a->steps);
    a->states[a->n_states] = (struct state){.first = a->n_places};
    return a->n_states++;
}

/* Interns the places that the closure found as a state. */
static uint32_t intern_state(struct automaton *a)
{
    if (a->exhausted)
        return STATE_UNKNOWN;
    if (!a->n_found && !a->found_end)
        return STATE_DEAD;
    qsort(a->found, a->n_found, sizeof *a->found, by_place);
    if (!index_grow(a, &a->state_index, state_hash_of))
        return STATE_UNKNOWN;
    struct index *x = &a->state_index;
    uint32_t at = (uint32_t)hash_places(a->found, a->n_found, a->found_end) & (x->n_slots - 1);
    for (; x->slots[at]; at = (at + 1) & (x->n_slots - 1)) {
        const struct state *s = &a->states[x->slots[at]];
        if (s->n == a->n_found && s->may_end == a->found_end &&
            !memcmp(a->places + s->first, a->found, s->n * sizeof *a->found))
            return x->slots[at];
    }
    uint32_t id = a->bytes > MAX_BYTES ? STATE_UNKNOWN : new_state(a);
    if (id == STATE_UNKNOWN || !add_places(a, a->found, a->n_found)) {
        out_of(a);
        return STATE_UNKNOWN;
    }
    struct state *s = &a->states[id];
    s->n = a->n_found;
    s->may_end = a->found_end;
    s->plain = a->found_plain;
    for (uint32_t i = 0; i < s->n; i++)
        s->has_tokens |= a->program.nodes[a->found[i].node].kind == NODE_TOKEN;
    x->slots[at] = id;
    x->n++;
    return id;
}

/* ---- closure: everything that is reached without reading */

static bool seen_before(struct automaton *a, uint32_t node, uint32_t frame)
{
    if (a->n_seen * 2 >= a->n_seen_slots) {
        uint32_t n = a->n_seen_slots ? a->n_seen_slots * 2 : 256;
        struct place *slots = calloc(n, sizeof *slots);
        if (!slots) {
            out_of(a);
            return true;
        }
        for (uint32_t i = 0; i < a->n_seen_slots; i++) {
            if (!a->seen[i].node)
                continue;
            uint32_t at = (uint32_t)hash_frame(a->seen[i].node, a->seen[i].frame, 0) & (n - 1);
            while (slots[at].node)
                at = (at + 1) & (n - 1);
            slots[at] = a->seen[i];
        }
        free(a->seen);
        a->seen = slots;
        a->n_seen_slots = n;
    }
    node++; /* 0: empty */
    uint32_t at = (uint32_t)hash_frame(node, frame, 0) & (a->n_seen_slots - 1);
    for (; a->seen[at].node; at = (at + 1) & (a->n_seen_slots - 1))
        if (a->seen[at].node == node && a->seen[at].frame == frame)
            return true;
    a->seen[at] = (struct place){node, frame};
    a->n_seen++;
    return false;
}

static void visit(struct automaton *a, uint32_t node, uint32_t frame)
{
    if (seen_before(a, node, frame) || !room(a, &a->work, a->n_work, &a->cap_work, sizeof *a->work))
        return;
    a->work[a->n_work++] = (struct place){node, frame};
}

static void visit_repeat(struct automaton *a, uint32_t node, uint32_t frame, uint32_t count)
{
    const struct program_node *n = &a->program.nodes[node];
    if (count >= n->c)
        visit(a, n->b, frame);
    if (n->d == PROGRAM_NO_MAX && count > n->c)
        count = n->c; /* from here on all counts are alike */
    if (n->d != PROGRAM_NO_MAX && count >= n->d)
        return;
    uint32_t left = n->d == PROGRAM_NO_MAX ? PLAIN_UNBOUNDED : n->d - count;
    if (n->flags & NODE_PLAIN_RUN && left > a->found_plain)
        a->found_plain = left;
    uint32_t inner = intern_frame(a, frame, node, count);
    if (inner)
        visit(a, n->a, inner);
}

static void visit_return(struct automaton *a, uint32_t frame)
{
    if (!frame) {
        a->found_end = true;
        return;
    }
    struct frame f = a->frames[frame];
    if (a->program.nodes[f.node].kind == NODE_REPEAT)
        visit_repeat(a, f.node, f.parent, f.count + 1);
    else
        visit(a, a->program.nodes[f.node].b, f.parent);
}

static void visit_call(struct automaton *a, uint32_t node, uint32_t frame)
{
    const struct program_node *n = &a->program.nodes[node];
    bool tail =
        a->program.nodes[n->b].kind == NODE_RETURN; /* nothing is left to do here: no frame */
    uint32_t inner = tail ? frame : intern_frame(a, frame, node, 0);
    if (tail || inner)
        visit(a, n->a, inner);
}

static void closure_begin(struct automaton *a)
{
    if (a->n_seen_slots > 4096) { /* grown by a rare one: small ones should not have to clear it */
        free(a->seen);
        a->seen = NULL;
        a->n_seen_slots = 0;
    } else if (a->n_seen)
        memset(a->seen, 0, a->n_seen_slots * sizeof *a->seen);
    a->n_seen = a->n_work = a->n_found = 0;
    a->found_end = false;
    a->found_plain = 0;
}

static void closure_run(struct automaton *a)
{
    while (a->n_work && !a->exhausted) {
        struct place at = a->work[--a->n_work];
        const struct program_node *n = &a->program.nodes[at.node];
        if (--a->budget < 0) {
            out_of(a);
            return;
        }
        switch (n->kind) {
        case NODE_SPLIT:
            if (n->flags & NODE_PLAIN_RUN)
                a->found_plain = PLAIN_UNBOUNDED;
            for (uint32_t i = 0; i < n->b; i++)
                visit(a, a->program.edges[n->a + i].target, at.frame);
            break;
        case NODE_CALL:
            visit_call(a, at.node, at.frame);
            break;
        case NODE_REPEAT:
            visit_repeat(a, at.node, at.frame, 0);
            break;
        case NODE_RETURN:
            visit_return(a, at.frame);
            break;
        default:
            if (a->n_found == MAX_PLACES ||
                !room(a, &a->found, a->n_found, &a->cap_found, sizeof *a->found)) {
                out_of(a);
                return;
            }
            a->found[a->n_found++] = at;
        }
    }
}

/* ---- steps */

void automaton_allow(struct automaton *a, int64_t visits)
{
    a->budget = visits;
    a->exhausted = false;
}

uint32_t automaton_step(struct automaton *a, uint32_t state, uint8_t byte)
{
    uint32_t class = a->classes[byte];
    uint32_t to = a->steps[(size_t)state * a->n_classes + class];
    if (to != STATE_UNKNOWN)
        return to;
    closure_begin(a);
    struct state s = a->states[state];
    a->budget -= s.n;
    for (uint32_t i = 0; i < s.n; i++) {
        struct place p = a->places[s.first + i];
        const struct program_node *n = &a->program.nodes[p.node];
        if (n->kind != NODE_BYTES)
            continue;
        for (uint32_t k = 0; k < n->b; k++) {
            const struct program_edge *edge = &a->program.edges[n->a + k];
            if (edge->lo <= byte && byte <= edge->hi)
                visit(a, edge->target, p.frame);
        }
    }
    closure_run(a);
    to = intern_state(a);
    a->steps[(size_t)state * a->n_classes + class] = to;
    return to;
}

uint32_t automaton_step_token(struct automaton *a, uint32_t state, int32_t id)
{
    struct state s = a->states[state];
    closure_begin(a);
    for (uint32_t i = 0; i < s.n; i++) {
        struct place p = a->places[s.first + i];
        const struct program_node *n = &a->program.nodes[p.node];
        if (n->kind == NODE_TOKEN && n->a == (uint32_t)id)
            visit(a, n->b, p.frame);
    }
    closure_run(a);
    return intern_state(a);
}

static uint32_t adopt_frame(struct automaton *a, const struct automaton *from, uint32_t frame)
{
    uint32_t chain[MAX_DEPTH + 1], n = 0, mine = 0;
    for (; frame; frame = from->frames[frame].parent)
        chain[n++] = frame;
    while (n-- > 0 && !a->exhausted) {
        const struct frame *f = &from->frames[chain[n]];
        mine = intern_frame(a, mine, f->node, f->count);
    }
    return mine;
}

uint32_t automaton_adopt(struct automaton *a, const struct automaton *from, uint32_t state)
{
    const struct state *s = &from->states[state];
    if (state <= STATE_DEAD)
        return state;
    closure_begin(a);
    for (uint32_t i = 0; i < s->n; i++) {
        struct place p = from->places[s->first + i];
        if (!room(a, &a->found, a->n_found, &a->cap_found, sizeof *a->found))
            return STATE_UNKNOWN;
        a->found[a->n_found++] = (struct place){p.node, adopt_frame(a, from, p.frame)};
    }
    a->found_end = s->may_end;
    a->found_plain = s->plain;
    return intern_state(a);
}

/* ---- life */

/* Bytes that no edge distinguishes share a class. */
static void find_classes(struct automaton *a)
{
    bool cut[257] = {0};
    uint32_t class = 0;
    for (uint32_t i = 0; i < a->program.header->n_nodes; i++) {
        const struct program_node *n = &a->program.nodes[i];
        for (uint32_t k = 0; n->kind == NODE_BYTES && k < n->b; k++) {
            cut[a->program.edges[n->a + k].lo] = true;
            cut[a->program.edges[n->a + k].hi + 1] = true;
        }
    }
    for (int byte = 0; byte < 256; byte++) {
        class += byte && cut[byte];
        a->classes[byte] = (uint8_t) class;
    }
    a->n_classes = class + 1;
}

bool automaton_init(struct automaton *a, const struct program *p, struct err *e)
{
    *a = (struct automaton){.program = *p};
    find_classes(a);
    automaton_allow(a, 1000000);
    /* A grammar may have no place to stop at: the lists are there all the same. */
    bool ok = room(a, &a->frames, 0, &a->cap_frames, sizeof *a->frames) &&
              room(a, &a->places, 0, &a->cap_places, sizeof *a->places) &&
              room(a, &a->found, 0, &a->cap_found, sizeof *a->found) && new_state(a) == 0 &&
              new_state(a) == STATE_UNKNOWN + 1;
    if (ok) {
        a->frames[a->n_frames++] = (struct frame){0};
        closure_begin(a);
        visit(a, p->header->start, 0);
        closure_run(a);
        a->start = intern_state(a);
        ok = a->start != STATE_UNKNOWN;
    }
    if (ok)
        return true;
    bool worn = a->budget < 0;
    automaton_fini(a);
    return err_field(e, worn ? ERR_LIMIT : ERR_NOMEM, "grammar",
                     "the grammar is too ambiguous to be followed");
}

void automaton_drop_mask(struct automaton *a, struct state *s)
{
    if (!s->mask)
        return;
    free(s->mask->list);
    free(s->mask->bits);
    free(s->mask);
    s->mask = NULL;
}

void automaton_fini(struct automaton *a)
{
    for (uint32_t i = 0; i < a->n_states; i++)
        automaton_drop_mask(a, &a->states[i]);
    free(a->frames);
    free(a->places);
    free(a->states);
    free(a->steps);
    free(a->frame_index.slots);
    free(a->state_index.slots);
    free(a->work);
    free(a->seen);
    free(a->found);
    struct program program = a->program;
    *a = (struct automaton){.program = program};
}

size_t automaton_bytes(const struct automaton *a)
{
    return a->bytes + a->mask_bytes;
}
