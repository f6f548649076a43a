/* The same measurement by llama.cpp's tools: command lines for llama-bench and llama-batched-bench
 * (ik_llama.cpp has both under the same names), with equal lengths. */
#include <stdio.h>
#include <string.h>

#include "fcgi/cli/bench/bench.h"

/* " -flag a,b,c" of what the cases have of one kind, each once. */
static void add_list(struct buf *out, const char *flag, const int32_t *values, int32_t n)
{
    buf_printf(out, " %s ", flag);
    for (int32_t i = 0, any = 0; i < n; i++) {
        bool seen = false;
        for (int32_t j = 0; j < i; j++)
            seen = seen || values[j] == values[i];
        if (!seen)
            buf_printf(out, "%s%d", any++ ? "," : "", values[i]);
    }
}

struct picked { /* of some cases */
    int32_t lengths[BENCH_MAX_CASES], depths[BENCH_MAX_CASES], batches[BENCH_MAX_CASES], n, most;
};

static void pick(const struct bench *b, bool (*wanted)(const struct bench_case *c), int32_t lead,
                 struct picked *p)
{
    *p = (struct picked){.n = 0};
    for (int32_t i = 0; i < b->n_cases; i++) {
        const struct bench_case *c = &b->cases[i];
        if (!wanted(c))
            continue;
        p->lengths[p->n] = c->tokens;
        p->depths[p->n] = c->depth + lead;
        p->batches[p->n++] = c->batch;
        int32_t all = c->batch * (c->depth + lead + c->tokens);
        p->most = all > p->most ? all : p->most;
    }
}

static bool is_prefill(const struct bench_case *c)
{
    return c->kind == BENCH_PREFILL;
}

static bool is_alone(const struct bench_case *c)
{
    return c->kind == BENCH_DECODE && c->batch == 1;
}

static bool is_batch(const struct bench_case *c)
{
    return c->kind == BENCH_DECODE && c->batch > 1;
}

static void begin(const struct bench *b, const char *model, const char *tool, struct buf *out)
{
    const struct cli_run *r = &b->run;
    buf_printf(out, "%s -m '%s' -fa 1", tool, model);
    const int32_t threads = r->ops->threads ? r->ops->threads(r->backend) : 0;
    if (threads)
        buf_printf(out, " -t %d", threads);
    buf_puts(out, strcmp(r->ops->name, "cpu") ? " -ngl 99" : " -ngl 0");
}

void bench_peer_lines(const struct bench *b, const char *model, struct buf *out)
{
    struct picked p;
    pick(b, is_prefill, 0, &p);
    if (p.n) {
        begin(b, model, "llama-bench", out);
        add_list(out, "-p", p.lengths, p.n);
        add_list(out, "-d", p.depths, p.n);
        buf_printf(out, " -n 0 -r %d\n", b->n_repeats);
    }
    pick(b, is_alone, BENCH_LEAD, &p);
    if (p.n) {
        begin(b, model, "llama-bench", out);
        add_list(out, "-n", p.lengths, p.n);
        add_list(out, "-d", p.depths, p.n);
        buf_printf(out, " -p 0 -r %d\n", b->n_repeats);
    }
    pick(b, is_batch, BENCH_LEAD, &p);
    if (p.n) {
        begin(b, model, "llama-batched-bench", out);
        add_list(out, "-npp", p.depths, p.n);
        add_list(out, "-ntg", p.lengths, p.n);
        add_list(out, "-npl", p.batches, p.n);
        buf_printf(out, " -c %d\n", p.most);
    }
}
