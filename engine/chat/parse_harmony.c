/* gpt-oss: messages with a header that names channel and recipient. The answer begins behind
 * "<|start|>assistant", inside a header. Headers are never shown; each message's text goes by its
 * header. */
#include <string.h>

#include "engine/chat/parse_format.h"

#define MAX_HEADER 4096

enum { FIRST, HEADER, BETWEEN, REASONING, CONTENT, CALL };

static const char *const ends[] = {"<|end|>", "<|return|>", "<|call|>", "<|start|>", NULL};

void parse_harmony_begin(struct chat_parser *p)
{
    p->state = FIRST;
}

/* Is `held` the beginning of one of these? 2: one is whole, *which tells. */
static int match(const struct buf *held, const char *const *tags, int *which)
{
    int best = 0;
    for (int i = 0; tags[i]; i++) {
        size_t n = strlen(tags[i]);
        if (held->len > n || memcmp(held->data, tags[i], held->len))
            continue;
        if (held->len == n) {
            *which = i;
            return 2;
        }
        best = 1;
    }
    return best;
}

/* The word behind `mark` in the header, up to white space or a tag. */
static bool header_word(const struct buf *header, const char *mark, struct buf *out)
{
    buf_clear(out);
    const char *at = header->len ? memmem(header->data, header->len, mark, strlen(mark)) : NULL;
    if (!at)
        return false;
    for (at += strlen(mark);
         at < header->data + header->len && (unsigned char)*at > ' ' && *at != '<'; at++)
        buf_putc(out, *at);
    return out->len > 0;
}

static bool word_is(const struct buf *b, const char *word)
{
    return b->len == strlen(word) && !memcmp(b->data, word, b->len);
}

/* The header in p->raw decides what the message's text is. */
static void read_header(struct chat_parser *p)
{
    bool called = header_word(&p->raw, "to=", &p->name);
    header_word(&p->raw, "<|channel|>", &p->key);
    if (called && p->tools && !word_is(&p->name, "assistant") && !word_is(&p->name, "user")) {
        p->state = CALL;
        if (p->name.len > 10 && !memcmp(p->name.data, "functions.", 10))
            buf_consume(&p->name, 10);
    } else {
        p->state = word_is(&p->key, "analysis") ? REASONING : CONTENT;
        p->join = p->any[p->state == CONTENT];
    }
    buf_clear(&p->raw);
    buf_clear(&p->value);
    p->streamed = false;
}

/* A byte of a call's arguments, which are streamed from the opening brace on if the name is a
 * tool's. What comes behind the whole object, or does not fit in it, is kept as it is: then there
 * is no end of the call. */
static void call_byte(struct chat_parser *p, char c)
{
    if (!p->streamed && c == '{' && !p->value.len) {
        buf_clear(&p->arguments);
        json_machine_begin(&p->json);
        p->ended = false;
        parse_stream_begin(p);
    }
    if (!p->streamed) {
        if ((p->value.len || !parse_is_space(c)) && !buf_putc(&p->value, c))
            p->failed = true;
        return;
    }
    if (p->ended && parse_is_space(c))
        return;
    p->ended = p->ended || json_machine_byte(&p->json, c) == JSON_WHOLE;
    parse_stream_byte(p, c);
}

static void message_text(struct chat_parser *p, const char *text, size_t len)
{
    if (len == 0)
        return;
    if (p->state == CALL) {
        for (size_t i = 0; i < len; i++)
            call_byte(p, text[i]);
        return;
    }
    enum chat_delta_type type = p->state == REASONING ? CHAT_REASONING : CHAT_CONTENT;
    if (p->join)
        parse_text(p, type, "\n", 1);
    p->join = false;
    parse_text(p, type, text, len);
}

/* The message is over; a call's text is its arguments, or content when it is no JSON object. */
static void end_message(struct chat_parser *p)
{
    if (p->state == CALL) {
        if (p->streaming) {
            parse_stream_end(p);
        } else if (parse_clean_object(p->value.data ? p->value.data : "", p->value.len,
                                      &p->arguments)) {
            parse_give_call(p, p->name.data, p->name.len, p->arguments.data, p->arguments.len);
        } else {
            p->state = CONTENT;
            p->join = p->any[1];
            message_text(p, p->value.data, p->value.len);
        }
        buf_clear(&p->value);
    }
    p->state = BETWEEN;
}

static void body_byte(struct chat_parser *p)
{
    int which;
    while (p->held.len && !p->failed) {
        int fit = match(&p->held, ends, &which);
        if (fit == 2) {
            buf_clear(&p->held);
            end_message(p);
            if (which == 3)
                p->state = HEADER;
        }
        if (fit)
            return;
        message_text(p, p->held.data, 1);
        buf_consume(&p->held, 1);
    }
}

static void header_byte(struct chat_parser *p, char c)
{
    static const char end[] = "<|message|>";
    size_t n = sizeof end - 1;
    if (!buf_putc(&p->raw, c))
        p->failed = true;
    if (p->raw.len >= n && !memcmp(p->raw.data + p->raw.len - n, end, n)) {
        p->raw.len -= n;
        p->raw.data[p->raw.len] = 0;
        read_header(p);
    } else if (p->raw.len > MAX_HEADER) { /* no header is that long: it is text */
        p->state = CONTENT;
        p->join = p->any[1];
        message_text(p, p->raw.data, p->raw.len);
        buf_clear(&p->raw);
    }
}

/* Text where a header should begin, or the beginning of one. */
static void outside_byte(struct chat_parser *p)
{
    static const char *const first[] = {"<|channel|>", "<|message|>", "<|constrain|>",
                                        "<|start|>",   " to=",        NULL};
    static const char *const later[] = {"<|start|>", "<|channel|>", "<|return|>",
                                        "<|end|>",   "<|call|>",    NULL};
    int which;
    int fit = match(&p->held, p->state == FIRST ? first : later, &which);
    if (fit == 1)
        return;
    struct buf held = p->held;
    p->held = (struct buf){0};
    if (fit == 2) {
        bool ends_only = p->state == BETWEEN && which >= 2,
             starts = p->state == FIRST ? which == 3 : which == 0;
        if (!ends_only)
            p->state = HEADER;
        for (size_t i = 0; !ends_only && !starts && i < held.len; i++)
            header_byte(p, held.data[i]); /* the channel's tag is part of its header */
    } else {
        bool space = held.len == 1 && parse_is_space(held.data[0]) && p->state == BETWEEN;
        if (!space) {
            p->join = p->any[1];
            p->state = CONTENT;
        }
        for (size_t i = 0; !space && i < held.len; i++)
            parse_harmony_byte(p, held.data[i]);
    }
    buf_fini(&held);
}

void parse_harmony_byte(struct chat_parser *p, char c)
{
    if (p->state == HEADER) {
        header_byte(p, c);
        return;
    }
    if (!buf_putc(&p->held, c))
        p->failed = true;
    else if (p->state == FIRST || p->state == BETWEEN)
        outside_byte(p);
    else
        body_byte(p);
}

void parse_harmony_end(struct chat_parser *p)
{
    if (p->state == FIRST || p->state == BETWEEN) { /* the beginning of a tag that never came */
        p->join = p->any[1];
        p->state = CONTENT;
    }
    if (p->state != HEADER) {
        message_text(p, p->held.data, p->held.len);
        end_message(p);
    }
    buf_clear(&p->held);
}
