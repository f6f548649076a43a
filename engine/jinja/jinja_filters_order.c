/* The filters that sort or compare the items of a list or dict: sort, min, max, unique, dictsort,
 * groupby; and sum. */
#include <string.h>

#include "engine/jinja/jinja_run.h"

/* The keys by which a filter compares: an attribute, case folded unless told otherwise. */
static struct jvalue *make_keys(struct jcall *c, const struct jlist *l, struct jvalue path,
                                bool case_sensitive)
{
    struct jvalue *keys = jinja_alloc(c->r, ((size_t)l->n + 1) * sizeof *keys);
    bool by_path = path.type != J_MISSING && path.type != J_NONE;
    for (uint32_t i = 0; keys && i < l->n && jinja_step(c->r, 1); i++) {
        keys[i] = by_path ? jinja_walk_path(c->r, l->at[i], path, (struct jvalue){0}) : l->at[i];
        if (!case_sensitive)
            keys[i] = jinja_fold_case(c->r, keys[i]);
    }
    return jinja_failed(c->r) ? NULL : keys;
}

/* "a,b": sorted by several attributes at once, as a tuple of them. */
static struct jvalue *make_multi_keys(struct jcall *c, const struct jlist *l, struct jvalue paths,
                                      bool case_sensitive)
{
    struct jvalue *keys = jinja_alloc(c->r, ((size_t)l->n + 1) * sizeof *keys);
    const struct jstring *s = paths.as.s;
    for (uint32_t i = 0; keys && i < l->n; i++)
        keys[i] = jinja_list(c->r, J_TUPLE, 2);
    for (uint32_t at = 0; keys && at <= s->len && !jinja_failed(c->r);) {
        const char *comma = memchr(s->data + at, ',', s->len - at);
        uint32_t end = comma ? (uint32_t)(comma - s->data) : s->len;
        struct jvalue *one = make_keys(c, l, jinja_part(c->r, s, at, end), case_sensitive);
        for (uint32_t i = 0; one && i < l->n; i++)
            jinja_push(c->r, keys[i], one[i]);
        at = end + 1;
    }
    return jinja_failed(c->r) ? NULL : keys;
}

/* sort(reverse=false, case_sensitive=false, attribute=none) */
static struct jvalue filter_sort(struct jcall *c)
{
    struct jvalue out = jinja_copy_list(c->r, c->self, J_LIST), path = c->p[2];
    bool case_sensitive = jinja_want_bool(c, 1, false);
    if (jinja_failed(c->r))
        return jinja_none();
    bool many = path.type == J_STRING && memchr(path.as.s->data, ',', path.as.s->len);
    struct jvalue *keys = many ? make_multi_keys(c, out.as.l, path, case_sensitive)
                               : make_keys(c, out.as.l, path, case_sensitive);
    if (keys)
        jinja_sort(c->r, out.as.l->at, keys, out.as.l->n,
                   SORT_UNDEFINED | (jinja_want_bool(c, 0, false) ? SORT_REVERSE : 0));
    return out;
}

/* min, max (case_sensitive=false, attribute=none) */
static struct jvalue filter_extreme(struct jcall *c)
{
    struct jlist *l = jinja_items(c->r, c->self);
    struct jvalue *keys = l ? make_keys(c, l, c->p[1], jinja_want_bool(c, 0, false)) : NULL;
    if (!keys)
        return jinja_none();
    if (l->n == 0)
        return jinja_undefined_text(c->r, "No aggregated item, sequence was empty.");
    uint32_t best = 0;
    for (uint32_t i = 1; i < l->n && !jinja_failed(c->r); i++)
        if (c->op ? jinja_less(c->r, keys[best], keys[i], "<")
                  : jinja_less(c->r, keys[i], keys[best], "<"))
            best = i;
    return l->at[best];
}

static struct jvalue filter_unique(struct jcall *c)
{
    struct jlist *l = jinja_items(c->r, c->self);
    struct jvalue *keys = l ? make_keys(c, l, c->p[1], jinja_want_bool(c, 0, false)) : NULL;
    struct jvalue seen = jinja_dict(c->r), out = jinja_list(c->r, J_ITERATOR, 0);
    for (uint32_t i = 0; keys && i < l->n && !jinja_failed(c->r); i++) {
        if (jinja_dict_get(c->r, seen.as.d, keys[i]))
            continue;
        jinja_dict_set(c->r, seen.as.d, keys[i], jinja_none());
        jinja_push(c->r, out, l->at[i]);
    }
    return out;
}

/* sum(attribute=none, start=0) */
static struct jvalue filter_sum(struct jcall *c)
{
    struct jlist *l = jinja_items(c->r, c->self);
    struct jvalue total = jinja_given(c->p[1]) ? c->p[1] : jinja_int(0);
    for (uint32_t i = 0; l && i < l->n && jinja_step(c->r, 1); i++) {
        struct jvalue v = l->at[i];
        if (jinja_given(c->p[0]) && c->p[0].type != J_NONE)
            v = jinja_walk_path(c->r, v, c->p[0], (struct jvalue){0});
        total = jinja_binary(c->r, OP_ADD, total, v);
    }
    return total;
}

/* dictsort(case_sensitive=false, by="key", reverse=false) */
static struct jvalue filter_dictsort(struct jcall *c)
{
    const struct jstring *by = jinja_want_string(c, 1, "key");
    bool by_value =
        jinja_is_text((struct jvalue){.type = J_STRING, .as.s = (struct jstring *)by}, "value");
    if (c->self.type != J_DICT)
        return jinja_defined(c->r, c->self)
                   ? jinja_type_error(c->r, "'%s' object has no attribute 'items'",
                                      jinja_type_name(c->self))
                   : jinja_none();
    struct jvalue view = {.type = J_VIEW, .aux = 'i', .as.d = c->self.as.d};
    struct jvalue out = jinja_copy_list(c->r, view, J_LIST);
    struct jvalue *keys = jinja_failed(c->r) ? NULL
                                             : make_keys(c, out.as.l, jinja_int(by_value ? 1 : 0),
                                                         jinja_want_bool(c, 0, false));
    if (keys)
        jinja_sort(c->r, out.as.l->at, keys, out.as.l->n,
                   jinja_want_bool(c, 2, false) ? SORT_REVERSE : 0);
    return out;
}

/* groupby(attribute, default=none, case_sensitive=false): tuples of (grouper, list), which also
 * answer to .grouper and .list (own_attribute in jinja_access.c). */
static struct jvalue filter_groupby(struct jcall *c)
{
    struct jvalue sorted = jinja_copy_list(c->r, c->self, J_LIST),
                  out = jinja_list(c->r, J_LIST, 0);
    if (jinja_failed(c->r))
        return jinja_none();
    uint32_t n = sorted.as.l->n;
    struct jvalue *keys = jinja_alloc(c->r, ((size_t)n + 1) * sizeof *keys);
    struct jvalue *folded = jinja_alloc(c->r, ((size_t)n + 1) * sizeof *folded);
    bool case_sensitive = jinja_want_bool(c, 2, false);
    if (!keys || !folded)
        return jinja_none();
    for (uint32_t i = 0; i < n && !jinja_failed(c->r);
         i++) { /* pairs move together: key beside item */
        struct jvalue pair = jinja_list(c->r, J_TUPLE, 2);
        keys[i] = jinja_walk_path(c->r, sorted.as.l->at[i], c->p[0], c->p[1]);
        folded[i] = case_sensitive ? keys[i] : jinja_fold_case(c->r, keys[i]);
        jinja_push(c->r, pair, keys[i]);
        jinja_push(c->r, pair, sorted.as.l->at[i]);
        jinja_push(c->r, pair, folded[i]);
        sorted.as.l->at[i] = pair;
    }
    jinja_sort(c->r, sorted.as.l->at, folded, n, 0);
    struct jvalue group = jinja_none(), last = jinja_none();
    for (uint32_t i = 0; i < n && !jinja_failed(c->r); i++) {
        const struct jlist *pair = sorted.as.l->at[i].as.l;
        if (i == 0 || !jinja_equal(c->r, last, pair->at[2])) {
            struct jvalue two = jinja_list(c->r, J_TUPLE, 2);
            two.aux = 'g';
            group = jinja_list(c->r, J_LIST, 0);
            jinja_push(c->r, two, pair->at[0]);
            jinja_push(c->r, two, group);
            jinja_push(c->r, out, two);
            last = pair->at[2];
        }
        jinja_push(c->r, group, pair->at[1]);
    }
    return out;
}

const struct jbuiltin jinja_filters_order[] = {
    {"sort", "reverse,case_sensitive,attribute", filter_sort, 0},
    {"min", "case_sensitive,attribute", filter_extreme, 0},
    {"max", "case_sensitive,attribute", filter_extreme, 1},
    {"unique", "case_sensitive,attribute", filter_unique, 0},
    {"sum", "attribute,start", filter_sum, 0},
    {"dictsort", "case_sensitive,by,reverse", filter_dictsort, 0},
    {"groupby", "attribute!,default,case_sensitive", filter_groupby, 0},
    {NULL, NULL, NULL, 0},
};
