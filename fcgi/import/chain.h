/* What one message of another program becomes where it holds text, thoughts, calls and their
 * results in turn: a chain of ours. Its nodes have names of their own; what answers the message
 * names its id, which a hidden node at the chain's end carries. Strings are kept as they are and
 * must live as long as the draft. */
#pragma once
#include "fcgi/import/draft.h"

struct chain {
    struct draft *d;
    const char *id, *parent; /* of the next node; parent NULL: a root */
    const char *model;       /* of its answers; NULL: none */
    enum store_role role;    /* of who speaks */
    int at;                  /* index of the node being filled; -1: none yet */
    int n;                   /* nodes made */
    int64_t created_at;
};

/* The node that what is said goes to; behind a call or a result a new one. NULL: *e. Valid until
 * the next one is made. */
struct draft_node *chain_speaker(struct chain *c, struct err *e);
/* Nothing is added for "". */
bool chain_text(struct chain *c, const char *text, struct err *e);
bool chain_thoughts(struct chain *c, const char *text, struct err *e);
/* arguments: as draft_call takes them; id or name "": one is made up. */
bool chain_call(struct chain *c, const char *id, const char *name, const char *arguments,
                struct err *e);
bool chain_result(struct chain *c, const char *call_id, const char *text, struct err *e);
bool chain_end(struct chain *c, struct err *e);
