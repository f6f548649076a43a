/* Calls with named values between tags: Qwen3-Coder's <function=..><parameter=..>, GLM's
 * <arg_key><arg_value>, MiniMax's <invoke name="..">. The values' types come from the tool's
 * schema. */
#include <string.h>

#include "engine/chat/parse_format.h"

enum { BEFORE, NAME, NAME_CLOSE, BETWEEN, KEY, KEY_CLOSE, TO_VALUE, VALUE, AFTER, PICK };

static void give(struct chat_parser *p)
{
    buf_putc(&p->arguments, '}');
    if (p->streaming)
        parse_stream_end(p);
    else
        parse_give_call(p, p->name.data, p->name.len, p->arguments.data, p->arguments.len);
}

/* Collects up to `stop`; false when what comes can't be a name. */
static enum parse_step name_byte(struct buf *name, char c, char stop)
{
    if (c == stop)
        return name->len ? PARSE_DONE : PARSE_FALSE;
    if ((unsigned char)c < ' ' || c == '<' || name->len >= PARSE_MAX_NAME || !buf_putc(name, c))
        return PARSE_FALSE;
    return PARSE_MORE;
}

static void begin_name(struct chat_parser *p)
{
    buf_clear(&p->name);
    parse_begin_pairs(p);
    p->streamed = false;
    p->state = NAME;
}

static void begin_key(struct chat_parser *p)
{
    if (p->streaming || parse_stream_begin(p))
        buf_clear(&p->raw); /* understood */
    buf_clear(&p->key);
    p->state = KEY;
}

/* ---- Qwen3-Coder */

static const char *const xml_next[] = {"<parameter=", "</function>", "</tool_call>", NULL};

static void xml_begin(struct chat_parser *p, int opener)
{
    if (opener == 1) { /* <function= without its <tool_call>: a known fault of these models */
        begin_name(p);
        return;
    }
    parse_tags_begin(p, "<function=", NULL, NULL);
    p->state = BEFORE;
}

static void xml_between(struct chat_parser *p)
{
    parse_tags_begin(p, xml_next[0], xml_next[1], NULL);
    p->state = BETWEEN;
}

static void xml_after(struct chat_parser *p)
{
    parse_tags_begin(p, "</tool_call>", "<function=", NULL);
    p->state = AFTER;
}

/* A tag ended: which of xml_next it was. */
static enum parse_step xml_tag(struct chat_parser *p, int which)
{
    if (which == 0) {
        begin_key(p);
        return PARSE_MORE;
    }
    give(p);
    if (which == 2)
        return PARSE_DONE;
    xml_after(p);
    return PARSE_MORE;
}

static enum parse_step xml_byte(struct chat_parser *p, char c)
{
    int which = 0;
    enum parse_step step;
    switch (p->state) {
    case BEFORE:
    case AFTER:
        step = parse_tags_byte(p, c, &which);
        if (step != PARSE_DONE)
            return step;
        if (p->state == AFTER && which == 0)
            return PARSE_DONE;
        begin_name(p);
        return PARSE_MORE;
    case NAME:
        step = name_byte(&p->name, c, '>');
        if (step == PARSE_DONE)
            xml_between(p);
        break;
    case BETWEEN:
        step = parse_tags_byte(p, c, &which);
        return step == PARSE_DONE ? xml_tag(p, which) : step;
    case KEY:
        step = name_byte(&p->key, c, '>');
        if (step == PARSE_DONE) {
            parse_value_begin(p, "</parameter>", true);
            p->state = VALUE;
        }
        break;
    default:
        step = parse_value_byte(p, c, xml_next, &which);
        if (step != PARSE_DONE)
            return step;
        parse_add_pair(p);
        return xml_tag(p, which);
    }
    return step == PARSE_DONE ? PARSE_MORE : step;
}

static bool xml_end(struct chat_parser *p)
{
    return p->state == AFTER;
}

const struct parse_machine parse_xml_machine = {xml_begin, xml_byte, xml_end};

/* ---- GLM, Ling 3 */

static const char *const pairs_next[] = {"<arg_key>", "</tool_call>", NULL};

static void pairs_begin(struct chat_parser *p, int opener)
{
    begin_name(p);
}

static void pairs_between(struct chat_parser *p)
{
    parse_tags_begin(p, pairs_next[0], pairs_next[1], NULL);
    p->state = BETWEEN;
}

static enum parse_step pairs_tag(struct chat_parser *p, int which)
{
    if (which == 0) {
        begin_key(p);
        return PARSE_MORE;
    }
    give(p);
    return PARSE_DONE;
}

static enum parse_step pairs_name(struct chat_parser *p, char c)
{
    if (parse_is_space(c) && !p->name.len)
        return PARSE_MORE;
    if (parse_is_name(c) && p->name.len < PARSE_MAX_NAME)
        return buf_putc(&p->name, c) ? PARSE_MORE : PARSE_FALSE;
    if ((c != '<' && !parse_is_space(c)) || !p->name.len)
        return PARSE_FALSE;
    int which;
    pairs_between(p);
    return parse_tags_byte(p, c, &which);
}

/* The key ends at its closing tag. */
static enum parse_step pairs_key(struct chat_parser *p, char c)
{
    static const char close[] = "</arg_key>";
    size_t n = sizeof close - 1;
    if (p->key.len >= PARSE_MAX_NAME + n || !buf_putc(&p->key, c))
        return PARSE_FALSE;
    if (c == '>' && p->key.len >= n && !memcmp(p->key.data + p->key.len - n, close, n)) {
        p->key.len -= n;
        p->key.data[p->key.len] = 0;
        parse_tags_begin(p, "<arg_value>", NULL, NULL);
        p->state = TO_VALUE;
    }
    return PARSE_MORE;
}

static enum parse_step pairs_byte(struct chat_parser *p, char c)
{
    int which = 0;
    enum parse_step step;
    switch (p->state) {
    case NAME:
        return pairs_name(p, c);
    case KEY:
        return pairs_key(p, c);
    case BETWEEN:
        step = parse_tags_byte(p, c, &which);
        return step == PARSE_DONE ? pairs_tag(p, which) : step;
    case TO_VALUE:
        step = parse_tags_byte(p, c, &which);
        if (step == PARSE_DONE) {
            parse_value_begin(p, "</arg_value>", false);
            p->state = VALUE;
            return PARSE_MORE;
        }
        return step;
    default:
        step = parse_value_byte(p, c, pairs_next, &which);
        if (step != PARSE_DONE)
            return step;
        parse_add_pair(p);
        return pairs_tag(p, which);
    }
}

static bool pairs_end(struct chat_parser *p)
{
    return false; /* without its closing tag nothing says that the last pair was the last */
}

const struct parse_machine parse_pairs_machine = {pairs_begin, pairs_byte, pairs_end};

/* ---- Ling: JSON or pairs, as the first byte says */

static void bailing_begin(struct chat_parser *p, int opener)
{
    p->state = PICK;
}

static enum parse_step bailing_byte(struct chat_parser *p, char c)
{
    if (parse_is_space(c))
        return PARSE_MORE;
    p->machine = c == '{' ? &parse_json_machine : &parse_pairs_machine;
    p->machine->begin(p, 0);
    return p->machine->byte(p, c);
}

static bool bailing_end(struct chat_parser *p)
{
    return false;
}

const struct parse_machine parse_bailing_machine = {bailing_begin, bailing_byte, bailing_end};

/* ---- MiniMax: several invokes in one section */

static const char *const invoke_next[] = {"<parameter name=\"", "</invoke>", NULL};

static void invoke_section(struct chat_parser *p)
{
    parse_tags_begin(p, "<invoke name=\"", "</minimax:tool_call>", NULL);
    p->state = BEFORE;
}

static void invoke_begin(struct chat_parser *p, int opener)
{
    invoke_section(p);
}

static enum parse_step invoke_tag(struct chat_parser *p, int which)
{
    if (which == 0) {
        begin_key(p);
        return PARSE_MORE;
    }
    give(p);
    invoke_section(p);
    return PARSE_MORE;
}

static enum parse_step invoke_before(struct chat_parser *p, char c)
{
    int which;
    enum parse_step step = parse_tags_byte(p, c, &which);
    if (step != PARSE_DONE)
        return step;
    if (which == 1) /* a section without a call is text */
        return p->good ? PARSE_DONE : PARSE_FALSE;
    begin_name(p);
    return PARSE_MORE;
}

static enum parse_step invoke_byte(struct chat_parser *p, char c)
{
    int which = 0;
    enum parse_step step;
    switch (p->state) {
    case BEFORE:
        return invoke_before(p, c);
    case NAME:
        step = name_byte(&p->name, c, '"');
        p->state = step == PARSE_DONE ? NAME_CLOSE : NAME;
        break;
    case KEY:
        step = name_byte(&p->key, c, '"');
        p->state = step == PARSE_DONE ? KEY_CLOSE : KEY;
        break;
    case NAME_CLOSE:
        parse_tags_begin(p, invoke_next[0], invoke_next[1], NULL);
        p->state = BETWEEN;
        return c == '>' ? PARSE_MORE : PARSE_FALSE;
    case KEY_CLOSE:
        parse_value_begin(p, "</parameter>", false);
        p->state = VALUE;
        return c == '>' ? PARSE_MORE : PARSE_FALSE;
    case BETWEEN:
        step = parse_tags_byte(p, c, &which);
        return step == PARSE_DONE ? invoke_tag(p, which) : step;
    default:
        step = parse_value_byte(p, c, invoke_next, &which);
        if (step != PARSE_DONE)
            return step;
        parse_add_pair(p);
        return invoke_tag(p, which);
    }
    return step == PARSE_DONE ? PARSE_MORE : step;
}

static bool invoke_end(struct chat_parser *p)
{
    return p->good && p->state == BEFORE;
}

const struct parse_machine parse_invoke_machine = {invoke_begin, invoke_byte, invoke_end};
