/* What all kinds of values share: white space, strings, names, any value, lists of values. */
#include <string.h>

#include "engine/base/json/json.h"
#include "engine/grammar/schema_internal.h"

#define MAX_SPACES 32 /* of an indentation; models tend to loop in unbounded white space */

expr schema_space(struct json_schema *s)
{
    if (s->space < 0) {
        struct builder *b = s->b;
        expr indent = expr_repeat(
            b, expr_class(b, (struct cp_range[]){{' ', ' '}, {'\t', '\t'}}, 2), 0, MAX_SPACES);
        s->space = expr_rule(b, "white space");
        expr_define(b, s->space,
                    expr_optional(b, expr_alt2(b, expr_text(b, " "),
                                               expr_seq2(b, expr_text(b, "\n"), indent))));
    }
    return s->space;
}

static expr hex_class(struct builder *b, const char *digits)
{
    struct cp_range r[32];
    size_t n = 0;
    for (; digits[n]; n++)
        r[n] = (struct cp_range){(unsigned char)digits[n], (unsigned char)digits[n]};
    return expr_class(b, r, n);
}

/* \uHHHH: no NUL, which ends C strings, and surrogates in pairs only. */
static expr unicode_escape(struct builder *b)
{
    static const char all[] = "0123456789abcdefABCDEF", not_0[] = "123456789abcdefABCDEF";
    expr h = hex_class(b, all), hh = expr_seq2(b, h, h), hhh = expr_seq3(b, h, h, h);
    expr zeros = expr_text(b, "0");
    expr small = expr_alt(b,
                          (expr[]){expr_seq2(b, hex_class(b, not_0), hh),
                                   expr_seq3(b, zeros, hex_class(b, not_0), h),
                                   expr_seq3(b, zeros, zeros, hex_class(b, not_0))},
                          3);
    expr d = hex_class(b, "dD");
    expr low = expr_seq(b, (expr[]){expr_text(b, "\\u"), d, hex_class(b, "cdefCDEF"), hh}, 4);
    return expr_alt(b,
                    (expr[]){expr_seq2(b, zeros, small),
                             expr_seq2(b, hex_class(b, "123456789abcefABCEF"), hhh),
                             expr_seq3(b, d, hex_class(b, "01234567"), hh),
                             expr_seq(b, (expr[]){d, hex_class(b, "89abAB"), hh, low}, 4)},
                    4);
}

static const struct cp_range unescaped[] = {
    {0x20, '"' - 1}, {'"' + 1, '\\' - 1}, {'\\' + 1, 0x10FFFF}};

expr schema_character(struct json_schema *s)
{
    if (s->character < 0) {
        struct builder *b = s->b;
        expr escape = expr_alt2(b, hex_class(b, "\"\\/bfnrt"),
                                expr_seq2(b, expr_text(b, "u"), unicode_escape(b)));
        s->character =
            expr_alt2(b, expr_class(b, unescaped, 3), expr_seq2(b, expr_text(b, "\\"), escape));
        expr_mark_plain(b, s->character);
    }
    return s->character;
}

expr schema_any_string(struct json_schema *s)
{
    if (s->string < 0) {
        struct builder *b = s->b;
        expr quote = expr_text(b, "\"");
        s->string = expr_rule(b, "string");
        expr_define(
            b, s->string,
            expr_seq3(b, quote, expr_repeat(b, schema_character(s), 0, EXPR_NO_MAX), quote));
    }
    return s->string;
}

expr schema_key(struct json_schema *s, const char *name)
{
    struct buf text = {0};
    buf_json_string(&text, name, strlen(name));
    buf_putc(&text, ':');
    expr x = expr_bytes(s->b, text.data ? text.data : "", text.len);
    buf_fini(&text);
    return expr_seq2(s->b, x, schema_space(s));
}

/* "[" ( item ( "," item )* )? "]" with white space. */
static expr list_of(struct json_schema *s, const char *open, expr item, const char *close)
{
    struct builder *b = s->b;
    expr space = schema_space(s);
    expr more = expr_repeat(b, expr_seq3(b, expr_text(b, ","), space, item), 0, EXPR_NO_MAX);
    return expr_seq(b,
                    (expr[]){expr_text(b, open), space,
                             expr_optional(b, expr_seq3(b, item, more, space)),
                             expr_text(b, close)},
                    4);
}

static expr any_number(struct json_schema *s)
{
    return schema_number(s, NULL, false);
}

expr json_schema_any_object(struct json_schema *s)
{
    if (s->any_object < 0) {
        struct builder *b = s->b;
        s->any_object = expr_rule(b, "object");
        expr pair = expr_seq(
            b,
            (expr[]){schema_any_string(s), expr_text(b, ":"), schema_space(s), json_schema_any(s)},
            4);
        expr_define(b, s->any_object, list_of(s, "{", pair, "}"));
    }
    return s->any_object;
}

expr json_schema_any(struct json_schema *s)
{
    if (s->any < 0) {
        struct builder *b = s->b;
        s->any = expr_rule(b, "value");
        expr list = list_of(s, "[", s->any, "]");
        expr_define(
            b, s->any,
            expr_alt(b,
                     (expr[]){json_schema_any_object(s), list, schema_any_string(s), any_number(s),
                              expr_text(b, "true"), expr_text(b, "false"), expr_text(b, "null")},
                     7));
    }
    return s->any;
}

/* ---- lists of values */

static expr value_text(struct json_schema *s, const cJSON *v)
{
    struct buf text = {0};
    json_write(&text, v);
    expr x = expr_bytes(s->b, text.data ? text.data : "", text.len);
    buf_fini(&text);
    return x;
}

/* Types beside the list narrow it; other keywords would need a validator here. */
expr schema_enum(struct json_schema *s, const cJSON *schema)
{
    const cJSON *one = cJSON_GetObjectItemCaseSensitive(schema, "const");
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(schema, "enum"), *v;
    struct expr_list all = {0};
    cJSON_ArrayForEach (v, schema)
        if (strcmp(v->string, "const") && strcmp(v->string, "enum") && strcmp(v->string, "type") &&
            !schema_is_annotation(v->string))
            return schema_fail(s, ERR_UNSUPPORTED,
                               "'%.40s' beside a list of values can't be enforced here", v->string);
    if (list && !cJSON_IsArray(list))
        return schema_fail(s, ERR_INPUT, "'enum' must be a list");
    if (one && list)
        return schema_fail(s, ERR_UNSUPPORTED, "'const' beside 'enum' can't be enforced here");
    cJSON *types = cJSON_GetObjectItemCaseSensitive(schema, "type");
    cJSON only_type = {.type = cJSON_Object, .child = types};
    cJSON wrapped = {0};
    unsigned bits = TYPE_ANY | TYPE_INTEGER;
    if (types) { /* a copy without its neighbours, to ask for it alone */
        wrapped = *types;
        wrapped.next = wrapped.prev = NULL;
        only_type.child = &wrapped;
        bits = schema_types(s, &only_type);
        if (bits & TYPE_NUMBER)
            bits |= TYPE_INTEGER;
    }
    for (v = one ? one : list->child; v; v = one ? NULL : v->next) {
        cJSON constant = {.type = cJSON_Object}, item = *v;
        item.next = item.prev = NULL;
        item.string = (char[]){"const"};
        constant.child = &item;
        if (schema_types(s, &constant) & bits)
            expr_list_add(s->b, &all, value_text(s, v));
    }
    return all.n ? expr_alt_list(s->b, &all) : schema_fail(s, ERR_INPUT, "no value can be valid");
}
