/* Every family in every form that is here against f32 references: tiny random models in the
 * published formats (tests/data/golden; README.md there says how the truth was made).
 *
 * With exact arithmetic: logits within 2e-3, intermediates within 1e-3, states within 1e-4, greedy
 * answers equal up to the first margin below 0.01. As it is served: the median difference no worse
 * than 8-bit activations give.
 *
 * usage: test_families [BACKEND [DIR [FORM]]]; DIR has one folder per family. 77 where the backend
 * can't run here. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "engine/base/json/json.h"
#include "engine/format/weight_bits.h"
#include "tests/golden/golden.h"
#include "tests/golden/golden_cases.h"
#include "tests/golden/golden_truth.h"

#ifndef GOLDEN_BACKEND
#define GOLDEN_BACKEND "cpu"
#endif

#define LOGIT_TOLERANCE 2e-3f
#define TRACE_TOLERANCE 1e-3f
#define STATE_TOLERANCE 1e-4f
#define SURE_MARGIN 0.01f
#define LAST 8
#define SHORT 100
#define MAX_CASES 64
#define MAX_POSITIONS 512

static const char *backend = GOLDEN_BACKEND;
static bool slow; /* a device that is the cpu: less of each */
static struct golden_case cases[MAX_CASES];
static int n_cases;
static const struct golden_case *group_case; /* of this process */
static struct cli_run exact_run;             /* it, in exact arithmetic */

static void open_run(struct cli_run *r, const struct golden_case *c, bool exact)
{
    struct cli_run_params p = {.model = c->model,
                               .backend = backend,
                               .n_tokens = MAX_POSITIONS,
                               .n_sequences = 2,
                               .exact = exact};
    struct err e = {0};
    golden_must(cli_run_open(r, &p, &e), &e);
}

/* The last rows of a prompt, fed in pieces of `piece` tokens through one sequence. */
static struct golden_rows rows_of(struct cli_run *r, const struct ids *ids, int32_t sequence,
                                  int32_t piece)
{
    struct err e = {0};
    struct golden_rows rows = {0};
    const int32_t n = (int32_t)ids->n, from = n < LAST ? 0 : n - LAST;
    for (int32_t at = 0; at < n; at += piece) {
        int32_t end = at + piece < n ? at + piece : n;
        golden_must(golden_feed(r, sequence, ids->at + at, end - at, at,
                                end <= from ? 0
                                : at < from ? end - from
                                            : end - at,
                                &rows, &e),
                    &e);
    }
    return rows;
}

static struct golden_rows last_rows(struct cli_run *r, const struct ids *ids)
{
    return rows_of(r, ids, 0, MAX_POSITIONS);
}

/* --- exact --- */

/* One for the checks below: to open a device and to make its pipelines takes as long as the checks.
 */
static int open_exact(void **state)
{
    open_run(&exact_run, group_case, true);
    return 0;
}

static int close_exact(void **state)
{
    cli_run_close(&exact_run);
    return 0;
}

/* Greedy, on from the prompt that is in sequence 0, whose last row is `row`. */
static void check_answer(const struct golden_case *c, const struct golden_truth *l,
                         const char *prompt, int32_t n, const float *row)
{
    struct err e = {0};
    const cJSON *golden = json_member(json_member(l->form, "prompts"), prompt), *v;
    const cJSON *margin = json_member(golden, "top1_top2_margin");
    struct golden_rows rows = {0};
    int32_t id, step = 0;
    margin = margin ? margin->child : NULL;
    cJSON_ArrayForEach (v, json_member(golden, "continuation")) {
        id = golden_argmax(row, exact_run.plan->n_vocab);
        if (!margin || margin->valuedouble < (double)SURE_MARGIN)
            break;
        if (id != (int32_t)v->valuedouble)
            fail_msg("%s %s: step %d gives id %d, want %d (margin %g)", c->name, prompt, step, id,
                     (int)v->valuedouble, margin->valuedouble);
        margin = margin->next;
        if (!v->next)
            break;
        rows.n = 0;
        golden_must(golden_feed(&exact_run, 0, &id, 1, n + step++, 1, &rows, &e), &e);
        row = rows.at;
    }
    golden_rows_free(&rows);
}

static bool is_first_form(const struct golden_case *c)
{
    return c == cases || strcmp(c[-1].family, c->family);
}

/* Where the device is slow: the other forms of a family run the same kernels but those of their
 * weights, and these meet a few rows and many in two of the prompts. Long prompts matter to what
 * forgets (a window, a state); how others attend to many positions, test_vulkan_splits.c says. */
static bool is_left_out(const struct golden_case *c, const cJSON *prompt)
{
    const int n = cJSON_GetArraySize(prompt);
    const bool forgets = !strcmp(c->family, "gptoss") || !strcmp(c->family, "qwen35moe");
    if (!slow || (is_first_form(c) && (forgets || n <= SHORT)))
        return false;
    return n > SHORT || n == 1 || n == 64;
}

static void test_exact_equals_reference(void **state)
{
    const struct golden_case *c = *state;
    struct golden_truth l;
    const cJSON *prompt;
    float worst = 0;
    golden_truth_open(&l, c);
    cJSON_ArrayForEach (prompt, json_member(l.json, "prompts")) {
        size_t n;
        if (is_left_out(c, prompt))
            continue;
        float *want = golden_truth_values(&l, &n, "%s/%s/logits", c->form, prompt->string);
        assert_non_null(want);
        struct ids ids = golden_prompt(&l, prompt->string);
        struct golden_rows rows = last_rows(&exact_run, &ids);
        assert_int_equal((size_t)rows.n * (size_t)rows.n_vocab, n);
        float d = golden_distance(rows.at, want, n);
        worst = d > worst ? d : worst;
        if (d > LOGIT_TOLERANCE)
            fail_msg("%s %s: largest difference of a logit %g", c->name, prompt->string, (double)d);
        check_answer(c, &l, prompt->string, (int32_t)ids.n,
                     rows.at + (size_t)(rows.n - 1) * (size_t)rows.n_vocab);
        golden_rows_free(&rows);
        ids_fini(&ids);
        free(want);
    }
    print_message("%s: largest difference of a logit %.6f\n", c->name, (double)worst);
    golden_truth_close(&l);
}

/* In the other sequence's blocks, so that nothing of the whole prompt is at hand. */
static void test_pieces_agree_with_whole(void **state)
{
    static const int32_t pieces[] = {7, 64, 1};
    const int n_pieces = slow ? 2 : 3; /* answers go row by row anyway */
    const struct golden_case *c = *state;
    struct golden_truth l;
    if (slow && !is_first_form(c))
        skip(); /* what stands before a row is no matter of its weights' form */
    golden_truth_open(&l, c);
    struct ids ids = golden_prompt(&l, "p65");
    struct golden_rows whole = last_rows(&exact_run, &ids);
    for (int i = 0; i < n_pieces; i++) {
        struct golden_rows rows = rows_of(&exact_run, &ids, 1, pieces[i]);
        assert_int_equal(rows.n, whole.n);
        float d = golden_distance(rows.at, whole.at, (size_t)rows.n * (size_t)rows.n_vocab);
        if (d > LOGIT_TOLERANCE)
            fail_msg("%s: pieces of %d differ by %g", c->name, pieces[i], (double)d);
        golden_rows_free(&rows);
    }
    golden_rows_free(&whole);
    ids_fini(&ids);
    golden_truth_close(&l);
}

/* --- intermediates --- */

struct trace {
    const struct golden_case *c;
    const struct golden_truth *l;
    const struct model_plan *plan;
    const char *prompt;
    int n, bad;
    float worst;
};

static int ascending(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return x < y ? -1 : x > y;
}

static int descending(const void *a, const void *b)
{
    return -ascending(a, b);
}

/* What is right may be shown in another form: chosen experts in the order of the choice instead of
 * the weights' (the same where no bias takes part), router logits before their bias. */
static void *normalized(const struct trace *t, const char *name, const void *data, int32_t rows,
                        int32_t cols)
{
    int layer = 0;
    char what[64] = "";
    float *copy = malloc((size_t)rows * (size_t)cols * 4);
    memcpy(copy, data, (size_t)rows * (size_t)cols * 4);
    if (sscanf(name, "layers.%d.%60s", &layer, what) != 2)
        return copy;
    const struct vector *bias = &t->plan->layers[layer].moe.router_bias;
    for (int32_t r = 0; r < rows; r++) {
        if (!strncmp(what, "expert_", 7)) /* small ids sort as the floats of their bits do */
            qsort(copy + (size_t)r * (size_t)cols, (size_t)cols, sizeof *copy, descending);
        for (int32_t i = 0; i < cols && !strcmp(what, "router_logits") && bias->at; i++)
            copy[(size_t)r * (size_t)cols + (size_t)i] += bias->at[i];
    }
    return copy;
}

static void compare_trace(void *context, const char *name, const void *data, int32_t rows,
                          int32_t cols, bool is_int)
{
    struct trace *t = context;
    size_t n;
    bool is_state = false;
    float *want = golden_truth_values(t->l, &n, "trace/%s/%s/%s", t->c->form, t->prompt, name);
    if (!want) {
        want = golden_truth_values(t->l, &n, "state/%s/%s/%s", t->c->form, t->prompt, name);
        is_state = want != NULL;
    }
    if (!want)
        return;
    float d = 0;
    if (n != (size_t)rows * (size_t)cols) {
        print_message("%s %s: %d x %d values, want %zu\n", t->c->name, name, rows, cols, n);
        t->bad++;
    } else {
        void *ours = normalized(t, name, data, rows, cols);
        for (int32_t i = 0; i < rows && strstr(name, ".expert_"); i++)
            qsort(want + (size_t)i * (size_t)cols, (size_t)cols, sizeof *want, descending);
        d = is_int ? memcmp(want, ours, n * 4) != 0 : golden_distance(ours, want, n);
        free(ours);
    }
    if (d > (is_state ? STATE_TOLERANCE : TRACE_TOLERANCE)) {
        if (!t->bad++)
            print_message("%s %s %s: first wrong one, differs by %g\n", t->c->name, t->prompt, name,
                          (double)d);
    } else if (d > t->worst) {
        t->worst = d;
    }
    t->n++;
    free(want);
}

static bool has_trace(const struct golden_truth *l, const struct golden_case *c, const char *prompt)
{
    char prefix[160];
    int n = snprintf(prefix, sizeof prefix, "trace/%s/%s/", c->form, prompt);
    for (int32_t i = 0; i < l->file.tensors.n; i++)
        if (!strncmp(l->file.tensors.at[i].name, prefix, (size_t)n))
            return true;
    return false;
}

static void test_intermediates_equal_reference(void **state)
{
    static const char *const prompts[] = {"p17", "p65", "p300"};
    const struct golden_case *c = *state;
    struct golden_truth l;
    if (slow)
        skip(); /* vulkan shows none, and to find that out takes pipelines of its own */
    golden_truth_open(&l, c);
    struct trace t = {.c = c, .l = &l};
    struct cli_run r;
    struct cli_run_params p = {.model = c->model,
                               .backend = backend,
                               .n_tokens = MAX_POSITIONS,
                               .exact = true,
                               .dump = compare_trace,
                               .dump_context = &t};
    struct err e = {0};
    golden_must(cli_run_open(&r, &p, &e), &e);
    t.plan = r.plan;
    for (int i = 0; i < 3; i++) {
        if (!has_trace(&l, c, prompts[i]))
            continue;
        struct ids ids = golden_prompt(&l, t.prompt = prompts[i]);
        struct golden_rows rows = last_rows(&r, &ids);
        golden_rows_free(&rows);
        ids_fini(&ids);
    }
    cli_run_close(&r);
    print_message("%s: %d intermediates, largest difference %.6f\n", c->name, t.n, (double)t.worst);
    golden_truth_close(&l);
    if (!t.n)
        skip(); /* this backend shows none */
    assert_int_equal(t.bad, 0);
}

/* --- as served --- */

static void test_served_rounding_is_small(void **state)
{
    const struct golden_case *c = *state;
    struct golden_truth l;
    struct cli_run r;
    const cJSON *prompt;
    float worst[64];
    int n_rows = 0, same = 0;
    if (slow && !is_first_form(c))
        skip(); /* test_vulkan_kernels.c has each form's products as served */
    golden_truth_open(&l, c);
    open_run(&r, c, false);
    cJSON_ArrayForEach (prompt, json_member(l.json, "prompts")) {
        size_t n;
        if (is_left_out(c, prompt) || (slow && cJSON_GetArraySize(prompt) > SHORT))
            continue; /* what is exact has run them */
        float *want = golden_truth_values(&l, &n, "%s/%s/logits", c->form, prompt->string);
        struct ids ids = golden_prompt(&l, prompt->string);
        struct golden_rows rows = last_rows(&r, &ids);
        for (int32_t i = 0; i < rows.n; i++) {
            const float *ours = rows.at + (size_t)i * (size_t)rows.n_vocab,
                        *theirs = want + (size_t)i * (size_t)rows.n_vocab;
            worst[n_rows++] = golden_distance(ours, theirs, (size_t)rows.n_vocab);
            same += golden_argmax(ours, rows.n_vocab) == golden_argmax(theirs, rows.n_vocab);
        }
        golden_rows_free(&rows);
        ids_fini(&ids);
        free(want);
    }
    qsort(worst, (size_t)n_rows, sizeof *worst, ascending);
    float median = worst[n_rows / 2];
    print_message(
        "%s: median over rows of the largest difference %.4f, same first choice in %d of %d\n",
        c->name, (double)median, same, n_rows);
    cli_run_close(&r);
    golden_truth_close(&l);
    assert_true(
        median <=
        (strcmp(c->family, "qwen35moe") ? 0.25f : 0.5f)); /* llama.cpp's own, see README.md */
    assert_true(same * 8 >= n_rows * 7);
}

/* --- experts without a GPU slot --- */

static void compare_prompt(struct cli_run *r, const struct golden_case *c,
                           const struct golden_truth *l, const char *prompt)
{
    size_t n;
    struct ids ids = golden_prompt(l, prompt);
    struct golden_rows rows = last_rows(r, &ids);
    float *want = golden_truth_values(l, &n, "%s/%s/logits", c->form, prompt),
          d = golden_distance(rows.at, want, n);
    if (d > LOGIT_TOLERANCE)
        fail_msg("%s %s: largest difference of a logit %g", c->name, prompt, (double)d);
    golden_rows_free(&rows);
    ids_fini(&ids);
    free(want);
}

/* A third of the experts in slots, the others computed by the processor out of the layout in which
 * they lie beside the GPU; a step of too many rows for that takes them over the bus. */
static void test_experts_on_the_processor(void **state)
{
    const struct golden_case *c = *state;
    struct err e = {0};
    struct backend_counters few = {0}, many = {0};
    struct golden_truth l;
    struct cli_run r;
    golden_truth_open(&l, c);
    struct model *m = model_open(c->model, &e);
    golden_must(m != NULL, &e);
    const struct memory_options o = {.strategy = "hybrid",
                                     .hybrid_experts = "cpu",
                                     .expert_cache = (int64_t)model_stats(m)->expert_bytes / 3};
    model_close(&m);
    golden_must(cli_run_open(&r,
                             &(struct cli_run_params){.model = c->model,
                                                      .backend = backend,
                                                      .n_tokens = MAX_POSITIONS,
                                                      .exact = true,
                                                      .memory = &o},
                             &e),
                &e);
    compare_prompt(&r, c, &l, "p17");
    r.ops->counters(r.backend, &few);
    assert_true(few.expert_on_cpu > 0 && few.expert_hits > 0);
    assert_int_equal(few.expert_on_cpu, few.expert_misses);
    assert_int_equal(few.expert_bus_bytes, 0);
    compare_prompt(&r, c, &l, "p65");
    r.ops->counters(r.backend, &many);
    assert_int_equal(many.expert_on_cpu, few.expert_on_cpu);
    assert_true(many.expert_bus_bytes > 0);
    cli_run_close(&r);
    golden_truth_close(&l);
}

/* One form of each kind of layout that the processor meets there: in place, scales apart, blocks;
 * with biases, with a gated shared expert and recurrent layers. */
static bool on_processor(const struct golden_case *c)
{
    static const char *const forms[] = {"hf-mxfp4", "mlx-q5", "gguf-q4_k_m", "mlx-mixed3"};
    bool found = false;
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        found = found || !strcmp(forms[i], c->form);
    return found && strcmp(backend, "cpu");
}

/* --- one case --- */

/* All checks of one case, or none (NULL): whether the backend can run here. Returns the exit
 * status. */
static int run_case(struct golden_case *c)
{
    static const struct {
        const char *what;
        CMUnitTestFunction run;
    } checks[] = {{"exact", test_exact_equals_reference},
                  {"pieces", test_pieces_agree_with_whole},
                  {"intermediates", test_intermediates_equal_reference},
                  {"served", test_served_rounding_is_small},
                  {"on the processor",
                   test_experts_on_the_processor}}; /* last: of some, with a device beside it */
    enum { N_CHECKS = sizeof checks / sizeof *checks };
    const size_t n = c && on_processor(c) ? N_CHECKS : N_CHECKS - 1;
    struct CMUnitTest tests[N_CHECKS];
    char names[N_CHECKS][192];
    struct err e = {0};
    if (!c) {
        if (backend_select(backend, &e))
            return 0;
        printf("1..0 # SKIP %s: %s\n", backend, e.text);
        return 77;
    }
    for (size_t k = 0; k < n; k++) {
        snprintf(names[k], sizeof names[k], "%s: %s", c->name, checks[k].what);
        tests[k] = (struct CMUnitTest){names[k], checks[k].run, NULL, NULL, c};
    }
    group_case = c;
    slow = golden_slow_device(backend);
    return _cmocka_run_group_tests(c->name, tests, n, open_exact, close_exact) != 0;
}

/* In a process of its own: NVIDIA's driver refuses to be opened a few dozen times in one, closed
 * again or not. */
static int fork_case(struct golden_case *c)
{
    int status;
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0)
        exit(run_case(c));
    if (pid < 0 || waitpid(pid, &status, 0) != pid)
        return 1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

int main(int argc, char **argv)
{
    if (argc > 1)
        backend = argv[1];
    n_cases =
        golden_cases_list(cases, MAX_CASES, argc > 2 ? argv[2] : golden_path("tests/data/golden"),
                          argc > 3 ? argv[3] : NULL);
    if (!n_cases) {
        puts("no golden models found");
        return 1;
    }
    int failed = 0, ready = fork_case(NULL);
    for (int i = 0; ready == 0 && i < n_cases; i++)
        failed += fork_case(&cases[i]) != 0;
    if (ready == 0)
        printf("%d of %d models failed\n", failed, n_cases);
    return ready ? ready : failed != 0;
}
