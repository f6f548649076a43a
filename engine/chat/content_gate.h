/* Which bytes of an answer's text are its content, and which are reasoning or the markup around it:
 * stop strings are looked for in the content only. It follows the same rules as chat_parser.h, but
 * keeps no text. Calls count as content. One gate belongs to one answer; not thread-safe. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct parse_format;

#define CONTENT_GATE_TAIL 24 /* bytes: the longest tag that is looked for, and more */

enum content_begin {                           /* where the prompt left the answer; on the wire */
                     CONTENT_BEGINS_FRESH,     /* it may begin with reasoning */
                     CONTENT_BEGINS_REASONING, /* inside an open reasoning block */
                     CONTENT_BEGINS_CONTENT,   /* the reasoning is over */
};

enum content_verdict {
    CONTENT_UNDECIDED, /* the next verdict that is another holds for this byte too */
    CONTENT_OUTSIDE,
    CONTENT_INSIDE,
};

struct content_gate { /* zeroed: everything is content */
    const struct parse_format *format;
    int state;
    bool analysis; /* harmony: the header that is being read names the channel of reasoning */
    size_t n_tail;
    char tail[CONTENT_GATE_TAIL]; /* the last bytes since the state began */
};

/* format: chat_traits.format; NULL, "" or unknown: everything is content. */
void content_gate_init(struct content_gate *g, const char *format, enum content_begin begin);
enum content_verdict content_gate_byte(struct content_gate *g, char c);
/* Where the answer stands after the text so far: the starting point of the gate of a job that
 * resumes it. */
enum content_begin content_gate_place(const struct content_gate *g);
