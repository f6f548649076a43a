/* A program while it is emitted from expressions: its nodes and edges, growing. Private to emit.c
 * and emit_class.c. After a failure (`over`, `nomem`) the functions below return harmless numbers.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/grammar/builder_state.h"

struct emit {
    struct builder *b;
    struct program_node *nodes;
    struct program_edge *edges;
    int32_t *owner; /* [n_nodes] the rule that a node belongs to, -1: none */
    uint32_t n_nodes, cap_nodes, n_edges, cap_edges;
    uint32_t *entry; /* [b->n] of rules; 0 (the RETURN node): not emitted yet */
    expr *queue;     /* rules to be emitted */
    uint32_t n_queue, cap_queue;
    int32_t rule; /* being emitted */
    struct {
        uint32_t next, node[4];
    } tail; /* shared continuation bytes in front of `next` */
    bool over, nomem;
    expr undefined;
};

bool emit_failed(const struct emit *m);
uint32_t emit_node(struct emit *m, struct program_node n);
/* Makes room for n edges and returns the place of the first. */
uint32_t emit_edges(struct emit *m, uint32_t n);
/* Adds a node that reads one byte lo .. hi and continues at `next`. */
uint32_t emit_byte_range(struct emit *m, uint8_t lo, uint8_t hi, uint32_t next);
/* One character of the class x, then `next`. */
uint32_t emit_class(struct emit *m, const struct expr_node *x, uint32_t next);
