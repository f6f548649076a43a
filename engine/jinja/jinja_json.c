/* JSON in and out: cJSON trees as values, and json.dumps as transformers' tojson calls it. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/jinja/jinja_run.h"

/* ---- in */

/* A number as Python's json reads it: with a point or an exponent it is a float. cJSON keeps only a
 * double; json_parse leaves the literal in valuestring where the double would not tell. */
static struct jvalue number_from_json(struct jinja_run *r, const cJSON *v)
{
    const char *literal = v->valuestring;
    if (!literal) {
        if (v->valuedouble == floor(v->valuedouble) && fabs(v->valuedouble) < 9007199254740992.0)
            return jinja_int((int64_t)v->valuedouble);
        return jinja_float(v->valuedouble);
    }
    if (strpbrk(literal, ".eE"))
        return jinja_float(v->valuedouble);
    return jinja_parse_int(r, literal, strlen(literal));
}

static struct jvalue container_from_json(struct jinja_run *r, const cJSON *v, bool outside,
                                         int depth)
{
    bool is_list = cJSON_IsArray(v);
    struct jvalue out = is_list ? jinja_list(r, J_LIST, 0) : jinja_dict(r);
    if (depth > 256)
        jinja_fail(r, JINJA_LIMIT, "JSON nested deeper than 256");
    if (jinja_failed(r))
        return jinja_none();
    if (is_list)
        out.as.l->outside = outside;
    else
        out.as.d->outside = outside;
    for (const cJSON *i = v->child; i && !jinja_failed(r); i = i->next) {
        struct jvalue item = jinja_from_json(r, i, outside, depth + 1);
        if (is_list)
            jinja_push(r, out, item);
        else
            jinja_dict_set(r, out.as.d, jinja_borrow(r, i->string, strlen(i->string), outside),
                           item);
    }
    return out;
}

struct jvalue jinja_from_json(struct jinja_run *r, const cJSON *v, bool outside, int depth)
{
    struct jvalue out = jinja_none();
    if (cJSON_IsBool(v))
        out = jinja_bool(cJSON_IsTrue(v));
    else if (cJSON_IsNumber(v))
        out = number_from_json(r, v);
    else if (cJSON_IsString(v))
        return jinja_borrow(r, v->valuestring, strlen(v->valuestring), outside);
    else if (cJSON_IsArray(v) || cJSON_IsObject(v))
        return container_from_json(r, v, outside, depth);
    out.outside = outside;
    if (out.type == J_BIG)
        out.as.s->outside = outside;
    return out;
}

struct jvalue jinja_messages_from_json(struct jinja_run *r, const cJSON *v)
{
    static const char *const known[] = {"system",   "developer", "user",  "assistant", "tool",
                                        "function", "ipython",   "model", NULL};
    struct jvalue list = jinja_from_json(r, v, true, 0);
    for (uint32_t i = 0; list.type == J_LIST && i < list.as.l->n; i++) {
        struct jvalue m = list.as.l->at[i];
        struct jvalue *role = m.type == J_DICT ? jinja_dict_find(m.as.d, "role", 4) : NULL;
        for (int k = 0; role && known[k]; k++)
            if (jinja_is_text(*role, known[k]))
                role->as.s->outside = false;
    }
    return list;
}

/* ---- out */

static bool put_escape(struct jbuilder *b, const struct jstring *s, uint32_t at, uint32_t code)
{
    static const char from[] = "\"\\\n\r\t\f\b", to[] = "\"\\nrtfb";
    char text[16];
    const char *simple = code < 0x80 && code ? strchr(from, (int)code) : NULL;
    if (simple)
        snprintf(text, sizeof text, "\\%c", to[simple - from]);
    else if (code >= 0x10000)
        snprintf(text, sizeof text, "\\u%04x\\u%04x", 0xd800 + ((code - 0x10000) >> 10),
                 0xdc00 + ((code - 0x10000) & 0x3ff));
    else
        snprintf(text, sizeof text, "\\u%04x", code);
    return jinja_put_like(b, text, strlen(text), s, at);
}

static bool put_string(struct jbuilder *b, const struct jjson *how, const struct jstring *s)
{
    uint32_t start = 0;
    if (!jinja_put_like(b, "\"", 1, s, 0))
        return false;
    for (uint32_t at = 0; at < s->len;) {
        uint32_t code, n = 1;
        unsigned char c = (unsigned char)s->data[at];
        if (c < 0x80)
            code = c;
        else
            n = jinja_decode(s->data + at, s->len - at, &code);
        if (c < 0x20 || c == '"' || c == '\\' || (how->ascii && c > 0x7e)) {
            if (!jinja_put_part(b, s, start, at) || !put_escape(b, s, at, code))
                return false;
            start = at + n;
        }
        at += n;
    }
    return jinja_put_part(b, s, start, s->len) &&
           jinja_put_like(b, "\"", 1, s, s->len ? s->len - 1 : 0);
}

static bool put_break(struct jbuilder *b, const struct jjson *how, int depth, bool outside)
{
    if (how->indent < 0)
        return true;
    jinja_put(b, "\n", 1, outside);
    for (int i = 0; i < how->indent * depth; i++)
        if (!jinja_put(b, " ", 1, outside))
            return false;
    return true;
}

static bool put_value(struct jbuilder *b, const struct jjson *how, struct jvalue v, int depth);

static bool put_list(struct jbuilder *b, const struct jjson *how, const struct jlist *l, int depth)
{
    bool out = l->outside;
    if (l->n == l->pos)
        return jinja_put(b, "[]", 2, out);
    jinja_put(b, "[", 1, out);
    for (uint32_t i = l->pos; i < l->n; i++) {
        const struct jstring *sep = how->item_separator;
        if ((i > l->pos && !jinja_put(b, sep->data, sep->len, out)) ||
            !put_break(b, how, depth + 1, out) || !put_value(b, how, l->at[i], depth + 1))
            return false;
    }
    return put_break(b, how, depth, out) && jinja_put(b, "]", 1, out);
}

static bool put_key(struct jbuilder *b, const struct jjson *how, struct jvalue key)
{
    if (key.type == J_STRING)
        return put_string(b, how, key.as.s);
    if (key.type != J_NONE && !jinja_is_number(key)) {
        jinja_type_error(b->r, "keys must be str, int, float, bool or None, not %s",
                         jinja_type_name(key));
        return false;
    }
    return jinja_put(b, "\"", 1, key.outside) && put_value(b, how, key, 0) &&
           jinja_put(b, "\"", 1, key.outside);
}

static bool sort_keys(struct jinja_run *r, const struct jdict *d, struct jvalue *keys,
                      struct jvalue *values)
{
    for (uint32_t i = 0; i < d->n; i++) {
        keys[i] = d->at[i].key;
        values[i] = jinja_int(i);
    }
    return jinja_sort(r, values, keys, d->n, 0);
}

static bool put_dict(struct jbuilder *b, const struct jjson *how, const struct jdict *d, int depth)
{
    bool out = d->outside;
    struct jvalue *order = NULL;
    if (d->n == 0)
        return jinja_put(b, "{}", 2, out);
    if (how->sort_keys) {
        struct jvalue *keys = jinja_alloc(b->r, d->n * sizeof *keys);
        order = jinja_alloc(b->r, d->n * sizeof *order);
        if (!keys || !order || !sort_keys(b->r, d, keys, order))
            return false;
    }
    jinja_put(b, "{", 1, out);
    for (uint32_t i = 0; i < d->n; i++) {
        const struct jentry *e = &d->at[order ? (uint32_t)order[i].as.i : i];
        const struct jstring *sep = how->item_separator, *colon = how->key_separator;
        if ((i && !jinja_put(b, sep->data, sep->len, out)) || !put_break(b, how, depth + 1, out) ||
            !put_key(b, how, e->key) || !jinja_put(b, colon->data, colon->len, out) ||
            !put_value(b, how, e->value, depth + 1))
            return false;
    }
    return put_break(b, how, depth, out) && jinja_put(b, "}", 1, out);
}

static bool put_scalar(struct jbuilder *b, struct jvalue v)
{
    const char *text = v.type == J_NONE   ? "null"
                       : v.type == J_BOOL ? (v.as.b ? "true" : "false")
                                          : NULL;
    if (v.type == J_FLOAT && (isnan(v.as.f) || isinf(v.as.f)))
        text = isnan(v.as.f) ? "NaN" : v.as.f < 0 ? "-Infinity" : "Infinity";
    return text ? jinja_put(b, text, strlen(text), v.outside) : jinja_put_repr(b, v);
}

static bool put_value(struct jbuilder *b, const struct jjson *how, struct jvalue v, int depth)
{
    struct jinja_run *r = b->r;
    if (!jinja_step(r, 1) || !jinja_enter(r))
        return false;
    bool ok = false;
    switch (v.type) {
    case J_NONE:
    case J_BOOL:
    case J_INT:
    case J_BIG:
    case J_FLOAT:
        ok = put_scalar(b, v);
        break;
    case J_STRING:
        ok = put_string(b, how, v.as.s);
        break;
    case J_LIST:
    case J_TUPLE:
        ok = put_list(b, how, v.as.l, depth);
        break;
    case J_DICT:
        ok = put_dict(b, how, v.as.d, depth);
        break;
    case J_ITERATOR: /* not in Python; but DeepSeek's templates hand map(attribute=...) to tojson */
        if (v.aux == 'a') {
            ok = put_list(b, how, v.as.l, depth);
            break;
        }
        /* fall through */
    default:
        jinja_type_error(r, "Object of type %s is not JSON serializable", jinja_type_name(v));
    }
    jinja_leave(r);
    return ok;
}

bool jinja_put_json(struct jbuilder *b, const struct jjson *how, struct jvalue v)
{
    return put_value(b, how, v, 0);
}
