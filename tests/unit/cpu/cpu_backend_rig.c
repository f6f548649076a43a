/* Opens a model and a backend over it, and feeds prompts. */
#include "tests/unit/cpu/cpu_backend_rig.h"

#include "tests/unit/support/sanitized.h"

/* The demo model takes minutes there. */
#define MODEL_OF_MANY_RUNS (SANITIZED ? "tests/data/golden/qwen3moe/mlx-q4" : "engine/demo-model")

struct model *model;
const struct model_plan *plan;
int32_t tokens[SEQUENCES][TOKENS];
float *alone[SEQUENCES];       /* [n_vocab] logits of each sequence's last token, one by one */
int32_t experts_of[SEQUENCES]; /* step_sequence.n_experts of each */
struct step_row rows[ROWS];
struct err e;

int open_path(const char *name)
{
    char path[4096];
    const char *root = getenv("srcdir");
    snprintf(path, sizeof path, "%s/%s", root ? root : ".", name);
    model_close(&model);
    model = model_open(path, &e);
    if (!model) {
        fprintf(stderr, "%s\n", e.text);
        return -1;
    }
    plan = model_plan(model);
    for (int s = 0; s < SEQUENCES; s++)
        for (int t = 0; t < TOKENS; t++)
            tokens[s][t] = (s * 977 + t * t * 31 + t) % plan->n_vocab;
    return 0;
}

int open_model(void **state)
{
    return open_path("engine/demo-model");
}

int open_model_of_many_runs(void **state)
{
    return open_path(MODEL_OF_MANY_RUNS);
}

int open_recurrent_model(void **state)
{
    return open_path("tests/data/golden/qwen35moe/mlx-mixed3");
}

int close_model(void **state)
{
    for (int s = 0; s < SEQUENCES; s++)
        free(alone[s]);
    model_close(&model);
    return 0;
}

const int32_t *blocks_of(int s)
{
    static int32_t table[SEQUENCES][4];
    for (int i = 0; i < 4; i++)
        table[s][i] = (s * 4 + i) * 7 % 32;
    return table[s];
}

struct step_sequence part(int s, int start, int n)
{
    return (struct step_sequence){.tokens = tokens[s] + start,
                                  .n_tokens = n,
                                  .start = start,
                                  .blocks = blocks_of(s),
                                  .n_experts = experts_of[s],
                                  .state = plan->n_recurrent ? s : -1,
                                  .n_out = start + n == TOKENS ? 1 : 0,
                                  .want_logits = true};
}

void run(struct backend *b, const struct step_sequence *s, int n)
{
    struct step step = {.sequences = s, .n_sequences = n, .n_top = 8};
    if (!cpu_backend.step(b, &step, rows, &e))
        fail_msg("%s", e.text);
}
