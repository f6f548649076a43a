/* The cases of `sluice bench` from its lists of lengths, depths, batches and rows. */
#include <stdio.h>
#include <stdlib.h>

#include "fcgi/cli/bench/bench.h"

struct list {
    int32_t at[BENCH_MAX_LIST];
    int n;
};

static bool read_list(const char *name, const char *text, long min, struct list *out, struct err *e)
{
    for (const char *at = text; *at;) {
        char *end;
        long v = strtol(at, &end, 10);
        if (end == at || (*end && *end != ',') || v < min || v > 1 << 24 ||
            out->n == BENCH_MAX_LIST)
            return err_field(e, ERR_INPUT, name,
                             "'%.60s' is not a list of at most %d numbers from %ld", text,
                             BENCH_MAX_LIST, min);
        out->at[out->n++] = (int32_t)v;
        at = *end ? end + 1 : end;
    }
    return true;
}

static void add(struct bench *b, struct bench_case c)
{
    b->cases[b->n_cases++] = c;
}

bool bench_cases(struct bench *b, const struct bench_lists *lists, int32_t steps, struct err *e)
{
    struct list prompts = {.n = 0}, depths = {.n = 0}, batches = {.n = 0}, rows = {.n = 0};
    if (!read_list("prompts", lists->prompts, 1, &prompts, e) ||
        !read_list("depths", lists->depths, 0, &depths, e) ||
        !read_list("batches", lists->batches, 1, &batches, e) ||
        !read_list("rows", lists->rows, 1, &rows, e))
        return false;
    const size_t each = (size_t)(prompts.n + batches.n + rows.n);
    b->cases = calloc(each * (size_t)depths.n + 1, sizeof *b->cases);
    if (!b->cases)
        return err_set(e, ERR_NOMEM, "no memory for the cases");
    for (int d = 0; d < depths.n; d++) {
        const struct bench_case c = {.depth = depths.at[d], .batch = 1, .rows = 1, .tokens = steps};
        for (int i = 0; i < prompts.n; i++) {
            add(b, c);
            b->cases[b->n_cases - 1].tokens = prompts.at[i];
        }
        for (int i = 0; i < batches.n; i++) {
            add(b, c);
            b->cases[b->n_cases - 1].kind = BENCH_DECODE;
            b->cases[b->n_cases - 1].batch = batches.at[i];
        }
        for (int i = 0; i < rows.n; i++) {
            add(b, c);
            b->cases[b->n_cases - 1].kind = BENCH_ROWS;
            b->cases[b->n_cases - 1].rows = rows.at[i];
        }
    }
    return b->n_cases ||
           err_set(e, ERR_INPUT,
                   "nothing to measure: --prompts, --batches and --rows, or --depths are empty");
}

const char *bench_kind_name(enum bench_kind kind)
{
    static const char *const names[] = {
        [BENCH_PREFILL] = "prefill", [BENCH_DECODE] = "decode", [BENCH_ROWS] = "rows"};
    return names[kind];
}

/* The case of one row that this one is read beside. */
static const struct bench_case *single(const struct bench *b, const struct bench_case *c)
{
    for (int32_t i = 0; i < b->n_cases; i++)
        if (b->cases[i].kind == BENCH_ROWS && b->cases[i].rows == 1 &&
            b->cases[i].depth == c->depth)
            return &b->cases[i];
    return NULL;
}

static double bytes_per_step(const struct bench_case *c)
{
    return c->steps ? (double)(c->weight_bytes + c->kv_bytes) / (double)c->steps : 0;
}

void bench_rows_print(const struct bench *b)
{
    bool any = false;
    for (int32_t i = 0; i < b->n_cases; i++) {
        const struct bench_case *c = &b->cases[i], *one = single(b, c);
        if (c->kind != BENCH_ROWS)
            continue;
        if (!any)
            printf("\n%6s %6s %10s %10s %12s\n", "rows", "depth", "ms/step", "times one",
                   "bytes, times");
        any = true;
        printf("%6d %6d %10.3f", c->rows, c->depth, bench_step_ms(c));
        if (one)
            printf(" %10.2f %12.2f", bench_step_ms(c) / bench_step_ms(one),
                   bytes_per_step(c) / bytes_per_step(one));
        putchar('\n');
    }
    if (any)
        printf("\nrows: of one sequence in a step; bytes: those that a step reads, against a step "
               "of one row.\n");
}
