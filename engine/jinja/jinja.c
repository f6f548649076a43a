/* Renders a compiled template: sets its variables, runs it, and returns the text with its untrusted
 * spans. */
#include "engine/jinja/jinja.h"

#include <stdlib.h>
#include <string.h>

#include "engine/jinja/jinja_run.h"

/* Limits: what a real conversation of this size could need, with room. A loop without end is
 * through its steps in some 30 ms. Templates exist that walk all messages for each message, hence
 * the square. */
#define BASE_STEPS 500000u
#define MAX_STEPS 200000000u
#define STEPS_PER_VALUE 64u
#define STEPS_PER_PAIR 32u
#define BASE_MEMORY ((size_t)48 << 20)
#define MAX_MEMORY ((size_t)1 << 30)

struct weight { /* of what comes in */
    uint64_t values, bytes, widest;
};

static void weigh(const cJSON *v, struct weight *w, int depth)
{
    uint64_t n = 0;
    if (cJSON_IsString(v))
        w->bytes += strlen(v->valuestring);
    for (const cJSON *i = v ? v->child : NULL; i && depth < 300; i = i->next, n++) {
        if (i->string)
            w->bytes += strlen(i->string);
        weigh(i, w, depth + 1);
    }
    w->values += 1 + n;
    if (cJSON_IsArray(v) && n > w->widest)
        w->widest = n;
}

static void set_global(struct jinja_run *r, const char *name, struct jvalue v)
{
    for (int i = 0; i < r->t->n_names; i++)
        if (r->t->names[i]->len == strlen(name) &&
            !memcmp(r->t->names[i]->data, name, r->t->names[i]->len))
            r->globals[i] = v;
}

static void set_variable(struct jinja_run *r, const struct jinja_variable *v)
{
    struct jvalue value = jinja_none();
    if (!jinja_mentions(r->t, v->name))
        return;
    if (v->json && v->messages && cJSON_IsArray(v->json))
        value = jinja_messages_from_json(r, v->json);
    else if (v->json)
        value = jinja_from_json(r, v->json, !v->trusted, 0);
    else if (v->text)
        value = jinja_literal(r, v->text);
    set_global(r, v->name, value);
}

static void set_variables(struct jinja_run *r, const struct jinja_input *in)
{
    for (const struct jbuiltin *b = jinja_globals_table; b->name; b++)
        set_global(r, b->name, (struct jvalue){.type = J_FUNCTION, .as.p = (void *)b});
    r->globals[NAME_SELF] = (struct jvalue){.type = J_TEMPLATE};
    for (size_t i = 0; i < in->n_variables && !jinja_failed(r); i++)
        set_variable(r, &in->variables[i]);
}

static bool add_span(struct rendered *out, size_t start, size_t end)
{
    if (out->n_untrusted == out->cap_untrusted) {
        size_t cap = out->cap_untrusted ? out->cap_untrusted * 2 : 16;
        struct text_span *at = realloc(out->untrusted, cap * sizeof *at);
        if (!at)
            return false;
        out->untrusted = at;
        out->cap_untrusted = cap;
    }
    out->untrusted[out->n_untrusted++] = (struct text_span){.start = start, .end = end};
    return true;
}

static bool hand_over(const struct jbuilder *b, struct rendered *out)
{
    bool ok = buf_append(&out->text, b->data ? b->data : "", b->len);
    if (ok && !b->mark && b->outside && b->len)
        ok = add_span(out, 0, b->len);
    for (size_t i = 0; ok && b->mark && i < b->len;) {
        size_t end = i;
        while (end < b->len && b->mark[end] == b->mark[i])
            end++;
        if (b->mark[i])
            ok = add_span(out, i, end);
        i = end;
    }
    return ok;
}

void rendered_fini(struct rendered *r)
{
    buf_fini(&r->text);
    free(r->untrusted);
    *r = (struct rendered){0};
}

static size_t memory_limit(const struct weight *w)
{
    uint64_t n = BASE_MEMORY + w->bytes * 16 + w->values * 512;
    return n < MAX_MEMORY ? (size_t)n : MAX_MEMORY;
}

static uint64_t step_limit(const struct weight *w)
{
    uint64_t n = BASE_STEPS + w->values * STEPS_PER_VALUE + w->bytes * 2;
    uint64_t pairs = w->widest < 100000 ? w->widest * w->widest * STEPS_PER_PAIR : MAX_STEPS;
    return n + pairs < MAX_STEPS ? n + pairs : MAX_STEPS;
}

enum jinja_outcome jinja_render(const struct jinja *t, const struct jinja_input *in,
                                struct rendered *out, struct err *e)
{
    struct weight w = {0};
    for (size_t i = 0; i < in->n_variables; i++)
        weigh(in->variables[i].json, &w, 0);
    struct jinja_run r = {.t = t,
                          .e = e,
                          .step_limit = step_limit(&w),
                          .now = in->now,
                          .block_limit = memory_limit(&w)};
    struct jbuilder b;
    jinja_builder_init(&b, &r);
    r.out = &b;
    r.arena = arena_create(memory_limit(&w));
    if (r.arena)
        r.globals = arena_alloc(r.arena, (size_t)t->n_names * sizeof *r.globals);
    if (!r.globals) {
        jinja_fail(&r, JINJA_NOMEM, "memory ran out before rendering");
    } else {
        set_variables(&r, in);
        if (!jinja_failed(&r))
            jinja_exec(&r, t->body);
    }
    *out = (struct rendered){0};
    if (!jinja_failed(&r) && !hand_over(&b, out)) {
        rendered_fini(out);
        jinja_fail(&r, JINJA_NOMEM, "memory ran out in a rendered prompt");
    }
    jinja_builder_fini(&b);
    for (struct jblock *block = r.blocks; block; block = block->next)
        free(block->memory);
    arena_destroy(&r.arena);
    return r.failure;
}
