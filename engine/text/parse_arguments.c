/* Named values as text into an arguments object: the tool's schema says which are strings. */
#include <string.h>

#include "engine/base/json.h"
#include "engine/text/parse_format.h"

enum { TAKES_STRING = 1, TAKES_NULL = 2, TAKES_OTHER = 4 };

static unsigned type_bit(const cJSON *type)
{
    if (!cJSON_IsString(type))
        return 0;
    return !strcmp(type->valuestring, "string") ? TAKES_STRING : !strcmp(type->valuestring, "null") ? TAKES_NULL
                                                                                                   : TAKES_OTHER;
}

/* What a schema takes, of "type" as a name or a list, and of anyOf and oneOf. */
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
        return cJSON_GetObjectItemCaseSensitive(cJSON_GetObjectItemCaseSensitive(parameters, "properties"), key);
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
    const struct json_limits l = {.max_depth = JSON_MACHINE_DEPTH, .allow_duplicates = true, .allow_nul = true};
    cJSON *v = len ? json_parse(text, len, &l, NULL) : NULL;
    bool takes_null = !types || types & (TAKES_NULL | TAKES_OTHER);
    bool ok = v && !(cJSON_IsNull(v) && !takes_null) &&
              !(cJSON_IsString(v) && types & TAKES_STRING); /* a quoted text for a string: quotes are the text's */
    cJSON_Delete(v);
    return ok && buf_append(out, text, len);
}

void parse_begin_pairs(struct chat_parser *p)
{
    buf_clear(&p->arguments);
    buf_putc(&p->arguments, '{');
}

bool parse_add_pair(struct chat_parser *p, const char *key, size_t key_len, const char *text, size_t len)
{
    struct buf *out = &p->arguments, name = {0};
    if (!buf_append(&name, key, key_len)) {
        p->failed = true;
        return false;
    }
    const cJSON *schema = find_parameter(p, name.data ? name.data : "");
    unsigned types = schema_types(schema, 0);
    bool as_text = !schema || types == TAKES_STRING;
    if (out->len > 1)
        buf_puts(out, ", ");
    buf_json_string(out, key, key_len);
    buf_puts(out, ": ");
    if (as_text || !put_as_json(out, text, len, types))
        buf_json_string(out, text ? text : "", len);
    buf_fini(&name);
    p->failed |= out->failed;
    return !p->failed;
}
