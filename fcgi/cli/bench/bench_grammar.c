/* sluice bench --grammar: what constrained decoding costs, over the model's own vocabulary and
 * without its weights. Random answers are walked; each token's time is that of finding the allowed
 * ones and of moving on. Cold: the first answers of a grammar that the engine has not seen; warm:
 * later ones. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/json/json.h"
#include "engine/grammar/gbnf.h"
#include "engine/grammar/grammar.h"
#include "engine/grammar/json_schema.h"
#include "engine/sched/sampling/random.h"
#include "fcgi/cli/bench/bench.h"

#define ANSWERS 40
#define ANSWER_TOKENS 200
#define COLD_ANSWERS 2

static const struct grammar_case {
    const char *name, *schema, *gbnf;
} cases[] = {
    {"any JSON object", "{\"type\":\"object\"}", NULL},
    {"small schema",
     "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\"},\"age\":{\"type\":"
     "\"integer\",\"minimum\":0,\"maximum\":150},"
     "\"city\":{\"enum\":[\"Bonn\",\"Oslo\",\"Rome\"]}},\"required\":[\"name\",\"age\",\"city\"],"
     "\"additionalProperties\":false}",
     NULL},
    {"bounded strings",
     "{\"type\":\"object\",\"properties\":{\"title\":{\"type\":\"string\",\"minLength\":3,"
     "\"maxLength\":60},\"text\":{\"type\":\"string\","
     "\"maxLength\":400},\"tags\":{\"type\":\"array\",\"maxItems\":8,\"items\":{\"type\":"
     "\"string\",\"maxLength\":20}}},"
     "\"required\":[\"title\",\"text\",\"tags\"]}",
     NULL},
    {"nested, recursive",
     "{\"$ref\":\"#/$defs/"
     "n\",\"$defs\":{\"n\":{\"type\":\"object\",\"properties\":{\"id\":{\"type\":\"string\","
     "\"pattern\":\"^[a-z]{2,8}$\"},"
     "\"when\":{\"type\":\"string\",\"format\":\"date-time\"},\"value\":{\"type\":\"number\","
     "\"minimum\":-1,\"maximum\":1},"
     "\"kids\":{\"type\":\"array\",\"items\":{\"$ref\":\"#/$defs/"
     "n\"},\"maxItems\":3}},\"required\":[\"id\",\"when\",\"value\",\"kids\"]}}}",
     NULL},
    {"GBNF, prose lines", NULL, "root ::= (\"- \" [^\\n]+ \"\\n\"){3,12}"},
};

struct times {
    double *at; /* microseconds */
    size_t n, cap;
};

static bool note(struct times *t, double us)
{
    if (t->n == t->cap) {
        size_t cap = t->cap ? t->cap * 2 : 4096;
        double *grown = realloc(t->at, cap * sizeof *grown);
        if (!grown)
            return false;
        t->at = grown;
        t->cap = cap;
    }
    t->at[t->n++] = us;
    return true;
}

static int by_size(const void *x, const void *y)
{
    const double *a = x, *b = y;
    return *a < *b ? -1 : *a > *b;
}

static double at_share(struct times *t, double share)
{
    if (!t->n)
        return 0;
    size_t i = (size_t)(share * (double)(t->n - 1));
    return t->at[i];
}

static bool compile(const struct grammar_case *c, struct buf *program, struct err *e)
{
    struct builder *b = builder_create(0, e);
    struct json_schema *s = b ? json_schema_create(b, e) : NULL;
    cJSON *tree = c->schema ? json_parse(c->schema, strlen(c->schema), NULL, e) : NULL;
    expr x = -1;
    if (s && tree)
        x = json_schema_read(s, tree, false, e);
    else if (s && c->gbnf)
        x = gbnf_read(b, c->gbnf, strlen(c->gbnf), e);
    bool ok = x >= 0 && builder_finish(b, x, program, e);
    json_schema_destroy(&s);
    builder_destroy(&b);
    cJSON_Delete(tree);
    return ok;
}

/* One of the allowed tokens; now and then one that closes something, so that answers have a shape.
 */
static int32_t choose(const struct vocab *v, const struct grammar_mask *m, int32_t n_vocab,
                      uint64_t seed, uint64_t *position)
{
    int32_t id = 0;
    bool closing = random_uniform(seed, (*position)++) < 0.15;
    for (int tries = 0; tries < 2000; tries++) {
        double u = random_uniform(seed, (*position)++);
        id = m->list ? m->list[(int32_t)(u * m->n)] : (int32_t)(u * n_vocab);
        size_t len;
        const char *bytes = vocab_bytes(v, id, &len);
        if (!grammar_mask_has(m, id))
            continue;
        if (!closing || m->list || (len && strchr("\"]}\n", bytes[0])) || tries > 1500)
            break;
    }
    return id;
}

/* A compiled grammar with what its runs share. */
struct compiled {
    struct grammar_cache *cache;
    const struct token_trie *trie;
    struct buf program;
};

/* Walks one random answer and notes each token's time. */
static bool walk(const struct compiled *g, uint64_t seed, struct times *times, struct err *e)
{
    const struct token_trie *t = g->trie;
    struct grammar_run *r = grammar_run_create(g->cache, g->program.data, g->program.len, e);
    uint64_t position = 0;
    bool ok = r != NULL;
    for (int i = 0; ok && i < ANSWER_TOKENS && !grammar_run_must_end(r); i++) {
        struct grammar_mask m;
        uint64_t began = clock_ns();
        ok = grammar_run_mask(r, &m, e);
        uint64_t masked = clock_ns();
        int32_t id = ok ? choose(t->vocab, &m, t->n_vocab, seed, &position) : 0;
        if (!ok || !grammar_mask_has(&m, id) || t->ends[id >> 5] >> (id & 31) & 1)
            break; /* the end was drawn, or the drawing gave up */
        uint64_t chosen = clock_ns();
        ok = grammar_run_push(r, id, e);
        ok = ok && (note(times, (double)(masked - began + clock_ns() - chosen) / 1e3) ||
                    err_set(e, ERR_NOMEM, "no memory for the times"));
    }
    grammar_run_destroy(&r);
    return ok;
}

static void print_times(struct times *t, bool json)
{
    qsort(t->at, t->n, sizeof *t->at, by_size);
    double median = at_share(t, 0.5), p99 = at_share(t, 0.99), max = at_share(t, 1);
    if (json)
        printf("{\"tokens\": %zu, \"median_us\": %.2f, \"p99_us\": %.2f, \"max_us\": %.1f}", t->n,
               median, p99, max);
    else
        printf(" %7zu %9.2f %9.1f %9.1f", t->n, median, p99, max);
}

static bool measure(const struct grammar_case *g, const struct token_trie *t, bool json,
                    struct err *e)
{
    struct compiled built = {.trie = t};
    struct times cold = {0}, warm = {0};
    double began = clock_ms();
    bool ok = compile(g, &built.program, e);
    double compile_ms = clock_ms() - began;
    built.cache = ok ? grammar_cache_create(t, 0, e) : NULL;
    ok = built.cache != NULL;
    for (uint64_t i = 0; ok && i < ANSWERS; i++)
        ok = walk(&built, i + 1, i < COLD_ANSWERS ? &cold : &warm, e);
    if (ok) {
        printf(json ? "  {\"grammar\": \"%s\", \"compile_ms\": %.3f, \"program_bytes\": %zu, "
                      "\"kept_bytes\": %zu, \"cold\": "
                    : "%-18s %8.2f %9zu %9zu",
               g->name, compile_ms, built.program.len, grammar_cache_bytes(built.cache));
        print_times(&cold, json);
        fputs(json ? ", \"warm\": " : " ", stdout);
        print_times(&warm, json);
        fputs(json ? "}" : "\n", stdout);
    }
    grammar_cache_destroy(&built.cache);
    buf_fini(&built.program);
    free(cold.at);
    free(warm.at);
    return ok;
}

bool bench_grammar(const char *model, bool json, struct err *e)
{
    struct vocab *v = vocab_load(model, NULL, e);
    if (!v)
        return false;
    int32_t n = vocab_size(v), eos = n - 1;
    double began = clock_ms();
    struct token_trie *t = token_trie_create(v, n, &eos, 1, e);
    double built = clock_ms() - began;
    bool ok = t != NULL;
    if (ok && json)
        printf("{\"vocabulary\": %d, \"tree_ms\": %.1f, \"tree_bytes\": %zu, \"grammars\": [\n", n,
               built, token_trie_bytes(t));
    else if (ok)
        printf("%d tokens, their tree made in %.0f ms (%.1f MB)\n\n%-18s %8s %9s %9s %37s "
               "%37s\n%47s %7s %9s %9s %9s %8s %9s %9s %9s\n",
               n, built, (double)token_trie_bytes(t) / 1e6, "grammar", "compile", "program", "kept",
               "cold: us per token", "warm: us per token", "ms, bytes", "tokens", "median", "p99",
               "max", "tokens", "median", "p99", "max");
    for (size_t i = 0; ok && i < sizeof cases / sizeof *cases; i++) {
        if (i && json)
            puts(",");
        ok = measure(&cases[i], t, json, e);
    }
    if (ok && json)
        puts("\n]}");
    token_trie_destroy(&t);
    vocab_close(&v);
    return ok;
}
