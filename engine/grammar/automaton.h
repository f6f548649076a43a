/* The automaton of one program, whose states are made when they are reached. A state is a set of
 * places in the network, each with the stack of calls it is in; stacks and states are interned, so
 * equal ones have equal numbers and each step from a state by a class of bytes is found once.
 * Private to this room. Owner: the engine's loop. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/err.h"
#include "engine/grammar/program.h"

#define STATE_UNKNOWN 0u /* a step that was not taken yet */
#define STATE_DEAD 1u    /* nothing can follow */
#define PLAIN_UNBOUNDED UINT32_MAX

struct place { /* a node that reads, and the stack under it */
    uint32_t node, frame;
};

struct frame { /* A call resumes at nodes[node].b; a repeat has done `count` rounds. */
    uint32_t parent, node, count;
    uint32_t depth;
};

struct cached_mask { /* a state's set of tokens */
    int32_t *list;
    uint32_t *bits;
    int32_t n;
    uint64_t used; /* clock of the last use */
};

struct state {
    uint32_t first, n; /* places */
    uint32_t plain;    /* characters of plain JSON text that may follow at least; PLAIN_UNBOUNDED */
    bool may_end, has_tokens;
    struct cached_mask *mask;
};

struct index { /* open addressing over numbers; 0: empty */
    uint32_t *slots, n_slots, n;
};

struct automaton {
    struct program program;
    uint8_t classes[256];
    uint32_t n_classes;
    uint32_t start;
    struct frame *frames; /* 0: the bottom */
    struct place *places;
    struct state *states; /* 0 and 1: see above */
    uint32_t *steps;      /* [n_states][n_classes] */
    uint32_t n_frames, cap_frames, n_places, cap_places, n_states, cap_states;
    struct index frame_index, state_index;
    /* of the closure under way */
    struct place *work, *seen;
    uint32_t n_work, cap_work, n_found, cap_found, n_seen_slots, n_seen;
    struct place *found;
    bool found_end;
    uint32_t found_plain;
    int64_t budget; /* visits that are left; see automaton_allow */
    bool exhausted; /* budget or memory */
    size_t bytes, mask_bytes;
    size_t mask_size; /* of one mask that is no list; set by the owner */
};

/* The program's bytes outlive it. */
bool automaton_init(struct automaton *a, const struct program *p, struct err *e);
void automaton_fini(struct automaton *a);
/* Sets the work that the following steps may do together. */
void automaton_allow(struct automaton *a, int64_t visits);
/* The state after a byte; STATE_DEAD: none; STATE_UNKNOWN: exhausted. */
uint32_t automaton_step(struct automaton *a, uint32_t state, uint8_t byte);
/* The state after a special token. */
uint32_t automaton_step_token(struct automaton *a, uint32_t state, int32_t id);
/* The same state of another automaton over the same program; STATE_UNKNOWN: exhausted. */
uint32_t automaton_adopt(struct automaton *a, const struct automaton *from, uint32_t state);
size_t automaton_bytes(const struct automaton *a);
void automaton_drop_mask(struct automaton *a, struct state *s);
