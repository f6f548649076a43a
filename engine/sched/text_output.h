/* Sampled tokens to text that may be shown: detokenizer, then stop strings. One answer belongs to one job;
 * owner: the loop thread. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/buf.h"
#include "engine/chat/content_gate.h"
#include "engine/sched/stop.h"
#include "engine/tokenizer/detokenizer.h"

struct text_output {
    struct detokenizer detokenizer;
    struct content_gate gate; /* stops are looked for in what it lets in; the owner sets it, zeroed lets in all */
    struct stop_matcher *stops;
    bool ignore_stops; /* the owner's: stops are not looked for now */
    struct buf piece;     /* one token's text on its way from the detokenizer to the stops */
    struct buf undecided; /* what the gate has not decided about */
};

bool text_output_init(struct text_output *a, const struct vocab *v, bool special_text, const char *const *stops, int32_t n_stop,
                 struct err *e);
void text_output_fini(struct text_output *a); /* accepts a zeroed struct */
/* Appends to out what may be shown after this token. Returns the index of the stop string that was met, or -1.
 * out->failed: no memory. */
int32_t text_output_push(struct text_output *a, int32_t id, struct buf *out);
/* The end, by anything but a stop string: appends what was held back. May still meet a stop in it. */
int32_t text_output_flush(struct text_output *a, struct buf *out);
