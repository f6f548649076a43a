/* Turns sampled tokens into text that may be shown: detokenizer, content gate, stop strings. Each
 * job has its own; owner: the loop thread. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/buf.h"
#include "engine/chat/content_gate.h"
#include "engine/sched/sampling/stop.h"
#include "engine/tokenizer/detokenizer.h"

struct text_output {
    struct detokenizer detokenizer;
    struct content_gate
        gate; /* stops are matched only in what it lets in; set by the owner; zeroed: all */
    struct stop_matcher *stops;
    bool ignore_stops;    /* set by the owner: stops are not matched now */
    struct buf piece;     /* one token's text between the detokenizer and the stops */
    struct buf undecided; /* what the gate has not decided about */
};

struct text_output_params {
    const struct vocab *vocab;
    bool special_text;        /* special tokens are spelled out */
    const char *const *stops; /* [n_stops] */
    int32_t n_stops;
};

bool text_output_init(struct text_output *a, const struct text_output_params *p, struct err *e);
void text_output_fini(struct text_output *a); /* accepts a zeroed struct */
/* Appends to out what may be shown after this token. Returns the index of the stop string that was
 * met, or -1. out->failed: no memory. */
int32_t text_output_push(struct text_output *a, int32_t id, struct buf *out);
/* The answer ended by anything but a stop string: appends what was held back. A stop may still
 * match. */
int32_t text_output_flush(struct text_output *a, struct buf *out);
