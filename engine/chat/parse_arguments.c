/* Collects named values into an arguments object; the tool's schema says which of them are strings.
 */
#include <string.h>

#include "engine/base/json/json.h"
#include "engine/chat/parse_format.h"

enum { TAKES_STRING = 1, TAKES_NULL = 2, TAKES_OTHER = 4 };

static unsigned type_bit(const cJSON *type)
{
    if (!cJSON_IsString(type))
        return 0;
    return !strcmp(type->valuestring, "string") ? TAKES_STRING
           : !strcmp(type->valuestring, "null") ? TAKES_NULL
                                                : TAKES_OTHER;
}

/* The types that a schema takes, by "type" as a name or a list, and by anyOf and oneOf. */
static unsigned schema_types(const cJSON *schema, int depth)
{
    static const char *const branches[] = {"anyOf", "oneOf"};
    const cJSON *type = cJSON_GetObjectItemCaseSensitive(schema, "type");
    unsigned bits = type_bit(type);
    for (const cJSON *t = cJSON_IsArray(type) ? type->child : NULL; t; t = t->next)
        bits |= type_bit(t);
    for (int i = 0; i < 2 && depth < 8; i++) {
        const cJSON *list = cJSON_GetObjectItemCaseSensitive(schema, branches[i]);
        for (const cJSON *s = cJSON_IsArray(list) ? list->child : NULL; s; s = s->next)
            bits |= schema_types(s, depth + 1);
    }
    return bits;
}

static const cJSON *find_parameter(const struct chat_parser *p, const char *key)
{
    for (const cJSON *t = p->tools ? p->tools->child : NULL; t; t = t->next) {
        const cJSON *f = cJSON_GetObjectItemCaseSensitive(t, "function");
        f = f ? f : t;
        const cJSON *name = cJSON_GetObjectItemCaseSensitive(f, "name");
        if (!cJSON_IsString(name) || !p->name.len || strcmp(name->valuestring, p->name.data))
            continue;
        const cJSON *parameters = cJSON_GetObjectItemCaseSensitive(f, "parameters");
        return cJSON_GetObjectItemCaseSensitive(
            cJSON_GetObjectItemCaseSensitive(parameters, "properties"), key);
    }
    return NULL;
}

/* Python's words, which templates print themselves. */
static const char *python_word(const char *text, size_t len)
{
    static const char *const words[][2] = {{"True", "true"}, {"False", "false"}, {"None", "null"}};
    for (int i = 0; i < 3; i++)
        if (strlen(words[i][0]) == len && !memcmp(words[i][0], text, len))
            return words[i][1];
    return NULL;
}

/* The text as one JSON value, as it was written; false when it is none. */
static bool put_as_json(struct buf *out, const char *text, size_t len, unsigned types)
{
    while (len && parse_is_space(*text)) {
        text++;
        len--;
    }
    while (len && parse_is_space(text[len - 1]))
        len--;
    const char *word = python_word(text, len);
    if (word) {
        text = word;
        len = strlen(word);
    }
    const struct json_limits l = {
        .max_depth = JSON_MACHINE_DEPTH, .allow_duplicates = true, .allow_nul = true};
    cJSON *v = len ? json_parse(text, len, &l, NULL) : NULL;
    bool takes_null = !types || types & (TAKES_NULL | TAKES_OTHER);
    bool ok = v && !(cJSON_IsNull(v) && !takes_null) &&
              !(cJSON_IsString(v) &&
                types & TAKES_STRING); /* a quoted text for a string: quotes are the text's */
    cJSON_Delete(v);
    return ok && buf_append(out, text, len);
}

void parse_begin_pairs(struct chat_parser *p)
{
    buf_clear(&p->arguments);
    buf_putc(&p->arguments, '{');
}

static unsigned types_of(const struct chat_parser *p, bool *as_text)
{
    const cJSON *schema = find_parameter(p, p->key.data ? p->key.data : "");
    unsigned types = schema_types(schema, 0);
    *as_text = !schema || types == TAKES_STRING;
    return types;
}

static void put_key(struct chat_parser *p)
{
    if (p->arguments.len > 1)
        buf_puts(&p->arguments, ", ");
    buf_json_string(&p->arguments, p->key.data ? p->key.data : "", p->key.len);
    buf_puts(&p->arguments, ": ");
}

/* A piece of a string, escaped, without quotes. */
static void put_piece(struct chat_parser *p, const char *text, size_t len)
{
    struct buf *out = &p->arguments;
    size_t at = out->len;
    if (!len || !buf_json_string(out, text, len))
        return;
    memmove(out->data + at, out->data + at + 1, out->len - at - 2);
    out->data[out->len -= 2] = 0;
}

void parse_pair_begin(struct chat_parser *p)
{
    put_key(p);
    types_of(p, &p->pair_text);
    if (p->pair_text)
        buf_putc(&p->arguments, '"');
    p->pair_open = true;
    p->pair_sent = 0;
}

/* Length of the part of the value that can be neither its closing tag, nor the newline before it,
 * nor half a character. */
static size_t sure_length(const struct chat_parser *p)
{
    const struct buf *v = &p->value;
    size_t n = p->close_at ? p->close_at - 1 : v->len, close = strlen(p->value_close);
    for (size_t k = close < n ? close : n; !p->close_at && k; k--)
        if (!memcmp(v->data + n - k, p->value_close, k)) {
            n -= k;
            break;
        }
    if (p->value_trims && n && v->data[n - 1] == '\n')
        n--;
    size_t tail = 0; /* bytes that follow a lead byte */
    while (tail < n && tail < 3 && ((unsigned char)v->data[n - 1 - tail] & 0xC0) == 0x80)
        tail++;
    unsigned char lead = tail < n ? (unsigned char)v->data[n - 1 - tail] : 0;
    size_t want = lead >= 0xF0 ? 3 : lead >= 0xE0 ? 2 : lead >= 0xC0 ? 1 : 0;
    return want > tail ? n - 1 - tail : n;
}

void parse_pair_flush(struct chat_parser *p, bool all)
{
    if (!p->pair_open || (!p->pair_text && !all))
        return;
    const char *text = p->value.data ? p->value.data : "";
    size_t len = all ? p->value.len : sure_length(p),
           skip = p->value_trims && len && text[0] == '\n';
    if (!p->pair_text)
        buf_append(&p->arguments, text, len);
    else if (len > skip + p->pair_sent)
        put_piece(p, text + skip + p->pair_sent, len - skip - p->pair_sent);
    p->pair_sent = len > skip ? len - skip : 0;
    p->failed |= p->arguments.failed;
}

bool parse_add_pair(struct chat_parser *p)
{
    struct buf *out = &p->arguments;
    size_t len;
    const char *text = parse_value_text(p, &len);
    bool as_text, streamed = p->pair_open;
    unsigned types = types_of(p, &as_text);
    p->pair_open = false;
    if (!streamed)
        put_key(p);
    if (streamed && as_text) {
        put_piece(p, text + p->pair_sent, len > p->pair_sent ? len - p->pair_sent : 0);
        buf_putc(out, '"');
    } else if (as_text || !put_as_json(out, text, len, types)) {
        buf_json_string(out, text, len);
    }
    p->failed |= out->failed;
    return !p->failed;
}
