/* Where the routed experts lie: every layout that files use ends up as the same three views.
 *
 *   stacked     mlp.switch_mlp.gate_proj [E, I, d] (MLX), ffn_gate_exps (GGUF)
 *   fused       mlp.experts.gate_up_proj [E, 2I, d]: first gate, then up (Qwen3.5)
 *   separate    mlp.experts.N.gate_proj [I, d]: one tensor each (most plain folders), a table of
 * addresses */
#include "engine/model/bind.h"

#include <stdio.h>

#define STACKED(projection)                                                                        \
    ((struct names){"mlp.switch_mlp." projection "_proj|mlp.experts." projection "_proj",          \
                    "ffn_" projection "_exps"})
#define FUSED                                                                                      \
    ((struct names){"mlp.experts.gate_up_proj|mlp.switch_mlp.gate_up_proj", "ffn_gate_up_exps"})

/* One tensor per expert. All must have the same type; the first one's view stands for all. */
static void bind_separate(struct binder *b, struct weight *w, const char *projection,
                          int32_t n_expert)
{
    int32_t rows = w->rows, cols = w->cols;
    struct weight_planes *table = arena_alloc(b->arena, (size_t)n_expert * sizeof *table);
    if (!table) {
        bind_fail(b, ERR_NOMEM, projection, "no memory for a table of %d experts", n_expert);
        return;
    }
    for (int32_t i = 0; i < n_expert && !b->failed; i++) {
        char hf[64], gguf[64];
        struct weight one = {0};
        snprintf(hf, sizeof hf, "mlp.experts.%d.%s_proj", i, projection);
        snprintf(gguf, sizeof gguf, "ffn_%s.%d", projection, i);
        int missing = b->n_missing;
        bind_matrix(b, &one, (struct names){hf, gguf}, rows, cols);
        if (b->failed || b->n_missing > missing)
            continue;
        table[i] = weight_planes(&one, 0);
        if (i == 0)
            *w = one;
        else if (one.type != w->type || one.bits != w->bits || one.group != w->group ||
                 one.scale_type != w->scale_type)
            bind_fail(b, ERR_UNSUPPORTED, one.name, "tensor %s is of another type than %s",
                      one.name, w->name);
    }
    w->n_matrix = n_expert;
    w->table = table;
}

void bind_experts(struct binder *b, struct moe_plan *m, int32_t d_model)
{
    const struct stack_shape up = {.n_matrix = m->n_expert, .rows = m->d_ff, .cols = d_model};
    const struct stack_shape down = {.n_matrix = m->n_expert, .rows = d_model, .cols = m->d_ff};
    if (bind_has(b, FUSED)) {
        struct stack_shape first = up, second = up;
        first.slice = (struct row_slice){0, 1, 2 * m->d_ff};
        second.slice = (struct row_slice){m->d_ff, 1, 2 * m->d_ff};
        bind_stack(b, &m->gate, FUSED, &first);
        bind_stack(b, &m->up, FUSED, &second);
        bind_stack(b, &m->down, STACKED("down"), &down);
        return;
    }
    if (bind_has(b, (struct names){"mlp.experts.0.gate_proj", "ffn_gate.0"})) {
        m->gate = m->up = (struct weight){.rows = m->d_ff, .cols = d_model};
        m->down = (struct weight){.rows = d_model, .cols = m->d_ff};
        bind_separate(b, &m->gate, "gate", m->n_expert);
        bind_separate(b, &m->up, "up", m->n_expert);
        bind_separate(b, &m->down, "down", m->n_expert);
        return;
    }
    bind_stack(b, &m->gate, STACKED("gate"), &up);
    bind_stack(b, &m->up, STACKED("up"), &up);
    bind_stack(b, &m->down, STACKED("down"), &down);
}
