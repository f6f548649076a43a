/* The parts that the machines share: matching tags, values between tags, and calls read from JSON.
 */
#include <string.h>

#include "engine/base/json/json.h"
#include "engine/base/json/json_repair.h"
#include "engine/chat/parse_format.h"

bool parse_is_space(char c)
{
    return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

bool parse_is_name(char c)
{
    return c == '_' || c == '-' || c == '.' || c == ':' || (c >= '0' && c <= '9') ||
           ((c | 32) >= 'a' && (c | 32) <= 'z');
}

void parse_tags_begin(struct chat_parser *p, const char *a, const char *b, const char *c)
{
    p->tag[0] = (struct parse_tag){.text = a};
    p->tag[1] = (struct parse_tag){.text = b};
    p->tag[2] = (struct parse_tag){.text = c};
}

enum parse_step parse_tags_byte(struct chat_parser *p, char c, int *which)
{
    bool begun = false, fits = false;
    for (int i = 0; i < 3; i++)
        begun |= p->tag[i].at > 0;
    if (!begun && parse_is_space(c))
        return PARSE_MORE;
    for (int i = 0; i < 3; i++) {
        struct parse_tag *t = &p->tag[i];
        if (!t->text)
            continue;
        if (t->text[t->at] != c || (begun && t->at == 0)) {
            t->text = NULL; /* out of the race */
            continue;
        }
        fits = true;
        if (!t->text[++t->at]) {
            *which = i;
            return PARSE_DONE;
        }
    }
    return fits ? PARSE_MORE : PARSE_FALSE;
}

void parse_value_begin(struct chat_parser *p, const char *close, bool trims)
{
    buf_clear(&p->value);
    p->close_at = p->next_at = 0;
    p->value_close = close;
    p->value_trims = trims;
    if (p->streaming)
        parse_pair_begin(p);
}

const char *parse_value_text(const struct chat_parser *p, size_t *len)
{
    const char *text = p->value.data ? p->value.data : "";
    *len = p->value.len;
    if (p->value_trims && *len && text[0] == '\n') {
        text++;
        --*len;
    }
    if (p->value_trims && *len && text[*len - 1] == '\n')
        --*len;
    return text;
}

static bool ends_with(const struct buf *b, const char *tag, size_t n)
{
    return b->len >= n && !memcmp(b->data + b->len - n, tag, n);
}

enum parse_step parse_value_byte(struct chat_parser *p, char c, const char *const *next, int *which)
{
    struct buf *v = &p->value;
    const char *close = p->value_close;
    size_t n = strlen(close);
    if (!buf_putc(v, c)) {
        p->failed = true;
        return PARSE_FALSE;
    }
    if (p->close_at) { /* behind a closing tag: is it the real one? */
        if (!p->next_at && parse_is_space(c))
            return PARSE_MORE;
        if (!p->next_at)
            p->next_at = v->len - 1;
        size_t so_far = v->len - p->next_at;
        for (int i = 0; next[i]; i++) {
            size_t size = strlen(next[i]);
            if (so_far > size || memcmp(v->data + p->next_at, next[i], so_far))
                continue;
            if (so_far < size)
                return PARSE_MORE;
            v->len = p->close_at - 1;
            v->data[v->len] = 0;
            *which = i;
            return PARSE_DONE;
        }
        p->close_at = p->next_at = 0;
    }
    if (c == close[n - 1] && ends_with(v, close, n))
        p->close_at = v->len - n + 1; /* plus one, so that 0 means none */
    return PARSE_MORE;
}

/* ---- JSON as models write it */

/* Raw control characters inside strings become escapes. */
static bool escape_controls(const char *text, size_t len, struct buf *out)
{
    bool string = false;
    buf_clear(out);
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)text[i];
        if (string && c == '\\' && i + 1 < len) {
            buf_append(out, text + i, 2);
            i++;
            continue;
        }
        string ^= c == '"';
        if (string && c < 0x20)
            buf_printf(out,
                       c == '\n'   ? "\\n"
                       : c == '\t' ? "\\t"
                       : c == '\r' ? "\\r"
                                   : "\\u%04x",
                       c);
        else
            buf_putc(out, (char)c);
    }
    return !out->failed;
}

static cJSON *parse_lenient(const char *text, size_t len)
{
    const struct json_limits l = {
        .max_depth = JSON_MACHINE_DEPTH, .allow_duplicates = true, .allow_nul = true};
    return json_parse(text, len, &l, NULL);
}

bool parse_clean_object(const char *text, size_t len, struct buf *out)
{
    while (len && parse_is_space(text[len - 1]))
        len--;
    while (len && parse_is_space(*text)) {
        text++;
        len--;
    }
    if (len == 0) {
        text = "{}";
        len = 2;
    }
    if (*text != '{' || !escape_controls(text, len, out))
        return false;
    json_repair(out->data, out->len, JSON_REPAIR_SURROGATES, NULL);
    cJSON *v = parse_lenient(out->data, out->len);
    bool ok = cJSON_IsObject(v);
    cJSON_Delete(v);
    return ok;
}

/* A JSON string's text into out. */
static bool decode_string(const char *text, size_t len, struct buf *out)
{
    struct buf clean = {0};
    bool ok = escape_controls(text, len, &clean);
    cJSON *v = ok ? parse_lenient(clean.data, clean.len) : NULL;
    ok = cJSON_IsString(v);
    buf_clear(out);
    if (ok)
        ok = buf_puts(out, v->valuestring);
    cJSON_Delete(v);
    buf_fini(&clean);
    return ok;
}

static bool read_arguments(const char *text, const struct json_member_place *a, struct buf *out)
{
    if (!a || text[a->value] == 'n') /* none, or null: {} */
        return parse_clean_object("", 0, out);
    size_t len = a->value_end - a->value;
    if (text[a->value] != '"')
        return parse_clean_object(text + a->value, len, out);
    struct buf inner = {0}; /* a string that holds JSON */
    bool ok = decode_string(text + a->value, len, &inner) &&
              parse_clean_object(inner.data ? inner.data : "", inner.len, out);
    buf_fini(&inner);
    return ok;
}

bool parse_read_json_name(const char *text, const struct json_machine *m, struct buf *name)
{
    const struct json_member_place *n = json_machine_member(m, text, "name");
    return n && n->value_end && text[n->value] == '"' &&
           decode_string(text + n->value, n->value_end - n->value, name) && name->len;
}

bool parse_read_json_call(const char *text, const struct json_machine *m, struct buf *name,
                          struct buf *arguments)
{
    const struct json_member_place *a = json_machine_member(m, text, "arguments");
    if (!a)
        a = json_machine_member(m, text, "parameters");
    return parse_read_json_name(text, m, name) && read_arguments(text, a, arguments);
}

bool parse_give_json_call(struct chat_parser *p, const char *text, const struct json_machine *m)
{
    if (!parse_read_json_call(text, m, &p->name, &p->arguments))
        return false;
    parse_give_call(p, p->name.data, p->name.len, p->arguments.data, p->arguments.len);
    return true;
}

bool parse_is_tool(const struct chat_parser *p, const char *name, size_t len)
{
    for (const cJSON *t = p->tools ? p->tools->child : NULL; t; t = t->next) {
        const cJSON *f = cJSON_GetObjectItemCaseSensitive(t, "function");
        const cJSON *n = cJSON_GetObjectItemCaseSensitive(f ? f : t, "name");
        if (cJSON_IsString(n) && strlen(n->valuestring) == len &&
            !memcmp(n->valuestring, name, len))
            return true;
    }
    return false;
}

/* ---- hermes: <tool_call> {...} </tool_call> */

enum { JSON_BEFORE, JSON_INSIDE, JSON_AFTER };

static void json_begin(struct chat_parser *p, int opener)
{
    p->state = JSON_BEFORE;
}

static enum parse_step json_byte(struct chat_parser *p, char c)
{
    int which;
    enum parse_step step;
    switch (p->state) {
    case JSON_BEFORE:
        if (parse_is_space(c))
            return PARSE_MORE;
        if (c != '{')
            return PARSE_FALSE;
        p->start = p->raw.len - 1;
        p->streamed = false;
        json_machine_begin(&p->json);
        p->state = JSON_INSIDE;
        /* fall through */
    case JSON_INSIDE:
        switch (json_machine_byte(&p->json, c)) {
        case JSON_WRONG:
            return PARSE_FALSE;
        case JSON_WHOLE:
            if (p->streamed)
                buf_clear(&p->raw); /* understood */
            parse_tags_begin(p, "</tool_call>", "<tool_call>", NULL);
            p->state = JSON_AFTER;
            return PARSE_MORE;
        default:
            parse_stream_call_byte(p, c);
            return PARSE_MORE;
        }
    default:
        if (p->streamed && c == '}' && !p->tag[0].at)
            return PARSE_MORE; /* one brace too many is a common slip, and the call is out */
        step = parse_tags_byte(p, c, &which);
        if (step != PARSE_DONE)
            return step;
        if (!p->streamed && !parse_give_json_call(p, p->raw.data + p->start, &p->json))
            return PARSE_FALSE;
        if (which == 0)
            return PARSE_DONE;
        buf_puts(&p->raw, "<tool_call>"); /* the next one begins, this one was not closed */
        p->state = JSON_BEFORE;
        return PARSE_MORE;
    }
}

static bool json_end(struct chat_parser *p)
{
    return p->state == JSON_AFTER &&
           (p->streamed || parse_give_json_call(p, p->raw.data + p->start, &p->json));
}

const struct parse_machine parse_json_machine = {json_begin, json_byte, json_end};
