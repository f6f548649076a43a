/* Answers that another server has taken apart already (fcgi/relay): a byte that no UTF-8 text holds
 * says what the text after it is. */
#include <string.h>

#include "engine/chat/parse_format.h"

void parse_relayed_flush(struct chat_parser *p)
{
    if (p->state == CHAT_RELAYED_ARGUMENTS && p->arguments.len)
        p->on_delta(p->context, &(struct chat_delta){.type = CHAT_ARGUMENTS,
                                                     .index = p->n_calls,
                                                     .text = p->arguments.data,
                                                     .len = p->arguments.len});
    buf_clear(&p->arguments);
}

static void leave(struct chat_parser *p)
{
    parse_flush(p);
    if (p->state == CHAT_RELAYED_CALL)
        p->on_delta(p->context, &(struct chat_delta){.type = CHAT_CALL,
                                                     .index = p->n_calls,
                                                     .name = p->name.data ? p->name.data : ""});
    parse_relayed_flush(p);
}

void parse_relayed_byte(struct chat_parser *p, char c)
{
    const int mark = (unsigned char)c;
    if (mark >= CHAT_RELAYED_CONTENT && mark <= CHAT_RELAYED_LOGPROBS) {
        leave(p);
        p->state = mark;
        if (mark == CHAT_RELAYED_CALL)
            buf_clear(&p->name);
        if (mark == CHAT_RELAYED_CALL_END)
            p->on_delta(p->context,
                        &(struct chat_delta){.type = CHAT_CALL_END, .index = p->n_calls++});
    } else if (p->state == CHAT_RELAYED_CALL) {
        p->failed |= !buf_putc(&p->name, c);
    } else if (p->state == CHAT_RELAYED_ARGUMENTS) {
        p->failed |= !buf_putc(&p->arguments, c);
    } else if (p->state != CHAT_RELAYED_LOGPROBS) {
        parse_text(p, p->state == CHAT_RELAYED_REASONING ? CHAT_REASONING : CHAT_CONTENT, &c, 1);
    }
}

size_t chat_relayed_logprobs(const char **at, const char *end, const char **piece)
{
    const char *mark = *at < end ? memchr(*at, CHAT_RELAYED_LOGPROBS, (size_t)(end - *at)) : NULL;
    *at = mark ? mark + 1 : end;
    *piece = *at;
    while (*at < end && (unsigned char)**at < CHAT_RELAYED_CONTENT)
        ++*at;
    return (size_t)(*at - *piece);
}
