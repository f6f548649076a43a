/* Grammars: programs that come from outside, masks against plain stepping, the cache's bounds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/json/json.h"
#include "engine/grammar/gbnf.h"
#include "engine/grammar/grammar.h"
#include "engine/grammar/json_schema.h"
#include "engine/grammar/program.h"
#include "engine/tokenizer/vocab.h"

struct fixture {
    struct vocab *vocab;
    struct token_trie *trie;
    int32_t n, eos;
};

static int open_fixture(void **state)
{
    static struct fixture f;
    char path[512];
    struct err e = {0};
    const char *source = getenv("srcdir");
    snprintf(path, sizeof path, "%s/engine/demo-model", source ? source : ".");
    f.vocab = vocab_load(path, NULL, &e);
    assert_non_null(f.vocab);
    f.n = vocab_size(f.vocab);
    f.eos = vocab_find(f.vocab, "<|im_end|>", 10);
    assert_true(f.eos >= 0);
    f.trie = token_trie_create(f.vocab, f.n, &f.eos, 1, &e);
    assert_non_null(f.trie);
    *state = &f;
    return 0;
}

static int close_fixture(void **state)
{
    struct fixture *f = *state;
    token_trie_destroy(&f->trie);
    vocab_close(&f->vocab);
    return 0;
}

static void compile_gbnf(const char *text, struct buf *out)
{
    struct err e = {0};
    struct builder *b = builder_create(0, &e);
    expr x = gbnf_read(b, text, strlen(text), &e);
    if (x < 0 || !builder_finish(b, x, out, &e))
        fail_msg("%s: %s", text, e.text);
    builder_destroy(&b);
}

static void compile_schema(const char *text, struct buf *out)
{
    struct err e = {0};
    struct builder *b = builder_create(0, &e);
    struct json_schema *s = json_schema_create(b, &e);
    cJSON *tree = json_parse(text, strlen(text), NULL, &e);
    expr x = json_schema_read(s, tree, false, &e);
    if (x < 0 || !builder_finish(b, x, out, &e))
        fail_msg("%s: %s", text, e.text);
    json_schema_destroy(&s);
    builder_destroy(&b);
    cJSON_Delete(tree);
}

/* Each token: is it in the mask exactly when its bytes may follow? */
static void assert_mask(const struct fixture *f, struct grammar_run *r, struct grammar_cache *c,
                        const struct buf *program, const char *so_far)
{
    struct grammar_mask m;
    struct err e = {0};
    int32_t n = 0;
    assert_true(grammar_run_mask(r, &m, &e));
    uint32_t *copy = calloc(f->trie->n_words, sizeof *copy);
    for (int32_t id = 0; id < f->n; id++)
        if (grammar_mask_has(&m, id)) {
            copy[id >> 5] |= 1u << (id & 31);
            n++;
        }
    assert_int_equal(n, m.n);
    for (int32_t id = 0; id < f->n; id++) {
        size_t len;
        const char *bytes = vocab_bytes(f->vocab, id, &len);
        bool allowed = copy[id >> 5] >> (id & 31) & 1;
        if (id == f->eos) {
            assert_int_equal(allowed, grammar_run_may_end(r));
            continue;
        }
        if (!len || vocab_flags(f->vocab, id) & (VOCAB_SPECIAL | VOCAB_UNUSED)) {
            assert_false(allowed);
            continue;
        }
        struct grammar_run *other = grammar_run_create(c, program->data, program->len, &e);
        assert_true(grammar_run_push_bytes(other, so_far, strlen(so_far), &e));
        struct err why = {0};
        bool taken = grammar_run_push_bytes(other, bytes, len, &why);
        if (taken != allowed)
            fail_msg("after '%s': token %d '%.*s' is %s", so_far, id, (int)len, bytes,
                     taken ? "taken" : "not taken");
        grammar_run_destroy(&other);
    }
    free(copy);
}

static void test_masks_are_what_stepping_says(void **state)
{
    static const struct {
        const char *schema, *gbnf, *so_far;
    } cases[] = {
        {"{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"string\",\"maxLength\":5}},"
         "\"required\":[\"a\"]}",
         NULL, ""},
        {"{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"string\",\"maxLength\":5}},"
         "\"required\":[\"a\"]}",
         NULL, "{\"a\":\""},
        {"{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"string\",\"maxLength\":5}},"
         "\"required\":[\"a\"]}",
         NULL, "{\"a\":\"xyz"},
        {"{\"type\":\"string\",\"minLength\":3,\"maxLength\":40}", NULL, "\"a"},
        {"{\"type\":\"string\"}", NULL, "\"a"},
        {"{\"type\":\"string\"}", NULL, "\"\\"},
        {"{\"type\":\"string\",\"pattern\":\"^[a-z ]{2,9}$\"}", NULL, "\"a"},
        {"{\"type\":\"string\",\"pattern\":\"b\"}", NULL, "\"a"},
        {"{}", NULL, "[1,{\"x\":"},
        {"{\"type\":\"number\",\"minimum\":-2.5,\"maximum\":17}", NULL, "1"},
        {NULL, "root ::= ([^\"x] | \"ab\")* \"end\"", "a"},
        {NULL, "root ::= a{1,30}\na ::= [a-z] | \"the \"", "th"},
        {NULL, "root ::= [é-日]+ | \"\\u00e9t\\u00e9\"", ""},
    };
    const struct fixture *f = *state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct buf program = {0};
        struct err e = {0};
        if (cases[i].schema)
            compile_schema(cases[i].schema, &program);
        else
            compile_gbnf(cases[i].gbnf, &program);
        struct grammar_cache *c = grammar_cache_create(f->trie, 0, &e);
        struct grammar_run *r = grammar_run_create(c, program.data, program.len, &e);
        assert_true(grammar_run_push_bytes(r, cases[i].so_far, strlen(cases[i].so_far), &e));
        assert_mask(f, r, c, &program, cases[i].so_far);
        assert_mask(f, r, c, &program, cases[i].so_far); /* from the cache */
        grammar_run_destroy(&r);
        grammar_cache_destroy(&c);
        buf_fini(&program);
    }
}

static void test_a_special_token_is_one_step(void **state)
{
    const struct fixture *f = *state;
    struct err e = {0};
    struct buf program = {0};
    int32_t start = vocab_find(f->vocab, "<|im_start|>", 12);
    struct builder *b = builder_create(0, &e);
    expr x = expr_seq3(b, expr_text(b, "a"), expr_token(b, start), expr_text(b, "b"));
    assert_true(start >= 0 && builder_finish(b, x, &program, &e));
    builder_destroy(&b);
    struct grammar_cache *c = grammar_cache_create(f->trie, 0, &e);
    struct grammar_run *r = grammar_run_create(c, program.data, program.len, &e);
    struct grammar_mask m;
    assert_false(grammar_run_push(r, start, &e));
    e = (struct err){0};
    assert_true(grammar_run_push(r, vocab_find(f->vocab, "a", 1), &e));
    assert_true(grammar_run_mask(r, &m, &e));
    assert_int_equal(m.n, 1);
    assert_int_equal(m.list[0], start);
    assert_false(
        grammar_run_push_bytes(r, "<|im_start|>", 12, &e)); /* its spelling is no control token */
    assert_true(grammar_run_push(r, start, &e));
    assert_true(grammar_run_push(r, vocab_find(f->vocab, "b", 1), &e));
    assert_true(grammar_run_must_end(r));
    assert_true(grammar_run_mask(r, &m, &e));
    assert_true(m.n == 1 && m.list[0] == f->eos);
    assert_true(grammar_run_push(r, f->eos, &e));
    assert_false(grammar_run_mask(r, &m, &e)); /* over */
    grammar_run_destroy(&r);
    grammar_cache_destroy(&c);
    buf_fini(&program);
}

static void assert_refused(const struct fixture *f, const void *bytes, size_t len, const char *why)
{
    struct program p;
    struct err e = {0};
    assert_false(program_open(&p, bytes, len, f->n, &e));
    assert_int_equal(e.code, ERR_INPUT);
    assert_non_null(strstr(e.text, why));
}

static void test_broken_programs_are_refused(void **state)
{
    const struct fixture *f = *state;
    struct {
        struct program_header h;
        struct program_node nodes[3];
        struct program_edge edges[1];
    } p = {{PROGRAM_MAGIC, 3, 1, 0},
           {{.kind = NODE_BYTES, .a = 0, .b = 1},
            {.kind = NODE_CALL, .a = 2, .b = 2},
            {.kind = NODE_RETURN}},
           {{'a', 'z', 0, 1}}},
      q;
    struct program opened;
    struct err e = {0};
    assert_true(program_open(&opened, &p, sizeof p, f->n, &e));
    assert_refused(f, &p, 3, "header");
    assert_refused(f, &p, sizeof p - 1, "sizes");
    q = p;
    q.h.start = 3;
    assert_refused(f, &q, sizeof q, "sizes");
    q = p;
    q.edges[0].target = 3;
    assert_refused(f, &q, sizeof q, "edge");
    q = p;
    q.edges[0].lo = 'z';
    q.edges[0].hi = 'a';
    assert_refused(f, &q, sizeof q, "edge");
    q = p;
    q.nodes[0].b = 2;
    assert_refused(f, &q, sizeof q, "outside");
    q = p;
    q.nodes[0].a = UINT32_MAX;
    assert_refused(f, &q, sizeof q, "outside");
    q = p;
    q.nodes[1].a = 3;
    assert_refused(f, &q, sizeof q, "outside");
    q = p;
    q.nodes[0].kind = NODE_KIND__N;
    assert_refused(f, &q, sizeof q, "outside");
    q = p;
    q.nodes[1] = (struct program_node){.kind = NODE_TOKEN, .a = (uint32_t)f->n, .b = 2};
    assert_refused(f, &q, sizeof q, "outside");
    q = p;
    q.nodes[1] = (struct program_node){.kind = NODE_REPEAT, .a = 0, .b = 2, .c = 3, .d = 2};
    assert_refused(f, &q, sizeof q, "outside");
    q = p;
    q.nodes[1] = (struct program_node){.kind = NODE_REPEAT, .a = 2, .b = 2, .c = 0, .d = 2};
    assert_refused(f, &q, sizeof q, "empty");
    q = p;
    q.nodes[1].a = 1;
    assert_refused(f, &q, sizeof q, "nothing may follow"); /* calls itself for ever */
    q = p;
    q.nodes[0].b = 0;
    assert_refused(f, &q, sizeof q, "nothing may follow");
}

/* Merged (allOf, $ref) or compared (oneOf) with another before it is read itself. */
static void test_properties_that_are_no_object_are_refused(void **state)
{
    static const char *const schemas[] = {
        "{\"type\":\"object\",\"properties\":[\"p\"]}",
        "{\"allOf\":[{\"type\":\"object\",\"properties\":[\"p\"]},{\"additionalProperties\":false}]"
        "}",
        "{\"allOf\":[{\"type\":\"object\",\"properties\":[\"p\"]},{\"properties\":{\"q\":{}}},{"
        "\"properties\":{\"q\":{}}}]}",
        "{\"allOf\":[{\"type\":\"object\",\"properties\":{\"q\":{}}},{\"properties\":[{}],"
        "\"additionalProperties\":false}]}",
        "{\"$defs\":{\"d\":{\"properties\":\"p\"}},\"$ref\":\"#/$defs/"
        "d\",\"properties\":{\"q\":{}}}",
        "{\"oneOf\":[{\"type\":\"object\",\"properties\":[1],\"required\":[\"a\"]},{\"type\":"
        "\"object\",\"properties\":[1],\"required\":[\"b\"]}]}",
    };
    for (size_t i = 0; i < sizeof schemas / sizeof schemas[0]; i++) {
        struct err e = {0}, none = {0};
        struct builder *b = builder_create(0, &none);
        struct json_schema *s = json_schema_create(b, &none);
        cJSON *tree = json_parse(schemas[i], strlen(schemas[i]), NULL, &none);
        assert_true(tree && json_schema_read(s, tree, false, &e) < 0);
        assert_int_equal(e.code, ERR_INPUT);
        if (!strstr(e.text, "'properties' must be an object"))
            fail_msg("%s: %s", schemas[i], e.text);
        json_schema_destroy(&s);
        builder_destroy(&b);
        cJSON_Delete(tree);
    }
}

static void test_left_recursion_in_a_program_is_refused(void **state)
{
    /* 0: split to 1, 3; 1: call 0 then 2; 2: 'a' then 3; 3: return */
    struct {
        struct program_header h;
        struct program_node nodes[4];
        struct program_edge edges[3];
    } p = {{PROGRAM_MAGIC, 4, 3, 0},
           {{.kind = NODE_SPLIT, .a = 0, .b = 2},
            {.kind = NODE_CALL, .a = 0, .b = 2},
            {.kind = NODE_BYTES, .a = 2, .b = 1},
            {.kind = NODE_RETURN}},
           {{0, 0, 0, 1}, {0, 0, 0, 3}, {'a', 'a', 0, 3}}};
    assert_refused(*state, &p, sizeof p, "left-recursive");
}

static void test_the_cache_keeps_its_bound_and_runs_survive(void **state)
{
    const struct fixture *f = *state;
    struct err e = {0};
    struct grammar_cache *c = grammar_cache_create(f->trie, 1 << 20, &e);
    struct buf kept = {0};
    compile_schema("{\"type\":\"array\",\"items\":{\"type\":\"string\"}}", &kept);
    struct grammar_run *r = grammar_run_create(c, kept.data, kept.len, &e),
                       *same = grammar_run_create(c, kept.data, kept.len, &e);
    assert_true(grammar_run_push_bytes(r, "[\"a\",\"b", 7, &e));
    for (int i = 0; i < 300; i++) {
        char text[80];
        struct buf program = {0};
        struct grammar_mask m;
        snprintf(text, sizeof text, "root ::= \"%d\" [^\\n]{1,%d} \"!\"", i, 10 + i);
        compile_gbnf(text, &program);
        struct grammar_run *one = grammar_run_create(c, program.data, program.len, &e);
        snprintf(text, sizeof text, "%dx", i);
        assert_true(grammar_run_push_bytes(one, text, strlen(text), &e));
        assert_true(grammar_run_mask(one, &m, &e) && m.bits);
        assert_true(grammar_run_mask(r, &m, &e));
        grammar_run_destroy(&one);
        buf_fini(&program);
    }
    assert_true(grammar_cache_bytes(c) < 4 << 20);
    assert_true(grammar_run_push_bytes(r, "\"]", 2, &e) && grammar_run_must_end(r));
    assert_true(grammar_run_push_bytes(same, "[]", 2, &e) && grammar_run_must_end(same));
    grammar_run_destroy(&r);
    grammar_run_destroy(&same);
    grammar_cache_destroy(&c);
    buf_fini(&kept);
}

/* Ambiguity without bound costs a job, not the engine. */
static void test_hostile_ambiguity_ends_in_an_error(void **state)
{
    const struct fixture *f = *state;
    struct err e = {0};
    struct buf program = {0};
    struct grammar_mask m;
    compile_gbnf("root ::= x{1,100000}\nx ::= y{1,100000}\ny ::= z{1,100000}\nz ::= [^b]{1,100000}",
                 &program);
    struct grammar_cache *c = grammar_cache_create(f->trie, 0, &e);
    struct grammar_run *r = grammar_run_create(c, program.data, program.len, &e);
    bool ok = true;
    for (int i = 0; ok && i < 200; i++)
        ok = grammar_run_mask(r, &m, &e) && grammar_run_push_bytes(r, "aaaaaaaa", 8, &e);
    assert_false(ok);
    assert_int_equal(e.code, ERR_LIMIT);
    grammar_run_destroy(&r);
    grammar_cache_destroy(&c);
    buf_fini(&program);
}

/* Too many states: the automaton is found anew, and runs stand where they stood. */
static void test_states_are_rebuilt(void **state)
{
    const struct fixture *f = *state;
    struct err e = {0};
    struct buf program = {0};
    struct grammar_mask m;
    compile_schema("{\"type\":\"string\",\"maxLength\":900000}", &program);
    struct grammar_cache *c = grammar_cache_create(f->trie, 0, &e);
    struct grammar_run *r = grammar_run_create(c, program.data, program.len, &e);
    struct grammar_run *other = grammar_run_create(c, program.data, program.len, &e);
    assert_true(grammar_run_push_bytes(r, "\"", 1, &e) &&
                grammar_run_push_bytes(other, "\"ab", 3, &e));
    size_t most = 0;
    for (int i = 0; i < 300000; i++) {
        if (!grammar_run_push_bytes(r, "a", 1, &e))
            fail_msg("%d: %s", i, e.text);
        if (i % 1000 == 0)
            assert_true(grammar_run_mask(r, &m, &e));
        size_t now = grammar_cache_bytes(c);
        most = now > most ? now : most;
    }
    assert_true(grammar_cache_bytes(c) < most); /* it was rebuilt */
    assert_true(grammar_run_push_bytes(other, "c\"", 2, &e) && grammar_run_must_end(other));
    assert_true(grammar_run_push_bytes(r, "\"", 1, &e) && grammar_run_must_end(r));
    grammar_run_destroy(&r);
    grammar_run_destroy(&other);
    grammar_cache_destroy(&c);
    buf_fini(&program);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_masks_are_what_stepping_says),
        cmocka_unit_test(test_a_special_token_is_one_step),
        cmocka_unit_test(test_broken_programs_are_refused),
        cmocka_unit_test(test_properties_that_are_no_object_are_refused),
        cmocka_unit_test(test_left_recursion_in_a_program_is_refused),
        cmocka_unit_test(test_the_cache_keeps_its_bound_and_runs_survive),
        cmocka_unit_test(test_hostile_ambiguity_ends_in_an_error),
        cmocka_unit_test(test_states_are_rebuilt),
    };
    return cmocka_run_group_tests(tests, open_fixture, close_fixture);
}
