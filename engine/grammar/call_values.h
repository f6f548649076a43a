/* What the formats of calls have in common: the arguments of a tool, as JSON or each by itself.
 * Private to call_*.c. */
#pragma once
#include "engine/grammar/answer_grammar.h"

struct answer {
    struct builder *b;
    struct json_schema *s;
    const struct answer_shape *a;
    struct err *e;
};

struct call_tags { /* open NAME between VALUE close; a value as text never holds `stop` */
    const char *open, *between, *close, *stop;
};

/* The arguments of tool i as a JSON object; -1: *x->e. */
expr call_arguments(struct answer *x, size_t i);
/* The same between tags, in the schema's order. */
expr call_parameters(struct answer *x, size_t i, const struct call_tags *tags);
