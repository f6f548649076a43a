/* An answer as a run of parts in the order in which the model wrote them: reasoning, text, calls.
 * The Responses and the Messages API show answers so. Fed by an inference's deltas; one thread owns
 * it. A zeroed struct is empty. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "engine/base/buf.h"
#include "fcgi/inference/generation.h"

enum part_kind { PART_REASONING, PART_TEXT, PART_CALL };

struct part {
    enum part_kind kind;
    struct buf text;                    /* of reasoning and text */
    const struct generation_call *call; /* PART_CALL: owned by the generation */
    struct buf logprobs;                /* kept by a view that shows them */
};

/* Told as the parts grow; any member may be NULL. */
struct parts_listener {
    void *context;
    void (*opened)(void *context, const struct part *part, int index);
    void (*grown)(void *context, const struct part *part, int index, const char *piece, size_t len);
    void (*closed)(void *context, const struct part *part, int index);
};

struct parts {
    struct part *at;
    int n, cap;
    bool open;   /* the last one may still grow */
    bool failed; /* no memory: the answer has a hole */
    struct parts_listener listener;
};

void parts_take(struct parts *p, const struct generation *g, const struct chat_delta *d);
void parts_close(struct parts *p); /* the answer is over */
void parts_fini(struct parts *p);

/* The part's text, or its call's arguments. Never NULL. */
const char *part_text(const struct part *p, size_t *len);
