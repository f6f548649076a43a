/* Methods of lists, tuples, dicts, loops and cyclers. Those that change their object are allowed,
 * though the sandbox of transformers forbids them: real templates (Kimi-K2) need them. */
#include <string.h>

#include "engine/jinja/jinja_run.h"

#define LIST (c->self.as.l)
#define DICT (c->self.as.d)

/* ---- lists */

static struct jvalue list_append(struct jcall *c)
{
    jinja_push(c->r, c->self, c->p[0]);
    return jinja_none();
}

static struct jvalue list_extend(struct jcall *c)
{
    struct jlist *l = jinja_items(c->r, c->p[0]);
    uint32_t n = l ? l->n : 0; /* fixed first: a list may extend itself */
    for (uint32_t i = 0; i < n && jinja_step(c->r, 1); i++)
        jinja_push(c->r, c->self, l->at[i]);
    return jinja_none();
}

static uint32_t clamp_index(struct jcall *c, int64_t i)
{
    i += i < 0 ? LIST->n : 0;
    return i < 0 ? 0 : i > LIST->n ? LIST->n : (uint32_t)i;
}

static struct jvalue list_insert(struct jcall *c)
{
    uint32_t at = clamp_index(c, jinja_want_int(c, 0, 0));
    if (jinja_step(c->r, LIST->n / 8) && jinja_push(c->r, c->self, c->p[1])) {
        memmove(LIST->at + at + 1, LIST->at + at, (LIST->n - 1 - at) * sizeof *LIST->at);
        LIST->at[at] = c->p[1];
    }
    return jinja_none();
}

static void list_cut(struct jcall *c, uint32_t at)
{
    jinja_step(c->r, LIST->n / 8);
    memmove(LIST->at + at, LIST->at + at + 1, (LIST->n - at - 1) * sizeof *LIST->at);
    LIST->n--;
}

static struct jvalue list_pop(struct jcall *c)
{
    int64_t i = jinja_want_int(c, 0, -1);
    i += i < 0 ? LIST->n : 0;
    if (jinja_failed(c->r))
        return jinja_none();
    if (i < 0 || i >= LIST->n)
        return jinja_type_error(c->r, LIST->n ? "pop index out of range" : "pop from empty list");
    struct jvalue v = LIST->at[i];
    list_cut(c, (uint32_t)i);
    return v;
}

static int64_t list_find(struct jcall *c)
{
    for (uint32_t i = 0; i < LIST->n && jinja_step(c->r, 1); i++)
        if (jinja_equal(c->r, LIST->at[i], c->p[0]))
            return i;
    return -1;
}

static struct jvalue list_remove(struct jcall *c)
{
    int64_t at = list_find(c);
    if (at < 0)
        return jinja_type_error(c->r, "list.remove(x): x not in list");
    list_cut(c, (uint32_t)at);
    return jinja_none();
}

static struct jvalue list_index(struct jcall *c)
{
    int64_t at = list_find(c);
    return at < 0 ? jinja_type_error(c->r, "value is not in list") : jinja_int(at);
}

static struct jvalue list_count(struct jcall *c)
{
    int64_t n = 0;
    for (uint32_t i = 0; i < LIST->n && jinja_step(c->r, 1); i++)
        n += jinja_equal(c->r, LIST->at[i], c->p[0]);
    return jinja_int(n);
}

static struct jvalue list_reverse(struct jcall *c)
{
    jinja_step(c->r, LIST->n / 8);
    for (uint32_t i = 0; i < LIST->n / 2; i++) {
        struct jvalue v = LIST->at[i];
        LIST->at[i] = LIST->at[LIST->n - 1 - i];
        LIST->at[LIST->n - 1 - i] = v;
    }
    return jinja_none();
}

static struct jvalue list_sort(struct jcall *c)
{
    struct jvalue *keys = jinja_alloc(c->r, ((size_t)LIST->n + 1) * sizeof *keys);
    if (!keys)
        return jinja_none();
    if (LIST->n)
        memcpy(keys, LIST->at, LIST->n * sizeof *keys);
    jinja_sort(c->r, LIST->at, keys, LIST->n, jinja_want_bool(c, 0, false) ? SORT_REVERSE : 0);
    return jinja_none();
}

static struct jvalue list_copy(struct jcall *c)
{
    struct jvalue out = jinja_list(c->r, J_LIST, LIST->n);
    for (uint32_t i = 0; i < LIST->n && jinja_step(c->r, 1); i++)
        jinja_push(c->r, out, LIST->at[i]);
    if (!jinja_failed(c->r))
        out.as.l->outside = LIST->outside;
    return out;
}

static struct jvalue list_clear(struct jcall *c)
{
    LIST->n = 0;
    return jinja_none();
}

/* ---- dicts */

static struct jvalue dict_get(struct jcall *c)
{
    struct jvalue *v = jinja_dict_get(c->r, DICT, c->p[0]);
    return v ? *v : jinja_given(c->p[1]) ? c->p[1] : jinja_none();
}

static struct jvalue dict_view(struct jcall *c)
{
    return (struct jvalue){.type = J_VIEW, .aux = (uint8_t)(c->op >> 16), .as.d = DICT};
}

static struct jvalue dict_pop(struct jcall *c)
{
    struct jvalue v;
    if (jinja_dict_remove(c->r, DICT, c->p[0], &v))
        return v;
    if (jinja_given(c->p[1]))
        return c->p[1];
    return jinja_type_error(c->r, "KeyError: the key is not in the dict");
}

static struct jvalue dict_popitem(struct jcall *c)
{
    struct jvalue out = jinja_list(c->r, J_TUPLE, 2), v;
    if (DICT->n == 0)
        return jinja_type_error(c->r, "popitem(): dictionary is empty");
    struct jvalue key = DICT->at[DICT->n - 1].key;
    if (jinja_dict_remove(c->r, DICT, key, &v)) {
        jinja_push(c->r, out, key);
        jinja_push(c->r, out, v);
    }
    return out;
}

static struct jvalue dict_setdefault(struct jcall *c)
{
    struct jvalue *v = jinja_dict_get(c->r, DICT, c->p[0]);
    if (v)
        return *v;
    struct jvalue set = jinja_given(c->p[1]) ? c->p[1] : jinja_none();
    jinja_dict_set(c->r, DICT, c->p[0], set);
    return set;
}

static bool update_from(struct jcall *c, struct jdict *d, struct jvalue from)
{
    if (from.type == J_DICT) {
        for (uint32_t i = 0; i < from.as.d->n && jinja_step(c->r, 1); i++)
            jinja_dict_set(c->r, d, from.as.d->at[i].key, from.as.d->at[i].value);
        return !jinja_failed(c->r);
    }
    struct jlist *pairs = jinja_items(c->r, from);
    for (uint32_t i = 0; pairs && i < pairs->n && jinja_step(c->r, 1); i++) {
        struct jlist *two = jinja_items(c->r, pairs->at[i]);
        if (two && two->n == 2)
            jinja_dict_set(c->r, d, two->at[0], two->at[1]);
        else
            jinja_type_error(c->r, "dictionary update sequence element #%u is not a pair", i);
    }
    return !jinja_failed(c->r);
}

static bool update_keywords(struct jcall *c, struct jdict *d)
{
    for (int i = 0; i < c->args->n_keyword; i++)
        jinja_dict_set(c->r, d, c->args->keyword[i].name, c->args->keyword[i].value);
    return !jinja_failed(c->r);
}

static struct jvalue dict_update(struct jcall *c)
{
    if (c->args->n && !update_from(c, DICT, c->args->at[0]))
        return jinja_none();
    update_keywords(c, DICT);
    return jinja_none();
}

static struct jvalue dict_copy(struct jcall *c)
{
    struct jvalue out = jinja_dict(c->r);
    if (!jinja_failed(c->r) && update_from(c, out.as.d, c->self))
        out.as.d->outside = DICT->outside;
    return out;
}

static struct jvalue dict_clear(struct jcall *c)
{
    *DICT = (struct jdict){.outside = DICT->outside};
    return jinja_none();
}

/* The global `dict`: dict(pairs, key=value), and its own dict.fromkeys. */
static struct jvalue make_dict(struct jcall *c)
{
    struct jvalue out = jinja_dict(c->r);
    if (jinja_failed(c->r) || (c->args->n && !update_from(c, out.as.d, c->args->at[0])))
        return out;
    update_keywords(c, out.as.d);
    return out;
}

static struct jvalue dict_fromkeys(struct jcall *c)
{
    struct jvalue out = jinja_dict(c->r);
    struct jlist *keys = jinja_items(c->r, c->p[0]);
    for (uint32_t i = 0; keys && i < keys->n && jinja_step(c->r, 1); i++)
        jinja_dict_set(c->r, out.as.d, keys->at[i], jinja_given(c->p[1]) ? c->p[1] : jinja_none());
    return out;
}

/* ---- loops and cyclers */

static struct jvalue loop_cycle(struct jcall *c)
{
    if (c->args->n == 0)
        return jinja_type_error(c->r, "no items for cycling given");
    return c->args->at[c->self.as.loop->i % (uint32_t)c->args->n];
}

static struct jvalue loop_changed(struct jcall *c)
{
    struct jloop *l = c->self.as.loop;
    struct jvalue now = jinja_list(c->r, J_TUPLE, 0);
    for (int i = 0; i < c->args->n; i++)
        jinja_push(c->r, now, c->args->at[i]);
    if (l->changed.type != J_MISSING && jinja_equal(c->r, l->changed, now))
        return jinja_bool(false);
    l->changed = now;
    return jinja_bool(true);
}

static struct jvalue cycler_current(struct jcall *c)
{
    return LIST->at[LIST->pos];
}

static struct jvalue cycler_next(struct jcall *c)
{
    struct jvalue v = LIST->at[LIST->pos];
    LIST->pos = (LIST->pos + 1) % LIST->n;
    return v;
}

static struct jvalue cycler_reset(struct jcall *c)
{
    LIST->pos = 0;
    return jinja_none();
}

#define VIEW(kind) (J_DICT | (kind) << 16)
#define ATTRIBUTE 0x100
/* op: the type that has it; ATTRIBUTE: it is read without a call */
const struct jbuiltin jinja_container_methods[] = {
    {"append", "object!", list_append, J_LIST},
    {"extend", "iterable!", list_extend, J_LIST},
    {"insert", "index!,object!", list_insert, J_LIST},
    {"pop", "index", list_pop, J_LIST},
    {"remove", "value!", list_remove, J_LIST},
    {"reverse", "", list_reverse, J_LIST},
    {"sort", "reverse", list_sort, J_LIST},
    {"copy", "", list_copy, J_LIST},
    {"clear", "", list_clear, J_LIST},
    {"index", "value!", list_index, J_LIST},
    {"count", "value!", list_count, J_LIST},
    {"index", "value!", list_index, J_TUPLE},
    {"count", "value!", list_count, J_TUPLE},
    {"get", "key!,default", dict_get, J_DICT},
    {"keys", "", dict_view, VIEW('k')},
    {"values", "", dict_view, VIEW('v')},
    {"items", "", dict_view, VIEW('i')},
    {"pop", "key!,default", dict_pop, J_DICT},
    {"popitem", "", dict_popitem, J_DICT},
    {"setdefault", "key!,default", dict_setdefault, J_DICT},
    {"update", "*", dict_update, J_DICT},
    {"copy", "", dict_copy, J_DICT},
    {"clear", "", dict_clear, J_DICT},
    {"fromkeys", "iterable!,value", dict_fromkeys, J_DICT},
    {"fromkeys", "iterable!,value", dict_fromkeys, J_FUNCTION},
    {"cycle", "*", loop_cycle, J_LOOP},
    {"changed", "*", loop_changed, J_LOOP},
    {"next", "", cycler_next, J_CYCLER},
    {"reset", "", cycler_reset, J_CYCLER},
    {"current", "", cycler_current, J_CYCLER | ATTRIBUTE},
    {NULL, NULL, NULL, 0},
};

/* ---- globals */

static struct jvalue make_range(struct jcall *c)
{
    struct jrange *g = jinja_alloc(c->r, sizeof *g);
    if (!g)
        return jinja_none();
    int64_t first = jinja_want_int(c, 0, 0);
    *g = (struct jrange){.stop = first, .step = jinja_want_int(c, 2, 1)};
    if (jinja_given(c->p[1])) {
        g->start = first;
        g->stop = jinja_want_int(c, 1, 0);
    }
    if (g->step == 0)
        return jinja_type_error(c->r, "range() arg 3 must not be zero");
    double n = ((double)g->stop - (double)g->start) / (double)g->step;
    struct jvalue v = {.type = J_RANGE, .as.range = g};
    if (n > JINJA_MAX_RANGE + 1.0 || (n > 0 && jinja_length(v) > JINJA_MAX_RANGE))
        jinja_fail(c->r, JINJA_LIMIT,
                   "Range too big. The sandbox blocks ranges larger than MAX_RANGE (%d).",
                   JINJA_MAX_RANGE);
    return v;
}

static struct jvalue make_namespace(struct jcall *c)
{
    struct jvalue v = make_dict(c);
    for (uint32_t i = 0; !jinja_failed(c->r) && i < v.as.d->n; i++) {
        struct jvalue key = v.as.d->at[i].key;
        if (key.type == J_STRING && key.as.s->len && key.as.s->data[0] == '_')
            jinja_fail(c->r, JINJA_SECURITY, "underscore-prefixed namespace attribute '%.*s'",
                       (int)(key.as.s->len < 60 ? key.as.s->len : 60), key.as.s->data);
    }
    v.type = jinja_failed(c->r) ? J_NONE : J_NAMESPACE;
    return v;
}

static struct jvalue make_cycler(struct jcall *c)
{
    struct jvalue v = jinja_list(c->r, J_CYCLER, 0);
    if (c->args->n == 0)
        return jinja_type_error(c->r, "at least one item has to be provided");
    for (int i = 0; i < c->args->n; i++)
        jinja_push(c->r, v, c->args->at[i]);
    return v;
}

static struct jvalue make_joiner(struct jcall *c)
{
    struct jvalue v = jinja_list(c->r, J_JOINER, 0);
    jinja_push(c->r, v, jinja_given(c->p[0]) ? c->p[0] : jinja_literal(c->r, ", "));
    return v;
}

static struct jvalue raise_exception(struct jcall *c)
{
    struct jvalue text = jinja_str(c->r, c->p[0]);
    jinja_fail(c->r, JINJA_RAISED, "%.*s", (int)text.as.s->len, text.as.s->data);
    return jinja_none();
}

/* strftime, but for what Python does itself: a time without a zone. */
static struct jvalue strftime_now(struct jcall *c)
{
    const struct jstring *format = jinja_want_string(c, 0, "");
    struct jbuilder b;
    jinja_builder_init(&b, c->r);
    for (uint32_t i = 0; i < format->len && !jinja_failed(c->r); i++) {
        char spec[4] = "%", out[128];
        if (format->data[i] != '%' || i + 1 >= format->len) {
            jinja_put_part(&b, format, i, i + 1);
            continue;
        }
        char kind = format->data[++i];
        if (kind == 'f')
            jinja_puts(&b, "000000");
        if (kind == 'f' || kind == 'z' || kind == 'Z')
            continue;
        spec[1] = kind;
        if (strchr("-_0^#EO", kind) && i + 1 < format->len)
            spec[2] = format->data[++i];
        struct tm now = c->r->now;
        size_t n = strftime(out, sizeof out, spec, &now);
        jinja_put(&b, out, n, false);
    }
    return jinja_builder_take(&b);
}

static struct jvalue lipsum(struct jcall *c)
{
    return jinja_type_error(c->r, "lipsum() is not there: its text is random");
}

const struct jbuiltin jinja_globals_table[] = {
    {"range", "start!,stop,step", make_range, 0},
    {"dict", "*", make_dict, 0},
    {"namespace", "*", make_namespace, 0},
    {"cycler", "*", make_cycler, 0},
    {"joiner", "sep", make_joiner, 0},
    {"raise_exception", "message!", raise_exception, 0},
    {"strftime_now", "format!", strftime_now, 0},
    {"lipsum", "*", lipsum, 0},
    {NULL, NULL, NULL, 0},
};
