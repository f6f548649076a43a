/* The filters on lists and dicts, and the few that take any value; those that sort or compare are
 * in jinja_filters_order.c. */
#include <string.h>

#include "engine/jinja/jinja_run.h"

/* ---- first, last, length ... */

static struct jvalue filter_length(struct jcall *c)
{
    int64_t n = jinja_length(c->self);
    if (n < 0)
        return jinja_type_error(c->r, "object of type '%s' has no len()", jinja_type_name(c->self));
    return jinja_int(n);
}

static struct jvalue filter_first(struct jcall *c)
{
    if (c->self.type == J_STRING && c->self.as.s->len)
        return jinja_getitem(c->r, c->self, jinja_int(0));
    struct jlist *l = jinja_items(c->r, c->self);
    return l && l->n ? l->at[0] : jinja_undefined_text(c->r, "No first item, sequence was empty.");
}

static struct jvalue filter_last(struct jcall *c)
{
    if (c->self.type == J_STRING && c->self.as.s->len)
        return jinja_getitem(c->r, c->self, jinja_int(-1));
    if (c->self.type == J_ITERATOR)
        return jinja_type_error(c->r, "'generator' object is not reversible");
    struct jlist *l = jinja_items(c->r, c->self);
    return l && l->n ? l->at[l->n - 1]
                     : jinja_undefined_text(c->r, "No last item, sequence was empty.");
}

struct jvalue jinja_copy_list(struct jinja_run *r, struct jvalue v, enum jtype type)
{
    struct jlist *l = jinja_items(r, v);
    struct jvalue out = jinja_list(r, type, l ? l->n : 0);
    for (uint32_t i = 0; l && i < l->n && jinja_step(r, 1); i++)
        jinja_push(r, out, l->at[i]);
    if (!jinja_failed(r))
        out.as.l->outside = l && l->outside;
    return out;
}

static struct jvalue filter_list(struct jcall *c)
{
    return jinja_copy_list(c->r, c->self, J_LIST);
}

static struct jvalue filter_reverse(struct jcall *c)
{
    if (c->self.type == J_STRING)
        return jinja_slice(c->r, c->self, jinja_none(), jinja_none(), jinja_int(-1));
    struct jvalue out = jinja_copy_list(c->r, c->self, J_ITERATOR);
    for (uint32_t i = 0; !jinja_failed(c->r) && i < out.as.l->n / 2; i++) {
        struct jvalue v = out.as.l->at[i];
        out.as.l->at[i] = out.as.l->at[out.as.l->n - 1 - i];
        out.as.l->at[out.as.l->n - 1 - i] = v;
    }
    return out;
}

static struct jvalue filter_default(struct jcall *c)
{
    bool take =
        c->self.type == J_UNDEFINED || (jinja_want_bool(c, 1, false) && !jinja_true(c->r, c->self));
    if (!take)
        return c->self;
    return jinja_given(c->p[0]) ? c->p[0] : jinja_literal(c->r, "");
}

static struct jvalue filter_join(struct jcall *c)
{
    const struct jstring *sep =
        jinja_given(c->p[0]) ? jinja_str(c->r, c->p[0]).as.s : jinja_empty().as.s;
    struct jlist *l = jinja_items(c->r, c->self);
    struct jbuilder b;
    jinja_builder_init(&b, c->r);
    for (uint32_t i = 0; l && i < l->n && jinja_step(c->r, 1); i++) {
        struct jvalue v = l->at[i];
        if (jinja_given(c->p[1]) && c->p[1].type != J_NONE)
            v = jinja_walk_path(c->r, v, c->p[1], (struct jvalue){0});
        if (i)
            jinja_put_string(&b, sep);
        jinja_put_str(&b, v);
    }
    return jinja_builder_take(&b);
}

static struct jvalue filter_attr(struct jcall *c)
{
    /* attributes only, never items */
    const struct jstring *name = jinja_str(c->r, c->p[0]).as.s;
    if (c->self.type == J_DICT && jinja_dict_find(c->self.as.d, name->data, name->len)) {
        static const char *const methods[] = {"get", "keys",   "values", "items",
                                              "pop", "update", "copy",   NULL};
        for (int i = 0; methods[i]; i++)
            if (strlen(methods[i]) == name->len && !memcmp(methods[i], name->data, name->len))
                return jinja_getattr(c->r, c->self, name);
        return jinja_undefined(c->r, name, J_DICT);
    }
    return jinja_getattr(c->r, c->self, name);
}

static struct jvalue filter_tojson(struct jcall *c)
{
    struct jjson how = {.ascii = jinja_want_bool(c, 0, false),
                        .indent = -1,
                        .sort_keys = jinja_want_bool(c, 3, false)};
    if (jinja_given(c->p[1]) && c->p[1].type != J_NONE) {
        int64_t indent = jinja_want_int(c, 1, 0);
        if (indent > 64) {
            jinja_fail(c->r, JINJA_LIMIT, "an indentation of %lld is over the template's limit",
                       (long long)indent);
            return jinja_none();
        }
        how.indent = indent < 0 ? 0 : (int)indent;
    }
    how.item_separator = jinja_literal(c->r, how.indent < 0 ? ", " : ",").as.s;
    how.key_separator = jinja_literal(c->r, ": ").as.s;
    if (jinja_given(c->p[2]) && c->p[2].type != J_NONE) {
        struct jlist *two = jinja_items(c->r, c->p[2]);
        if (!two || two->n != 2 || two->at[0].type != J_STRING || two->at[1].type != J_STRING)
            return jinja_type_error(c->r, "separators must be two strings");
        how.item_separator = two->at[0].as.s;
        how.key_separator = two->at[1].as.s;
    }
    struct jbuilder b;
    jinja_builder_init(&b, c->r);
    jinja_put_json(&b, &how, c->self);
    return jinja_builder_take(&b);
}

static struct jvalue filter_items(struct jcall *c)
{
    if (c->self.type == J_UNDEFINED)
        return jinja_list(c->r, J_ITERATOR, 0);
    if (c->self.type != J_DICT)
        return jinja_type_error(c->r, "Can only get item pairs from a mapping.");
    struct jvalue view = {.type = J_VIEW, .aux = 'i', .as.d = c->self.as.d};
    return jinja_copy_list(c->r, view, J_ITERATOR);
}

/* ---- map, select, reject */

/* The arguments of a filter or test that is named in `args` at `from`. */
static struct jargs rest_args(const struct jargs *args, int from)
{
    struct jargs rest = *args;
    rest.n = args->n > from ? args->n - from : 0;
    if (rest.n)
        rest.at += from;
    return rest;
}

static struct jvalue keyword(const struct jargs *args, const char *name)
{
    for (int i = 0; i < args->n_keyword; i++)
        if (jinja_is_text(args->keyword[i].name, name))
            return args->keyword[i].value;
    return (struct jvalue){0};
}

static struct jvalue map_attribute(struct jcall *c, struct jvalue path, struct jlist *l)
{
    struct jvalue out = jinja_list(c->r, J_ITERATOR, l->n), otherwise = keyword(c->args, "default");
    out.aux = 'a';
    for (uint32_t i = 0; i < l->n && jinja_step(c->r, 1); i++)
        jinja_push(c->r, out, jinja_walk_path(c->r, l->at[i], path, otherwise));
    if (!jinja_failed(c->r))
        out.as.l->outside = l->outside;
    return out;
}

static struct jvalue filter_map(struct jcall *c)
{
    struct jvalue path = keyword(c->args, "attribute");
    if (!jinja_true(c->r, c->self)) /* 0 is as good as an empty list */
        return jinja_list(c->r, J_ITERATOR, 0);
    struct jlist *l = jinja_items(c->r, c->self);
    if (!l)
        return jinja_none();
    if (c->args->n == 0)
        return path.type != J_MISSING ? map_attribute(c, path, l)
                                      : jinja_type_error(c->r, "map requires a filter argument");
    const struct jstring *name = jinja_str(c->r, c->args->at[0]).as.s;
    const struct jbuiltin *f = jinja_find_filter(name->data, name->len);
    if (!f)
        return jinja_type_error(c->r, "No filter named '%.*s'.",
                                (int)(name->len < 60 ? name->len : 60), name->data);
    struct jargs rest = rest_args(c->args, 1);
    struct jvalue out = jinja_list(c->r, J_ITERATOR, l->n);
    for (uint32_t i = 0; i < l->n && jinja_step(c->r, 1); i++)
        jinja_push(c->r, out, jinja_call_builtin(c->r, f, l->at[i], &rest));
    return out;
}

enum { SELECT = 0, REJECT = 1, BY_ATTRIBUTE = 2 };

static struct jvalue filter_select(struct jcall *c)
{
    int skip = c->op & BY_ATTRIBUTE ? 1 : 0;
    if (!jinja_true(c->r, c->self))
        return jinja_list(c->r, J_ITERATOR, 0);
    struct jlist *l = jinja_items(c->r, c->self);
    if (!l)
        return jinja_none();
    if (skip && c->args->n == 0)
        return jinja_type_error(c->r, "Missing parameter for attribute name");
    const struct jbuiltin *test = NULL;
    if (c->args->n > skip) {
        const struct jstring *name = jinja_str(c->r, c->args->at[skip]).as.s;
        test = jinja_find_test(name->data, name->len);
        if (!test)
            return jinja_type_error(c->r, "No test named '%.*s'.",
                                    (int)(name->len < 60 ? name->len : 60), name->data);
    }
    struct jargs rest = rest_args(c->args, skip + 1);
    struct jvalue out = jinja_list(c->r, J_ITERATOR, 0);
    for (uint32_t i = 0; i < l->n && jinja_step(c->r, 1); i++) {
        struct jvalue v =
            skip ? jinja_walk_path(c->r, l->at[i], c->args->at[0], (struct jvalue){0}) : l->at[i];
        if (jinja_failed(c->r))
            break;
        bool yes = jinja_true(c->r, test ? jinja_call_builtin(c->r, test, v, &rest) : v);
        if (yes != (c->op & REJECT))
            jinja_push(c->r, out, l->at[i]);
    }
    if (!jinja_failed(c->r))
        out.as.l->outside = l->outside;
    return out;
}

/* ---- pieces */

/* batch(linecount, fill_with=none) */
static struct jvalue filter_batch(struct jcall *c)
{
    struct jlist *l = jinja_items(c->r, c->self);
    int64_t size = jinja_want_int(c, 0, 0);
    struct jvalue out = jinja_list(c->r, J_ITERATOR, 0), row = jinja_none();
    if (size < 1 || size > JINJA_MAX_RANGE)
        return jinja_type_error(c->r, "batch of %lld", (long long)size);
    for (uint32_t i = 0; l && i < l->n && jinja_step(c->r, 1); i++) {
        if (i % (uint64_t)size == 0) {
            row = jinja_list(c->r, J_LIST, 0);
            jinja_push(c->r, out, row);
        }
        jinja_push(c->r, row, l->at[i]);
    }
    bool fill = jinja_given(c->p[1]) && c->p[1].type != J_NONE;
    while (fill && row.type == J_LIST && row.as.l->n < size && jinja_push(c->r, row, c->p[1]))
        ;
    return out;
}

/* slice(slices, fill_with=none) */
static struct jvalue filter_slice(struct jcall *c)
{
    struct jlist *l = jinja_items(c->r, c->self);
    int64_t slices = jinja_want_int(c, 0, 0);
    struct jvalue out = jinja_list(c->r, J_ITERATOR, 0);
    if (!l || slices < 1 || slices > JINJA_MAX_RANGE)
        return jinja_type_error(c->r, "slice into %lld", (long long)slices);
    uint32_t each = l->n / (uint32_t)slices, more = l->n % (uint32_t)slices, at = 0;
    bool fill = jinja_given(c->p[1]) && c->p[1].type != J_NONE;
    for (uint32_t s = 0; s < slices && jinja_step(c->r, 1); s++) {
        struct jvalue row = jinja_list(c->r, J_LIST, 0);
        for (uint32_t i = 0; i < each + (s < more); i++)
            jinja_push(c->r, row, l->at[at++]);
        if (fill && s >= more)
            jinja_push(c->r, row, c->p[1]);
        jinja_push(c->r, out, row);
    }
    return out;
}

static struct jvalue filter_pprint(struct jcall *c)
{
    struct jbuilder b;
    jinja_builder_init(&b, c->r);
    jinja_put_repr(&b, c->self);
    return jinja_builder_take(&b);
}

const struct jbuiltin jinja_filters_list[] = {
    {"length", "", filter_length, 0},
    {"count", "", filter_length, 0},
    {"first", "", filter_first, 0},
    {"last", "", filter_last, 0},
    {"list", "", filter_list, 0},
    {"reverse", "", filter_reverse, 0},
    {"join", "d,attribute", filter_join, 0},
    {"map", "*", filter_map, 0},
    {"select", "*", filter_select, SELECT},
    {"reject", "*", filter_select, REJECT},
    {"selectattr", "*", filter_select, SELECT | BY_ATTRIBUTE},
    {"rejectattr", "*", filter_select, REJECT | BY_ATTRIBUTE},
    {"batch", "linecount!,fill_with", filter_batch, 0},
    {"slice", "slices!,fill_with", filter_slice, 0},
    {NULL, NULL, NULL, 0},
};

const struct jbuiltin jinja_filters_other[] = {
    {"default", "default_value,boolean", filter_default, 0},
    {"d", "default_value,boolean", filter_default, 0},
    {"attr", "name!", filter_attr, 0},
    {"items", "", filter_items, 0},
    {"tojson", "ensure_ascii,indent,separators,sort_keys", filter_tojson, 0},
    {"pprint", "", filter_pprint, 0},
    {NULL, NULL, NULL, 0},
};
