/* A compiled grammar: a recursive transition network over bytes and special tokens, as one run of
 * bytes that travels from the worker to the engine.
 *
 * Nodes with edges; a call enters another part of the network and comes back; a repeat is a call
 * with a counter, so that {0,1000} costs one node. Made by builder.h, run by automaton.h. A program
 * from outside is checked before it is used: every index in range, no way to call for ever without
 * reading, every node able to reach the end.
 *
 * Layout, little-endian: struct program_header, nodes, edges. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/err.h"

#define PROGRAM_MAGIC 0x31524753u /* "SGR1" */
#define PROGRAM_MAX_NODES 200000u
#define PROGRAM_MAX_EDGES 400000u
#define PROGRAM_MAX_BYTES                                                                          \
    (sizeof(struct program_header) + PROGRAM_MAX_NODES * sizeof(struct program_node) +             \
     PROGRAM_MAX_EDGES * sizeof(struct program_edge))
#define PROGRAM_NO_MAX UINT32_MAX

enum program_kind {
    NODE_BYTES,  /* edges [a, a + b): one byte in lo .. hi, then target; no edges: never */
    NODE_SPLIT,  /* edges [a, a + b): any target, nothing is read */
    NODE_CALL,   /* a: entry, b: node to resume at */
    NODE_REPEAT, /* a: entry, b: node to resume at, c .. d: repetitions; d PROGRAM_NO_MAX: unbounded
                  */
    NODE_TOKEN,  /* the special token with id a, then b */
    NODE_RETURN, /* the end of what was called, or of all */
    NODE_KIND__N
};

/* Any run of characters that a JSON string holds unescaped may be read here, over and over
 * (NODE_SPLIT), or as often as the repeat's body may still be entered (NODE_REPEAT). Lets masks
 * take such tokens all at once. */
#define NODE_PLAIN_RUN 1u

struct program_node {
    uint8_t kind, flags;
    uint16_t reserved;
    uint32_t a, b, c, d;
};

struct program_edge {
    uint8_t lo, hi;
    uint16_t reserved;
    uint32_t target;
};

struct program_header {
    uint32_t magic, n_nodes, n_edges, start;
};

struct program { /* a view; the bytes belong to someone else, aligned to 4 */
    const struct program_header *header;
    const struct program_node *nodes;
    const struct program_edge *edges;
};

/* Checks everything. ERR_INPUT; n_vocab: token ids must be under it. */
bool program_open(struct program *p, const void *bytes, size_t len, int32_t n_vocab, struct err *e);

/* Which nodes can reach their end without reading anything, which can reach it at all; arrays
 * [n_nodes] of 0 and 1 made by the caller. Linear. False: no memory. Shared by the check and by the
 * builder. */
bool program_nullable(const struct program *p, uint8_t *nullable);
bool program_productive(const struct program *p, uint8_t *productive);
/* A node from which a call leads back to itself before anything was read, or -1; -2: no memory. */
int64_t program_left_recursion(const struct program *p, const uint8_t *nullable);
