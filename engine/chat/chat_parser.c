/* Separates reasoning, content and the beginnings of calls. Bytes go one by one through a mode;
 * what may still become markup is held back. What lies inside a call is up to the format's machine.
 */
#include "engine/chat/chat_parser.h"

#include <stdlib.h>
#include <string.h>

#include "engine/chat/parse_format.h"

#define MAX_ANSWER ((size_t)256 << 20) /* held in one call: far over any model's answer */

enum parse_mode {
    MODE_START,       /* an answer may begin with reasoning */
    MODE_THINK_AGAIN, /* the template opened the reasoning; models repeat the tag */
    MODE_THINK,
    MODE_CONTENT,
    MODE_CALL,
    MODE_HARMONY,
    MODE_RELAYED,
};

struct chat_parser *chat_parser_create(const struct chat_parser_params *params, struct err *e)
{
    const struct parse_format *f = parse_format_find(params->format ? params->format : "plain");
    if (!f) {
        err_set(e, ERR_INPUT, "no output format '%.40s'", params->format);
        return NULL;
    }
    struct chat_parser *p = calloc(1, sizeof *p);
    if (!p) {
        err_set(e, ERR_NOMEM, "memory ran out for a parser");
        return NULL;
    }
    p->format = f;
    p->tools = params->tools && params->tools->child ? params->tools : NULL;
    p->stream_calls = params->stream_calls;
    p->on_delta = params->on_delta;
    p->context = params->context;
    p->raw.limit = p->value.limit = p->arguments.limit = MAX_ANSWER;
    if (!strcmp(f->name, "harmony")) {
        p->mode = MODE_HARMONY;
        parse_harmony_begin(p);
    } else if (!strcmp(f->name, CHAT_RELAYED_FORMAT)) {
        p->mode = MODE_RELAYED;
    } else if (f->think_open) {
        p->mode = params->opens_reasoning ? MODE_THINK_AGAIN : MODE_START;
    } else {
        p->mode = MODE_CONTENT;
    }
    return p;
}

void chat_parser_destroy(struct chat_parser **p)
{
    if (!*p)
        return;
    struct buf *const all[] = {&(*p)->held, &(*p)->space, &(*p)->raw,   &(*p)->text,
                               &(*p)->name, &(*p)->key,   &(*p)->value, &(*p)->arguments};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        buf_fini(all[i]);
    free(*p);
    *p = NULL;
}

/* ---- text out */

void parse_flush(struct chat_parser *p)
{
    if (p->text.len)
        p->on_delta(
            p->context,
            &(struct chat_delta){.type = p->text_type, .text = p->text.data, .len = p->text.len});
    buf_clear(&p->text);
    parse_stream_flush(p);
}

void parse_text(struct chat_parser *p, enum chat_delta_type type, const char *data, size_t len)
{
    if (len == 0)
        return;
    if (p->text.len && p->text_type != (int)type)
        parse_flush(p);
    p->text_type = type;
    p->any[type == CHAT_CONTENT] = true;
    if (!buf_append(&p->text, data, len))
        p->failed = true;
}

void parse_give_call(struct chat_parser *p, const char *name, size_t name_len,
                     const char *arguments, size_t len)
{
    struct buf copy = {0}; /* `name` with its NUL */
    if (!buf_append(&copy, name, name_len)) {
        p->failed = true;
        return;
    }
    parse_flush(p);
    int index = p->n_calls++;
    p->on_delta(p->context,
                &(struct chat_delta){.type = CHAT_CALL, .index = index, .name = copy.data});
    p->on_delta(p->context,
                &(struct chat_delta){
                    .type = CHAT_ARGUMENTS, .index = index, .text = arguments, .len = len});
    p->on_delta(p->context, &(struct chat_delta){.type = CHAT_CALL_END, .index = index});
    buf_fini(&copy);
    buf_clear(&p->raw);
    buf_clear(&p->space);
    p->good = p->cut = p->join = true;
}

/* One byte of content that is no markup. White space waits for what follows: between markup it is
 * dropped. */
static void content_byte(struct chat_parser *p, char c)
{
    if (parse_is_space(c)) {
        if (!buf_putc(&p->space, c))
            p->failed = true;
        return;
    }
    if (p->cut && p->join && p->any[1])
        parse_text(p, CHAT_CONTENT, "\n", 1);
    else if (!p->cut)
        parse_text(p, CHAT_CONTENT, p->space.data, p->space.len);
    buf_clear(&p->space);
    p->cut = p->join = false;
    parse_text(p, CHAT_CONTENT, &c, 1);
}

static void reasoning_byte(struct chat_parser *p, char c)
{
    if (parse_is_space(c)) {
        if (!buf_putc(&p->space, c))
            p->failed = true;
        return;
    }
    if (p->any[0])
        parse_text(p, CHAT_REASONING, p->space.data, p->space.len);
    buf_clear(&p->space);
    parse_text(p, CHAT_REASONING, &c, 1);
}

/* ---- tags in text */

/* Is `held` the beginning of the tag? 2: the whole of it. */
static int fits(const struct buf *held, const char *tag)
{
    size_t n = strlen(tag);
    if (held->len > n || memcmp(held->data, tag, held->len))
        return 0;
    return held->len == n ? 2 : 1;
}

/* The opener that `held` is, or -1; *may: it can still become one. */
static int find_opener(const struct chat_parser *p, bool *may)
{
    *may = false;
    for (int i = 0; p->tools && p->format->openers[i]; i++) {
        const char *tag = p->format->openers[i];
        int fit = tag[1] || (!p->any[1] && !p->n_calls) ? fits(&p->held, tag)
                                                        : 0; /* "{": at the start only */
        if (fit == 2)
            return i;
        *may |= fit == 1;
    }
    return -1;
}

static void shift_held(struct chat_parser *p, void (*give)(struct chat_parser *, char))
{
    char c = p->held.data[0];
    buf_consume(&p->held, 1);
    give(p, c);
}

static void hold(struct chat_parser *p, char c)
{
    if (!buf_putc(&p->held, c))
        p->failed = true;
}

static void think_mode(struct chat_parser *p, char c)
{
    hold(p, c);
    while (p->held.len && !p->failed) {
        int fit = fits(&p->held, p->format->think_close);
        if (fit == 2) {
            buf_clear(&p->held);
            buf_clear(&p->space);
            p->mode = MODE_CONTENT;
            p->cut = true;
        }
        if (fit)
            return;
        shift_held(p, reasoning_byte);
    }
}

static void content_mode(struct chat_parser *p, char c)
{
    hold(p, c);
    while (p->held.len && !p->failed) {
        bool may;
        int opener = find_opener(p, &may);
        if (opener >= 0) {
            buf_clear(&p->raw);
            buf_append(&p->raw, p->held.data, p->held.len);
            buf_clear(&p->held);
            p->mode = MODE_CALL;
            p->good = false;
            p->machine = p->format->machine;
            p->machine->begin(p, opener);
            return;
        }
        if (may)
            return;
        shift_held(p, content_byte);
    }
}

static void feed(struct chat_parser *p, char c);

static void start_mode(struct chat_parser *p, char c)
{
    bool again = p->mode == MODE_THINK_AGAIN;
    if (!p->held.len && parse_is_space(c)) {
        buf_putc(&p->space, c);
        return;
    }
    hold(p, c);
    int fit = fits(&p->held, p->format->think_open);
    if (fit == 1)
        return;
    p->mode = fit == 2 || again ? MODE_THINK : MODE_CONTENT;
    if (fit == 2 || again)
        buf_clear(&p->space);
    struct buf held = p->held;
    p->held = (struct buf){0};
    for (size_t i = 0; fit != 2 && i < held.len; i++)
        feed(p, held.data[i]);
    buf_fini(&held);
}

/* The bytes that looked like a call turned out to be text. */
static void give_back(struct chat_parser *p)
{
    struct buf raw = p->raw;
    p->raw = (struct buf){.limit = MAX_ANSWER};
    p->mode = MODE_CONTENT;
    for (size_t i = 0; i < raw.len; i++)
        content_byte(p, raw.data[i]);
    buf_fini(&raw);
}

static void call_mode(struct chat_parser *p, char c)
{
    if (p->malformed) {
        if (parse_stream_malformed_byte(p, c))
            p->mode = MODE_CONTENT;
        return;
    }
    if (!buf_putc(&p->raw, c)) {
        p->failed = true;
        return;
    }
    switch (p->machine->byte(p, c)) {
    case PARSE_MORE:
        return;
    case PARSE_DONE:
        buf_clear(&p->raw);
        p->mode = MODE_CONTENT;
        return;
    case PARSE_OVER:
        buf_clear(&p->raw);
        p->mode = MODE_CONTENT;
        break;
    default:
        if (p->raw.len) /* else a streamed call has taken it */
            p->raw.len--;
        if (p->streaming)
            parse_stream_mark_malformed(p);
        else
            give_back(p);
    }
    feed(p, c);
}

static void feed(struct chat_parser *p, char c)
{
    switch (p->mode) {
    case MODE_START:
    case MODE_THINK_AGAIN:
        start_mode(p, c);
        break;
    case MODE_THINK:
        think_mode(p, c);
        break;
    case MODE_CONTENT:
        content_mode(p, c);
        break;
    case MODE_CALL:
        call_mode(p, c);
        break;
    case MODE_RELAYED:
        parse_relayed_byte(p, c);
        break;
    default:
        parse_harmony_byte(p, c);
    }
}

static bool check(const struct chat_parser *p, struct err *e)
{
    return !p->failed || err_set(e, ERR_NOMEM, "memory ran out in an answer's parser");
}

bool chat_parser_push(struct chat_parser *p, const char *text, size_t len, struct err *e)
{
    for (size_t i = 0; i < len && !p->failed; i++)
        feed(p, text[i]);
    parse_flush(p);
    if (p->mode == MODE_RELAYED)
        parse_relayed_flush(p);
    return check(p, e);
}

bool chat_parser_finish(struct chat_parser *p, struct err *e)
{
    if (p->mode == MODE_RELAYED)
        return check(p, e);
    if (p->mode == MODE_HARMONY) {
        parse_harmony_end(p);
        parse_flush(p);
        return check(p, e);
    }
    if (p->mode == MODE_CALL) {
        if (p->streaming)
            parse_stream_finish(p);
        else if (p->machine->end(p))
            buf_clear(&p->raw);
        else
            give_back(p);
        p->mode = MODE_CONTENT;
    }
    bool reasoning = p->mode == MODE_THINK || p->mode == MODE_THINK_AGAIN;
    while (p->held.len && !p->failed)
        shift_held(p, reasoning ? reasoning_byte : content_byte);
    if (!reasoning && !p->cut) /* white space at the very end is the model's own */
        parse_text(p, CHAT_CONTENT, p->space.data, p->space.len);
    buf_clear(&p->space);
    parse_flush(p);
    return check(p, e);
}
