/* Keys and values in fewer bits, one form of each family, against the f32 references: what else is
 * exact leaves the rounding of the KV cache alone. The models are small and random, so that an
 * expert chosen otherwise moves a logit more than in trained ones: the median over rows of the
 * largest difference of a logit is within 0.35 (q8; 0.5 as served, with activations of 8 bits or
 * tiles of halves) and 2 (k8v4), where a head that is not rotated back gives 3 to 12.
 *
 * usage: test_kv [BACKEND]. 77 where the backend can't run here. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/golden/golden.h"
#include "tests/golden/golden_cases.h"

#ifndef GOLDEN_BACKEND
#define GOLDEN_BACKEND "cpu"
#endif

#define MAX_CASES 64
#define MAX_ROWS 192
#define LAST 8
#define EXACT 2e-4f /* what 16 bits are beaten by: less would mean that nothing was packed */

static const char *backend = GOLDEN_BACKEND;
static int n_families; /* begun */

static int ascending(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return x < y ? -1 : x > y;
}

/* The last rows of a prompt: the first part in one step, which works by tiles where a device has
 * them, the others row by row as an answer does. */
static struct golden_rows rows_of(struct cli_run *r, const struct ids *ids)
{
    struct err e = {0};
    struct golden_rows rows = {0};
    const int32_t n = (int32_t)ids->n, alone = LAST / 2;
    golden_must(golden_feed(r, 0, ids->at, n - alone, 0, LAST - alone, &rows, &e), &e);
    for (int32_t i = n - alone; i < n; i++)
        golden_must(golden_feed(r, 0, ids->at + i, 1, i, 1, &rows, &e), &e);
    return rows;
}

static void check_packed(const struct golden_case *c, const char *type, bool exact, float tolerance)
{
    static const char *const prompts[] = {"p17", "p65"};
    const struct memory_options o = {.kv_type = type};
    struct err e = {0};
    struct golden_truth l;
    struct cli_run r;
    float worst[2 * LAST];
    int n_rows = 0;
    golden_truth_open(&l, c);
    golden_must(cli_run_open(&r,
                             &(struct cli_run_params){.model = c->model,
                                                      .backend = backend,
                                                      .n_tokens = MAX_ROWS,
                                                      .exact = exact,
                                                      .memory = &o},
                             &e),
                &e);
    assert_string_equal(kv_type_name(r.memory.plan.kv_stored), type);
    for (int i = 0; i < 2; i++) {
        size_t n;
        float *want = golden_truth_values(&l, &n, "%s/%s/logits", c->form, prompts[i]);
        struct ids ids = golden_prompt(&l, prompts[i]);
        struct golden_rows rows = rows_of(&r, &ids);
        assert_int_equal((size_t)rows.n * (size_t)rows.n_vocab, n);
        for (int32_t k = 0; k < rows.n; k++)
            worst[n_rows++] =
                golden_distance(rows.at + (size_t)k * (size_t)rows.n_vocab,
                                want + (size_t)k * (size_t)rows.n_vocab, (size_t)rows.n_vocab);
        golden_rows_free(&rows);
        ids_fini(&ids);
        free(want);
    }
    cli_run_close(&r);
    golden_truth_close(&l);
    qsort(worst, (size_t)n_rows, sizeof *worst, ascending);
    print_message("%s, KV %s%s: median over rows of the largest difference %.4f, at most %.4f\n",
                  c->name, type, exact ? "" : ", as served", (double)worst[n_rows / 2],
                  (double)worst[n_rows - 1]);
    assert_true(worst[n_rows / 2] > EXACT && worst[n_rows / 2] <= tolerance);
}

/* On a slow device one family has the one half and the next the other. */
static void test_packed_kv_is_near(void **state)
{
    const bool slow = golden_slow_device(backend), odd = n_families % 2;
    if (!slow || odd)
        check_packed(*state, "q8", true, 0.35f);
    if (!slow || !odd)
        check_packed(*state, "k8v4", true, 2);
    if (!slow || !odd)
        check_packed(*state, "q8", false, 0.5f);
    if (!slow || odd)
        check_packed(*state, "k8v4", false, 2);
}

/* In a process of its own, as test_families.c explains. */
static int fork_case(struct golden_case *c)
{
    int status;
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        const struct CMUnitTest tests[] = {{c->name, test_packed_kv_is_near, NULL, NULL, c}};
        exit(cmocka_run_group_tests(tests, NULL, NULL) != 0);
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid)
        return 1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

int main(int argc, char **argv)
{
    static struct golden_case cases[MAX_CASES];
    struct err e = {0};
    int failed = 0;
    if (argc > 1)
        backend = argv[1];
    if (!backend_select(backend, &e)) {
        printf("1..0 # SKIP %s: %s\n", backend, e.text);
        return 77;
    }
    const int n = golden_cases_list(cases, MAX_CASES, golden_path("tests/data/golden"), NULL);
    for (int i = 0; i < n; i++)
        if (i == 0 || strcmp(cases[i - 1].family, cases[i].family)) {
            n_families++;
            failed += fork_case(&cases[i]) != 0;
        }
    return !n || failed;
}
