/* What `sluice bench --profile` shows: the operations of one step of each case. */
#include <stdio.h>

#include "fcgi/cli/bench/bench.h"

static void print_case(const struct bench_case *c)
{
    const struct backend_profile *p = &c->profile;
    const struct {
        const char *what, *of;
        int32_t n;
    } kinds[] = {[BENCH_PREFILL] = {"prefill", "tokens", c->tokens},
                 [BENCH_DECODE] = {"decode", "sequences", c->batch},
                 [BENCH_ROWS] = {"decode", "rows of one sequence", c->rows}},
      *kind = &kinds[c->kind];
    printf("\none step of %s, %d %s at depth %d: %.0f us on the device\n", kind->what, kind->n,
           kind->of, c->depth, p->us);
    printf("%-16s %6s %10s %10s %7s\n", "operation", "count", "us", "us each", "share");
    for (int32_t i = 0; i < p->n; i++) {
        const struct backend_operation *o = &p->at[i];
        printf("%-16s %6d %10.1f %10.2f %6.1f%%\n", o->name, o->n, o->us, o->us / o->n,
               o->us / p->us * 100);
    }
}

void bench_profile_print(const struct bench *b)
{
    if (!b->profiles)
        return;
    for (int32_t i = 0; i < b->n_cases; i++)
        print_case(&b->cases[i]);
    printf("\nan operation is what runs between two barriers, by the name of its last part; the "
           "clock itself adds about\n"
           "1 us to each, so the sum is more than a step without it takes.\n");
}

void bench_profile_json(const struct bench_case *c)
{
    const struct backend_profile *p = &c->profile;
    printf(", \"profile\": {\"us\": %.1f, \"operations\": [", p->us);
    for (int32_t i = 0; i < p->n; i++)
        printf("%s{\"name\": \"%s\", \"count\": %d, \"us\": %.1f}", i ? ", " : "", p->at[i].name,
               p->at[i].n, p->at[i].us);
    printf("]}");
}
