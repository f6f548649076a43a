/* Calls as JSON behind a head: DeepSeek's and Kimi's sections, Mistral's [TOOL_CALLS], Llama's bare
 * objects. */
#include <string.h>

#include "engine/chat/parse_format.h"

enum { BETWEEN, HEAD, BODY, FUNCTION, FENCE, INSIDE, AFTER, ITEM, ITEM_AFTER };

static enum parse_step begin_json(struct chat_parser *p, char c, int state)
{
    if (c != '{')
        return PARSE_FALSE;
    p->start = p->raw.len - 1;
    p->state = state;
    p->streamed = false;
    json_machine_begin(&p->json);
    return json_machine_byte(&p->json, c) == JSON_WRONG ? PARSE_FALSE : PARSE_MORE;
}

/* ---- DeepSeek, Kimi */

/* The tags of a section, by the format's openers: [0] section, [1] one call. */
static const struct section {
    const char *open, *call, *separator, *call_end, *end;
} sections[] = {
    {"<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>", "<｜tool▁sep｜>", "<｜tool▁call▁end｜>",
     "<｜tool▁calls▁end｜>"},
    {"<|tool_calls_section_begin|>", "<|tool_call_begin|>", "<|tool_call_argument_begin|>",
     "<|tool_call_end|>", "<|tool_calls_section_end|>"},
};

static const struct section *section_of(const struct chat_parser *p)
{
    return &sections[strcmp(p->format->openers[0], sections[0].open) ? 1 : 0];
}

static void section_between(struct chat_parser *p)
{
    parse_tags_begin(p, section_of(p)->call, section_of(p)->end, NULL);
    p->state = BETWEEN;
}

static void section_begin(struct chat_parser *p, int opener)
{
    section_between(p);
    if (opener == 1) { /* a call without its section */
        buf_clear(&p->name);
        p->state = HEAD;
    }
}

/* functions.NAME:7 is NAME */
static void trim_name(struct chat_parser *p)
{
    const char *name = p->name.data ? p->name.data : "";
    size_t n = p->name.len;
    while (n && parse_is_space(*name)) {
        name++;
        n--;
    }
    while (n && parse_is_space(name[n - 1]))
        n--;
    if (section_of(p) == &sections[1]) {
        const char *colon = memrchr(name, ':', n);
        if (colon && strspn(colon + 1, "0123456789") >= (size_t)(name + n - colon - 1))
            n = (size_t)(colon - name);
        if (n > 10 && !memcmp(name, "functions.", 10)) {
            name += 10;
            n -= 10;
        }
    }
    buf_consume(&p->name, (size_t)(name - (p->name.data ? p->name.data : "")));
    if (p->name.data)
        p->name.data[p->name.len = n] = 0;
}

/* The arguments' JSON begins: the call is streamed if its name is a tool's. */
static enum parse_step begin_arguments(struct chat_parser *p, char c)
{
    enum parse_step step = begin_json(p, c, INSIDE);
    buf_clear(&p->arguments);
    if (step == PARSE_MORE && p->name.len && parse_stream_begin(p))
        parse_stream_byte(p, c);
    return step;
}

/* Another byte of them. */
static enum json_status arguments_byte(struct chat_parser *p, char c)
{
    enum json_status status = json_machine_byte(&p->json, c);
    if (p->streaming && status != JSON_WRONG)
        parse_stream_byte(p, c);
    if (p->streaming && status == JSON_WHOLE)
        parse_stream_end(p);
    return status;
}

/* The arguments' JSON is whole and its closing tag is there, or the text has ended. */
static bool section_call(struct chat_parser *p)
{
    if (p->streamed) {
        section_between(p);
        return true;
    }
    if (!p->name.len || !parse_clean_object(p->raw.data + p->start, p->json.n, &p->arguments))
        return false;
    parse_give_call(p, p->name.data, p->name.len, p->arguments.data, p->arguments.len);
    section_between(p);
    return true;
}

static enum parse_step section_head(struct chat_parser *p, char c)
{
    const char *tag = section_of(p)->separator;
    size_t n = strlen(tag);
    if (p->name.len >= PARSE_MAX_NAME + n || (unsigned char)c < ' ' || !buf_putc(&p->name, c))
        return PARSE_FALSE;
    if (p->name.len >= n && !memcmp(p->name.data + p->name.len - n, tag, n)) {
        p->name.len -= n;
        p->name.data[p->name.len] = 0;
        p->state = BODY;
        buf_clear(&p->key);
    }
    return PARSE_MORE;
}

static enum parse_step begin_section_arguments(struct chat_parser *p, char c)
{
    trim_name(p);
    return begin_arguments(p, c);
}

/* Behind the separator: JSON, or (DeepSeek V3, R1) the name on a line of its own and the JSON in a
 * fence. */
static enum parse_step section_body(struct chat_parser *p, char c)
{
    if (p->state == FENCE) {
        int which;
        if (c == '{' && !p->tag[0].at)
            return begin_section_arguments(p, c);
        enum parse_step step = parse_tags_byte(p, c, &which);
        if (step == PARSE_DONE)
            parse_tags_begin(p, NULL, NULL, NULL);
        return step == PARSE_DONE ? PARSE_MORE : step;
    }
    if (!p->key.len && parse_is_space(c))
        return PARSE_MORE;
    if (!p->key.len && c == '{')
        return begin_section_arguments(p, c);
    if (c == '\n') {
        struct buf swap = p->name;
        p->name = p->key;
        p->key = swap;
        parse_tags_begin(p, "```json", NULL, NULL);
        p->state = FENCE;
        return PARSE_MORE;
    }
    bool fine = (unsigned char)c >= ' ' && p->key.len < PARSE_MAX_NAME;
    return fine && buf_putc(&p->key, c) ? PARSE_MORE : PARSE_FALSE;
}

static enum parse_step section_after(struct chat_parser *p, char c)
{
    int which;
    enum parse_step step = parse_tags_byte(p, c, &which);
    if (step != PARSE_DONE)
        return step;
    if (which == 1) { /* the fence closes */
        parse_tags_begin(p, section_of(p)->call_end, NULL, NULL);
        return PARSE_MORE;
    }
    return section_call(p) ? PARSE_MORE : PARSE_FALSE;
}

static enum parse_step section_byte(struct chat_parser *p, char c)
{
    int which;
    enum parse_step step;
    switch (p->state) {
    case BETWEEN:
        step = parse_tags_byte(p, c, &which);
        if (step != PARSE_DONE)
            return step;
        if (which == 1)
            return p->good ? PARSE_DONE : PARSE_FALSE;
        buf_clear(&p->name);
        p->state = HEAD;
        return PARSE_MORE;
    case HEAD:
        return section_head(p, c);
    case BODY:
    case FENCE:
        return section_body(p, c);
    case INSIDE:
        switch (arguments_byte(p, c)) {
        case JSON_WRONG:
            return PARSE_FALSE;
        case JSON_WHOLE:
            parse_tags_begin(p, section_of(p)->call_end, "```", NULL);
            p->state = AFTER;
            return PARSE_MORE;
        default:
            return PARSE_MORE;
        }
    default:
        return section_after(p, c);
    }
}

static bool section_end(struct chat_parser *p)
{
    return (p->state == AFTER && section_call(p)) || (p->state == BETWEEN && p->good);
}

const struct parse_machine parse_section_machine = {section_begin, section_byte, section_end};

/* ---- Mistral: a list of objects, or NAME[ARGS]{...} */

static void mistral_begin(struct chat_parser *p, int opener)
{
    buf_clear(&p->name);
    p->state = BETWEEN;
}

static enum parse_step mistral_head(struct chat_parser *p, char c)
{
    static const char id[] = "[CALL_ID]", args[] = "[ARGS]";
    if (parse_is_space(c) && !p->name.len)
        return PARSE_MORE;
    if (c == '[' && !p->name.len) {
        p->state = ITEM;
        return PARSE_MORE;
    }
    if (c != '{')
        return p->name.len < PARSE_MAX_NAME && c != '\n' && buf_putc(&p->name, c) ? PARSE_MORE
                                                                                  : PARSE_FALSE;
    const char *end = memmem(p->name.data ? p->name.data : "", p->name.len, id, sizeof id - 1);
    if (!end)
        end = memmem(p->name.data ? p->name.data : "", p->name.len, args, sizeof args - 1);
    if (end)
        p->name.data[p->name.len = (size_t)(end - p->name.data)] = 0;
    for (size_t i = 0; i < p->name.len; i++)
        if (!parse_is_name(p->name.data[i]))
            return PARSE_FALSE;
    return p->name.len ? begin_arguments(p, c) : PARSE_FALSE;
}

static enum parse_step mistral_byte(struct chat_parser *p, char c)
{
    enum json_status status;
    switch (p->state) {
    case BETWEEN:
        return mistral_head(p, c);
    case ITEM:
        return parse_is_space(c) ? PARSE_MORE : begin_json(p, c, BODY);
    case ITEM_AFTER:
        if (c == ']' || (c != ',' && !parse_is_space(c)))
            return c == ']' ? PARSE_DONE : PARSE_FALSE;
        if (c == ',') {
            p->state = ITEM;
            buf_clear(&p->raw); /* understood: not to be given back with what follows */
        }
        return PARSE_MORE;
    default:
        break;
    }
    status = p->state == BODY ? json_machine_byte(&p->json, c) : arguments_byte(p, c);
    if (p->state == BODY && status == JSON_MORE)
        parse_stream_call_byte(p, c);
    if (status != JSON_WHOLE)
        return status == JSON_WRONG ? PARSE_FALSE : PARSE_MORE;
    if (p->state == BODY) {
        p->state = ITEM_AFTER;
        return p->streamed || parse_give_json_call(p, p->raw.data + p->start, &p->json)
                   ? PARSE_MORE
                   : PARSE_FALSE;
    }
    if (p->streamed)
        return PARSE_DONE;
    if (!parse_clean_object(p->raw.data + p->start, p->json.n, &p->arguments))
        return PARSE_FALSE;
    parse_give_call(p, p->name.data, p->name.len, p->arguments.data, p->arguments.len);
    return PARSE_DONE;
}

static bool mistral_end(struct chat_parser *p)
{
    return p->state == ITEM_AFTER;
}

const struct parse_machine parse_mistral_machine = {mistral_begin, mistral_byte, mistral_end};

/* ---- Llama 3: the whole answer is one or more objects, so that nothing is known before its end */

static void llama_begin(struct chat_parser *p, int opener)
{
    p->state = BETWEEN;
    p->start = p->raw.len;
    if (p->format->openers[opener][0] == '{')
        begin_json(p, '{', INSIDE);
}

/* May the object still be a call? An answer in JSON shall not wait for its end. */
static bool llama_keys(const struct chat_parser *p)
{
    static const char *const keys[] = {"\"name\"", "\"parameters\"", "\"arguments\"", "\"type\"",
                                       NULL};
    const struct json_member_place *m = &p->json.member[0];
    if (p->json.n_members != 1 || !m->key_end || m->value)
        return true;
    const char *key = p->raw.data + p->start + m->key;
    for (int i = 0; keys[i]; i++)
        if (strlen(keys[i]) == m->key_end - m->key && !memcmp(keys[i], key, m->key_end - m->key))
            return true;
    return false;
}

static enum parse_step llama_byte(struct chat_parser *p, char c)
{
    if (p->state != INSIDE) {
        if (parse_is_space(c) || (c == ';' && p->state == AFTER))
            return PARSE_MORE;
        return begin_json(p, c, INSIDE);
    }
    switch (json_machine_byte(&p->json, c)) {
    case JSON_WRONG:
        return PARSE_FALSE;
    case JSON_WHOLE:
        p->state = AFTER;
        return PARSE_MORE;
    default:
        return c == '"' && !llama_keys(p) ? PARSE_FALSE : PARSE_MORE;
    }
}

/* Walks the objects in `text`; gives them out, or only says whether all are calls of known tools.
 */
static bool llama_walk(struct chat_parser *p, const struct buf *text, bool give)
{
    struct json_machine m;
    for (size_t at = 0; at < text->len;) {
        if (text->data[at] != '{') {
            at++;
            continue;
        }
        size_t from = at;
        json_machine_begin(&m);
        enum json_status status = JSON_MORE;
        while (at < text->len && status == JSON_MORE)
            status = json_machine_byte(&m, text->data[at++]);
        if (status != JSON_WHOLE ||
            !parse_read_json_call(text->data + from, &m, &p->name, &p->arguments) ||
            !parse_is_tool(p, p->name.data, p->name.len))
            return false;
        if (give)
            parse_give_call(p, p->name.data, p->name.len, p->arguments.data, p->arguments.len);
    }
    return true;
}

static bool llama_end(struct chat_parser *p)
{
    if (p->state != AFTER || !llama_walk(p, &p->raw, false))
        return false;
    struct buf raw = p->raw; /* giving a call out forgets it */
    p->raw = (struct buf){0};
    llama_walk(p, &raw, true);
    buf_fini(&raw);
    return true;
}

const struct parse_machine parse_llama_machine = {llama_begin, llama_byte, llama_end};
