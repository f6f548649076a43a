/* Follows an answer byte by byte with a small automaton per family of formats. Only the last bytes
 * are kept: every tag that ends a state is shorter than the tail. */
#include "engine/chat/content_gate.h"

#include <string.h>

#include "engine/chat/parse_format.h"

enum {
    CONTENT,
    START,
    REASONING,
    GAP,
    HARMONY_START,
    HARMONY_HEADER,
    HARMONY_REASONING,
    HARMONY_CONTENT
};

void content_gate_init(struct content_gate *g, const char *format, enum content_begin begin)
{
    *g = (struct content_gate){.format = format && *format ? parse_format_find(format) : NULL};
    if (!g->format)
        return;
    if (!strcmp(g->format->name, "harmony"))
        g->state = HARMONY_START + (begin == CONTENT_BEGINS_REASONING ? 2
                                    : begin == CONTENT_BEGINS_CONTENT ? 3
                                                                      : 0);
    else if (g->format->think_open)
        g->state = begin == CONTENT_BEGINS_FRESH       ? START
                   : begin == CONTENT_BEGINS_REASONING ? REASONING
                                                       : CONTENT;
}

enum content_begin content_gate_place(const struct content_gate *g)
{
    switch (g->state) {
    case START:
    case HARMONY_START:
        return CONTENT_BEGINS_FRESH;
    case REASONING:
    case HARMONY_REASONING:
        return CONTENT_BEGINS_REASONING;
    default:
        return CONTENT_BEGINS_CONTENT;
    }
}

static void enter(struct content_gate *g, int state)
{
    g->state = state;
    g->n_tail = 0;
}

static void remember(struct content_gate *g, char c)
{
    if (g->n_tail == CONTENT_GATE_TAIL)
        memmove(g->tail, g->tail + 1, --g->n_tail);
    g->tail[g->n_tail++] = c;
}

static bool ends_with(const struct content_gate *g, const char *tag)
{
    size_t n = strlen(tag);
    return g->n_tail >= n && !memcmp(g->tail + g->n_tail - n, tag, n);
}

/* Do all the bytes of this state make the beginning of the tag? 2: the whole of it. */
static int begins(const struct content_gate *g, const char *tag)
{
    size_t n = strlen(tag);
    if (g->n_tail > n || memcmp(g->tail, tag, g->n_tail))
        return 0;
    return g->n_tail == n ? 2 : 1;
}

/* Reasoning opens with the format's tag, behind white space at most. */
static enum content_verdict start_byte(struct content_gate *g, char c)
{
    if (!g->n_tail && parse_is_space(c))
        return CONTENT_UNDECIDED;
    remember(g, c);
    int fit = begins(g, g->format->think_open);
    if (fit == 1)
        return CONTENT_UNDECIDED;
    enter(g, fit == 2 ? REASONING : CONTENT);
    return fit == 2 ? CONTENT_OUTSIDE : CONTENT_INSIDE;
}

/* The header's bytes are no content; the channel that it names decides about the message. */
static enum content_verdict header_byte(struct content_gate *g, char c)
{
    remember(g, c);
    g->analysis = g->analysis || ends_with(g, "<|channel|>analysis");
    if (ends_with(g, "<|message|>")) {
        enter(g, g->analysis ? HARMONY_REASONING : HARMONY_CONTENT);
        g->analysis = false;
    }
    return CONTENT_OUTSIDE;
}

/* The answer begins inside a header. A text that does not begin as one is content. */
static enum content_verdict harmony_start_byte(struct content_gate *g, char c)
{
    static const char *const first[] = {"<|channel|>", "<|message|>", "<|constrain|>",
                                        "<|start|>",   " to=",        NULL};
    bool may = false;
    remember(g, c);
    for (int i = 0; first[i]; i++) {
        int fit = begins(g, first[i]);
        if (fit == 2) {
            g->state = HARMONY_HEADER; /* the tail stays: the channel's tag is part of the header */
            if (ends_with(g, "<|message|>"))
                enter(g, HARMONY_CONTENT);
            return CONTENT_OUTSIDE;
        }
        may = may || fit == 1;
    }
    if (may)
        return CONTENT_UNDECIDED;
    enter(g, HARMONY_CONTENT);
    return CONTENT_INSIDE;
}

static enum content_verdict message_byte(struct content_gate *g, char c)
{
    static const char *const ends[] = {"<|end|>", "<|return|>", "<|call|>", "<|start|>", NULL};
    enum content_verdict verdict = g->state == HARMONY_CONTENT ? CONTENT_INSIDE : CONTENT_OUTSIDE;
    remember(g, c);
    for (int i = 0; ends[i]; i++)
        if (ends_with(g, ends[i])) {
            enter(g, HARMONY_HEADER);
            return verdict;
        }
    return verdict;
}

enum content_verdict content_gate_byte(struct content_gate *g, char c)
{
    switch (g->state) {
    case START:
        return start_byte(g, c);
    case REASONING:
        remember(g, c);
        if (ends_with(g, g->format->think_close))
            enter(g, GAP);
        return CONTENT_OUTSIDE;
    case GAP: /* white space behind the reasoning is no content either */
        if (parse_is_space(c))
            return CONTENT_OUTSIDE;
        enter(g, CONTENT);
        return CONTENT_INSIDE;
    case HARMONY_START:
        return harmony_start_byte(g, c);
    case HARMONY_HEADER:
        return header_byte(g, c);
    case HARMONY_REASONING:
    case HARMONY_CONTENT:
        return message_byte(g, c);
    default:
        return CONTENT_INSIDE;
    }
}
