/* Strings of a schema: lengths, patterns and formats; and values that stand between tags without
 * quotes. */
#include <string.h>

#include "engine/base/json/json.h"
#include "engine/grammar/expr_without.h"
#include "engine/grammar/regex.h"
#include "engine/grammar/schema_internal.h"

/* Each a part of what its standard allows (no 29 February, no leap second, ASCII hosts): all that
 * is written is valid. */
#define DATE                                                                                       \
    "\\d{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\\d|30)|"   \
    "02-(?:0[1-9]|1\\d|2[0-8]))"
#define TIME                                                                                       \
    "(?:[01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(?:\\.\\d{1,9})?(?:Z|[+-](?:[01]\\d|2[0-3]):[0-5]\\d)"
#define LABEL "[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
#define OF_DAY "(?:\\d{1,9}H(?:\\d{1,9}M(?:\\d{1,9}S)?)?|\\d{1,9}M(?:\\d{1,9}S)?|\\d{1,9}S)"
#define BYTE "(?:25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)"
#define PATH "(?:[A-Za-z0-9._~!$&'()*+,;=:@/-]|%[0-9A-Fa-f]{2})*"
static const struct {
    const char *name, *pattern;
} formats[] = {
    {"date", "^" DATE "$"},
    {"time", "^" TIME "$"},
    {"date-time", "^" DATE "T" TIME "$"},
    {"duration", "^P(?:\\d{1,9}W|(?:\\d{1,9}Y(?:\\d{1,9}M(?:\\d{1,9}D)?)?|\\d{1,9}M(?:\\d{1,9}D)?|"
                 "\\d{1,9}D)(?:T" OF_DAY ")?|T" OF_DAY ")$"},
    {"uuid", "^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$"},
    {"email",
     "^[A-Za-z0-9_+-]{1,60}(?:\\.[A-Za-z0-9_+-]{1,60}){0,3}@(?:" LABEL "\\.){1,3}[A-Za-z]{2,24}$"},
    {"hostname", "^" LABEL "(?:\\." LABEL "){0,2}$"},
    {"ipv4", "^" BYTE "\\." BYTE "\\." BYTE "\\." BYTE "$"},
    {"ipv6", "^[0-9a-fA-F]{1,4}(?::[0-9a-fA-F]{1,4}){7}$"},
    {"uri", "^[a-z][a-z0-9+.-]{0,19}://" LABEL "(?:\\." LABEL "){0,3}(?::\\d{1,4})?(?:/" PATH
            ")?(?:\\?" PATH ")?(?:#" PATH ")?$"},
};

static const char *format_pattern(const char *name)
{
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (!strcmp(formats[i].name, name))
            return formats[i].pattern;
    return NULL;
}

struct limits {
    const char *pattern, *format;
    int64_t min, max; /* characters; max -1: none */
};

static bool read_limits(struct json_schema *s, const cJSON *schema, struct limits *l)
{
    const cJSON *pattern = cJSON_GetObjectItemCaseSensitive(schema, "pattern");
    const cJSON *format = cJSON_GetObjectItemCaseSensitive(schema, "format");
    *l = (struct limits){.max = -1};
    if ((pattern && !cJSON_IsString(pattern)) || (format && !cJSON_IsString(format)))
        return schema_fail(s, ERR_INPUT, "'pattern' and 'format' must be strings") >= 0;
    if (pattern && format)
        return schema_fail(s, ERR_UNSUPPORTED,
                           "'pattern' beside 'format' can't be enforced here") >= 0;
    if (!schema_count(s, schema, "minLength", &l->min) ||
        !schema_count(s, schema, "maxLength", &l->max))
        return false;
    if (l->max >= 0 && l->min > l->max)
        return schema_fail(s, ERR_INPUT,
                           "'minLength' is over 'maxLength': no string can be valid") >= 0;
    if (l->min > EXPR_MAX_COUNT || l->max > EXPR_MAX_COUNT)
        return schema_fail(s, ERR_LIMIT, "more than %d characters can't be counted",
                           EXPR_MAX_COUNT) >= 0;
    l->pattern = cJSON_GetStringValue(pattern);
    l->format = cJSON_GetStringValue(format);
    return true;
}

/* The texts that the pattern or format matches, in the given spelling. */
static expr read_pattern(struct json_schema *s, const struct limits *l, regex_class_fn make)
{
    const char *pattern = l->pattern ? l->pattern : format_pattern(l->format);
    struct err why = {0};
    int64_t least, most;
    if (!pattern)
        return schema_fail(s, ERR_UNSUPPORTED, "the format '%.40s' can't be enforced here",
                           l->format);
    expr x = regex_read(s->b, pattern, make, &why);
    if (x < 0)
        return schema_fail(s, why.code, "%s", why.text);
    expr_length(s->b, x, &least, &most);
    if (builder_failed(s->b))
        return schema_fail(s, ERR_LIMIT, "the schema is too large to be compiled");
    if (least < l->min || (l->max >= 0 && (most < 0 || most > l->max)))
        return schema_fail(s, ERR_UNSUPPORTED,
                           "the pattern or format alone does not keep the length within "
                           "minLength and maxLength; both can't be enforced together");
    return x;
}

expr schema_string(struct json_schema *s, const cJSON *schema)
{
    struct builder *b = s->b;
    struct limits l;
    expr quote = expr_text(b, "\"");
    if (!read_limits(s, schema, &l))
        return -1;
    if (l.pattern || l.format) {
        expr x = read_pattern(s, &l, expr_json_class);
        return x < 0 ? x : expr_seq3(b, quote, x, quote);
    }
    if (l.min == 0 && l.max < 0)
        return schema_any_string(s);
    return expr_seq3(b, quote,
                     expr_repeat(b, schema_character(s), (int32_t)l.min,
                                 l.max < 0 ? EXPR_NO_MAX : (int32_t)l.max),
                     quote);
}

/* ---- between tags */

/* The types as the answer parser knows them (engine/chat/parse_arguments.c): "type", anyOf and
 * oneOf, no more. */
static unsigned parser_types(const cJSON *schema, int depth)
{
    static const char *const branches[] = {"anyOf", "oneOf"};
    cJSON only = {.type = cJSON_Object}, type;
    const cJSON *t = cJSON_GetObjectItemCaseSensitive(schema, "type"), *v;
    unsigned bits = 0;
    if (t) {
        type = *t;
        type.next = type.prev = NULL;
        only.child = &type;
        bits = schema_types(NULL, &only);
    }
    for (int i = 0; i < 2 && depth < 8; i++)
        cJSON_ArrayForEach (v, cJSON_GetObjectItemCaseSensitive(schema, branches[i]))
            bits |= parser_types(v, depth + 1);
    return bits;
}

/* No '<': so no tag can begin in it. No NUL: C strings end there. */
static expr class_outside_tags(struct builder *b, const struct cp_range *ranges, size_t n)
{
    struct cp_range cut[1300];
    size_t k = 0;
    for (size_t i = 0; i < n && k + 2 < sizeof cut / sizeof *cut; i++) {
        struct cp_range r = ranges[i];
        r.lo = r.lo ? r.lo : 1;
        if (r.lo <= '<' && r.hi >= '<') {
            cut[k++] = (struct cp_range){r.lo, '<' - 1};
            cut[k++] = (struct cp_range){'<' + 1, r.hi};
        } else {
            cut[k++] = r;
        }
    }
    return expr_class(b, cut, k);
}

/* The parser reads these as JSON or Python where a value may be something else than text: text must
 * not look so. */
static expr text_that_is_no_json(struct json_schema *s, const char *stop)
{
    static const char *const words[] = {"true", "false", "null", "True", "False", "None"};
    static const struct cp_range not_first[] = {
        {0, ' '},   {'"', '"'}, {'-', '-'}, {'0', '9'}, {'<', '<'}, {'[', '['}, {'{', '{'},
        {'t', 't'}, {'f', 'f'}, {'n', 'n'}, {'T', 'T'}, {'F', 'F'}, {'N', 'N'}};
    struct builder *b = s->b;
    expr rest = expr_text_without(b, &stop, 1, expr_empty(b));
    struct expr_list all = {0};
    expr_list_add(b, &all, expr_empty(b));
    expr_list_add(
        b, &all,
        expr_seq2(b, expr_class_not(b, not_first, sizeof not_first / sizeof *not_first), rest));
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        const char *word = words[i];
        size_t n = strlen(word);
        /* behind the whole word: anything that is no space */
        expr x =
            expr_seq2(b, expr_class_not(b, (struct cp_range[]){{0, ' '}, {'<', '<'}}, 2), rest);
        for (size_t k = n; k-- > 0;) {
            expr next = expr_seq2(b, expr_bytes(b, word + k, 1), x);
            uint32_t c = (unsigned char)word[k];
            expr off = expr_seq2(
                b, expr_class_not(b, (struct cp_range[]){{0, 0}, {'<', '<'}, {c, c}}, 3), rest);
            x = k ? expr_alt(b, (expr[]){expr_empty(b), off, next}, 3) : next;
        }
        expr_list_add(b, &all, x);
    }
    return expr_alt_list(b, &all);
}

/* A list of strings as text; those that the parser would take for something else are left out. */
static expr enum_text(struct json_schema *s, const cJSON *list, const char *stop, bool mixed)
{
    struct expr_list all = {0};
    const cJSON *v;
    cJSON_ArrayForEach (v, list) {
        const char *text = cJSON_GetStringValue(v);
        if (!text || strstr(text, stop))
            continue;
        cJSON *json = mixed ? json_parse(text, strlen(text), NULL, NULL) : NULL;
        bool python =
            mixed && (!strcmp(text, "True") || !strcmp(text, "False") || !strcmp(text, "None"));
        if (!json && !python)
            expr_list_add(s->b, &all, expr_text(s->b, text));
        cJSON_Delete(json);
    }
    return expr_alt_list(s->b, &all);
}

/* The strings of a schema, as text. mixed: the value may be something else as well. */
static expr plain_text(struct json_schema *s, const cJSON *schema, const char *stop, bool mixed)
{
    struct builder *b = s->b;
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(schema, "enum");
    const cJSON *one = cJSON_GetObjectItemCaseSensitive(schema, "const");
    struct limits l;
    if (cJSON_IsString(one))
        return strstr(one->valuestring, stop) ? expr_never(b) : expr_text(b, one->valuestring);
    if (cJSON_IsArray(list))
        return enum_text(s, list, stop, mixed);
    if (!read_limits(s, schema, &l))
        return -1;
    if (l.pattern && mixed)
        return schema_fail(
            s, ERR_UNSUPPORTED,
            "'pattern' where other types may stand can't be enforced in this model's format");
    if (l.pattern || l.format)
        return read_pattern(s, &l, class_outside_tags);
    if (l.min == 0 && l.max < 0)
        return mixed ? text_that_is_no_json(s, stop)
                     : expr_text_without(b, &stop, 1, expr_empty(b));
    static const struct cp_range none[] = {{0, 0}, {'<', '<'}};
    expr any = expr_class_not(b, none, 2);
    int32_t max = l.max < 0 ? EXPR_NO_MAX : (int32_t)l.max;
    if (!mixed)
        return expr_repeat(b, any, (int32_t)l.min, max);
    /* a letter that begins no word of JSON or Python */
    expr first = expr_class(b,
                            (struct cp_range[]){{'A', 'E'},
                                                {'G', 'M'},
                                                {'O', 'S'},
                                                {'U', 'Z'},
                                                {'a', 'e'},
                                                {'g', 'm'},
                                                {'o', 's'},
                                                {'u', 'z'},
                                                {0xA1, 0x10FFFF}},
                            9);
    expr filled = max == 0 ? expr_never(b)
                           : expr_seq2(b, first,
                                       expr_repeat(b, any, l.min ? (int32_t)l.min - 1 : 0,
                                                   max > 0 ? max - 1 : max));
    return l.min ? filled : expr_optional(b, filled);
}

static const cJSON *branches_of(const cJSON *schema)
{
    const cJSON *any = cJSON_GetObjectItemCaseSensitive(schema, "anyOf");
    return any ? any : cJSON_GetObjectItemCaseSensitive(schema, "oneOf");
}

/* A value of several types, strings among them: strings as text, the rest as JSON. */
static expr mixed_value(struct json_schema *s, const cJSON *schema, const char *stop, int depth)
{
    const cJSON *list = branches_of(schema), *v;
    struct expr_list all = {0};
    if (depth > 8)
        return schema_fail(s, ERR_UNSUPPORTED,
                           "branches within branches can't be enforced in this model's format");
    cJSON_ArrayForEach (v, list) {
        expr x = parser_types(v, 0) & TYPE_STRING ? mixed_value(s, v, stop, depth + 1)
                                                  : schema_read(s, v);
        if (x < 0)
            return x;
        if (!(parser_types(v, 0) & TYPE_STRING) && schema_types(s, v) & TYPE_STRING)
            return schema_fail(
                s, ERR_UNSUPPORTED,
                "a string among other types needs its \"type\" in this model's format");
        expr_list_add(s->b, &all, x);
    }
    if (list)
        return expr_alt_list(s->b, &all);
    expr text = plain_text(s, schema, stop, true);
    cJSON *rest = cJSON_Duplicate(schema, true),
          *types = cJSON_GetObjectItemCaseSensitive(rest, "type");
    for (int i = cJSON_GetArraySize(types) - 1; cJSON_IsArray(types) && i >= 0; i--) {
        const char *name = cJSON_GetStringValue(cJSON_GetArrayItem(types, i));
        if (name && !strcmp(name, "string"))
            cJSON_DeleteItemFromArray(types, i);
    }
    expr other = text;
    if (text >= 0 && cJSON_IsArray(types) && types->child)
        other = schema_read(s, rest);
    cJSON_Delete(rest);
    if (text < 0 || other < 0)
        return -1;
    return other == text ? text : expr_alt2(s->b, text, other);
}

expr schema_tag_value(struct json_schema *s, const cJSON *schema, const char *stop, bool *text)
{
    unsigned types = parser_types(schema, 0);
    *text = types == TYPE_STRING;
    if (!(types & TYPE_STRING))
        return schema_read(s, schema);
    if (*text && !branches_of(schema))
        return plain_text(s, schema, stop, false);
    if (*text) { /* strings in every branch */
        struct expr_list all = {0};
        const cJSON *v;
        cJSON_ArrayForEach (v, branches_of(schema)) {
            expr x = branches_of(v)
                         ? schema_fail(
                               s, ERR_UNSUPPORTED,
                               "branches within branches can't be enforced in this model's format")
                         : plain_text(s, v, stop, false);
            if (x < 0)
                return x;
            expr_list_add(s->b, &all, x);
        }
        return expr_alt_list(s->b, &all);
    }
    return mixed_value(s, schema, stop, 0);
}
