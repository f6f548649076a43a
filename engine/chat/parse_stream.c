/* Streams calls while the model still writes them. A call is streamed once its name is one of the
 * request's tools and its arguments have begun: from then on it is a call, whatever follows, and
 * its arguments are sent at the end of each push. If it turns out to be malformed, the rest up to
 * the format's closing tag joins the arguments as the model wrote it, and no CHAT_CALL_END is sent:
 * no byte is dropped, and no client is told that the call is whole. */
#include <string.h>

#include "engine/base/json/json.h"
#include "engine/chat/parse_format.h"

bool parse_stream_begin(struct chat_parser *p)
{
    const char *name = p->name.data ? p->name.data : "";
    if (!p->stream_calls || !parse_is_tool(p, name, p->name.len))
        return false;
    parse_flush(p);
    p->on_delta(p->context,
                &(struct chat_delta){.type = CHAT_CALL, .index = p->n_calls, .name = name});
    p->streaming = p->streamed = p->good = p->cut = p->join = true;
    p->in_string = p->in_escape = p->pair_open = false;
    p->sent = 0;
    buf_clear(&p->raw);
    buf_clear(&p->space);
    return true;
}

void parse_stream_flush(struct chat_parser *p)
{
    if (p->streaming && !p->malformed)
        parse_pair_flush(p, false);
    if (!p->streaming || p->arguments.len == p->sent)
        return;
    p->on_delta(p->context, &(struct chat_delta){.type = CHAT_ARGUMENTS,
                                                 .index = p->n_calls,
                                                 .text = p->arguments.data + p->sent,
                                                 .len = p->arguments.len - p->sent});
    p->sent = p->arguments.len;
}

static void leave(struct chat_parser *p)
{
    parse_stream_flush(p);
    p->streaming = p->malformed = false;
    p->n_calls++;
    buf_clear(&p->raw);
}

void parse_stream_end(struct chat_parser *p)
{
    const struct json_limits l = {
        .max_depth = JSON_MACHINE_DEPTH, .allow_duplicates = true, .allow_nul = true};
    cJSON *v = json_parse(p->arguments.data ? p->arguments.data : "", p->arguments.len, &l, NULL);
    bool whole = cJSON_IsObject(v);
    cJSON_Delete(v);
    parse_stream_flush(p);
    if (whole)
        p->on_delta(p->context, &(struct chat_delta){.type = CHAT_CALL_END, .index = p->n_calls});
    leave(p);
}

void parse_stream_byte(struct chat_parser *p, char c)
{
    static const char *const escapes[] = {['\n'] = "\\n", ['\t'] = "\\t", ['\r'] = "\\r"};
    unsigned char u = (unsigned char)c;
    if (p->in_string && u < 0x20) /* models write raw control characters */
        p->failed |= !(u <= '\r' && escapes[u] ? buf_puts(&p->arguments, escapes[u])
                                               : buf_printf(&p->arguments, "\\u%04x", u));
    else
        p->failed |= !buf_putc(&p->arguments, c);
    if (p->in_escape)
        p->in_escape = false;
    else if (p->in_string && c == '\\')
        p->in_escape = true;
    else if (c == '"')
        p->in_string = !p->in_string;
    buf_clear(&p->raw);
}

/* Whether this byte, which p->json has just taken, is the brace that opens the arguments of
 * {"name": ..., "arguments": {. */
static bool opens_arguments(struct chat_parser *p, char c, const struct json_member_place *last)
{
    static const char key[] = "\"arguments\"";
    const struct json_machine *m = &p->json;
    const char *text = p->raw.data + p->start;
    return c == '{' && m->depth == 2 && last->value == m->n - 1 &&
           last->key_end - last->key == sizeof key - 1 &&
           !memcmp(text + last->key, key, sizeof key - 1) &&
           parse_read_json_name(text, m, &p->name);
}

void parse_stream_call_byte(struct chat_parser *p, char c)
{
    const struct json_machine *m = &p->json;
    uint32_t n = m->n_members < JSON_MACHINE_MEMBERS ? m->n_members : JSON_MACHINE_MEMBERS;
    const struct json_member_place *last = n ? &m->member[n - 1] : NULL;
    if (!last || m->n_members > JSON_MACHINE_MEMBERS)
        return;
    if (p->streaming) {
        parse_stream_byte(p, c);
        if (last->value_end == m->n)
            parse_stream_end(p);
    } else if (!p->streamed && opens_arguments(p, c, last)) {
        buf_clear(&p->arguments);
        if (parse_stream_begin(p))
            parse_stream_byte(p, c);
    }
}

void parse_stream_mark_malformed(struct chat_parser *p)
{
    p->malformed = true;
    p->pair_open = false;
    p->failed |= !buf_append(&p->arguments, p->raw.data ? p->raw.data : "", p->raw.len);
    buf_clear(&p->raw);
    buf_clear(&p->held);
}

bool parse_stream_malformed_byte(struct chat_parser *p, char c)
{
    const char *close = p->format->close;
    size_t n = close ? strlen(close) : 0;
    p->failed |= !buf_putc(&p->held, c);
    while (p->held.len && !p->failed) {
        if (p->held.len <= n && !memcmp(p->held.data, close, p->held.len)) {
            if (p->held.len < n)
                return false;
            buf_clear(&p->held);
            leave(p);
            return true;
        }
        p->failed |= !buf_putc(&p->arguments, p->held.data[0]);
        buf_consume(&p->held, 1);
    }
    return false;
}

void parse_stream_finish(struct chat_parser *p)
{
    if (p->malformed)
        p->failed |= !buf_append(&p->arguments, p->held.data ? p->held.data : "", p->held.len);
    else
        parse_pair_flush(p, true);
    p->pair_open = false;
    buf_clear(&p->held);
    leave(p);
}
