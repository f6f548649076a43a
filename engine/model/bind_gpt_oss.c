/* gpt-oss publishes its experts in two layouts of its own; mlx and GGUF have the usual stacks
 * beside.
 *
 *   mlp.experts.gate_up_proj_blocks [E, 2I, d/32, 16] with _scales [E, 2I, d/32]: MXFP4, even rows
 * gate, odd rows up: a view with doubled row stride, nothing is copied mlp.experts.gate_up_proj [E,
 * d, 2I] and down_proj [E, I, d], bf16: transposed. No kernel reads columns, so these are laid out
 * anew, once, in memory of the model's own; only unquantized fine-tunes come this way. */
#include "engine/model/bind.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

static struct tensor *find(struct binder *b, const char *hf)
{
    return bind_find(b, (struct names){hf, NULL}, NULL, 0);
}

/* Bytes of the shape dims[n_dims]: three dimensions for scales, four for codes. */
static bool block_shape(struct binder *b, const struct tensor *t, const int64_t *dims, int n_dims)
{
    char shape[128];
    bool ok = t->n_dims == n_dims && t->type == TENSOR_U8;
    for (int i = 0; i < n_dims && ok; i++)
        ok = t->dims[i] == dims[i];
    if (ok)
        return true;
    return bind_fail(b, ERR_FORMAT, t->name, "tensor %s is %s %s, want U8 [%d, %d, %d%s]", t->name,
                     t->type_name, tensor_shape_text(t, shape, sizeof shape), (int)dims[0],
                     (int)dims[1], (int)dims[2], n_dims == 4 ? ", 16" : "");
}

struct mxfp4_blocks {
    const struct tensor *codes, *scales;
    int32_t n_expert;
};

/* Rows first, first + step, ... of the blocks; *w has rows and cols. */
static void view_blocks(struct binder *b, struct weight *w, const struct mxfp4_blocks *x,
                        struct row_slice s)
{
    const struct tensor *codes = x->codes, *scales = x->scales;
    int32_t groups = w->cols / 32, n_expert = x->n_expert;
    const int64_t dims[] = {n_expert, s.of, groups, 16};
    if (w->cols % 32) {
        bind_fail(b, ERR_FORMAT, codes->name,
                  "tensor %s: %d columns do not divide into blocks of 32", codes->name, w->cols);
        return;
    }
    if (!block_shape(b, codes, dims, 4) || !block_shape(b, scales, dims, 3))
        return;
    size_t row = (size_t)groups * 16, scale_row = (size_t)groups;
    *w = (struct weight){.type = WEIGHT_MXFP4,
                         .bits = 4,
                         .group = 32,
                         .scale_type = SCALE_E8M0,
                         .n_matrix = n_expert,
                         .rows = w->rows,
                         .cols = w->cols,
                         .name = codes->name,
                         .data = codes->data + (size_t)s.first * row,
                         .scales = scales->data + (size_t)s.first * scale_row,
                         .row_bytes = row * (size_t)s.step,
                         .matrix_bytes = row * (size_t)s.of,
                         .scale_row_bytes = scale_row * (size_t)s.step,
                         .scale_matrix_bytes = scale_row * (size_t)s.of};
}

static void bind_blocks(struct binder *b, struct moe_plan *m, int32_t d_model)
{
    struct tensor *gate_up = find(b, "mlp.experts.gate_up_proj_blocks"),
                  *down = find(b, "mlp.experts.down_proj_blocks");
    struct tensor *gate_up_scales = find(b, "mlp.experts.gate_up_proj_scales"),
                  *down_scales = find(b, "mlp.experts.down_proj_scales");
    if (!gate_up_scales)
        bind_missing(b, (struct names){"mlp.experts.gate_up_proj_scales", NULL});
    if (!down)
        bind_missing(b, (struct names){"mlp.experts.down_proj_blocks", NULL});
    if (!down_scales)
        bind_missing(b, (struct names){"mlp.experts.down_proj_scales", NULL});
    if (!gate_up_scales || !down || !down_scales)
        return;
    const struct mxfp4_blocks both = {
        .codes = gate_up, .scales = gate_up_scales, .n_expert = m->n_expert};
    const struct mxfp4_blocks last = {
        .codes = down, .scales = down_scales, .n_expert = m->n_expert};
    view_blocks(b, &m->gate, &both, (struct row_slice){0, 2, 2 * m->d_ff});
    view_blocks(b, &m->up, &both, (struct row_slice){1, 2, 2 * m->d_ff});
    view_blocks(b, &m->down, &last, (struct row_slice){0, 1, d_model});
}

/* Copies column first, first + step, ... of each [cols, of] matrix into rows. */
static void transpose(struct binder *b, struct weight *w, const struct tensor *t, int32_t n_expert,
                      struct row_slice s)
{
    if (!bind_want_shape(b, t, n_expert, w->cols, s.of))
        return;
    if (t->type != TENSOR_BF16 && t->type != TENSOR_F16) {
        bind_fail(b, ERR_UNSUPPORTED, t->name, "tensor %s is %s, want bf16 or f16", t->name,
                  t->type_name);
        return;
    }
    uint64_t each = (uint64_t)w->rows * (uint64_t)w->cols, bytes = each * (uint64_t)n_expert * 2;
    uint64_t memory = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    uint16_t *copy = b->copied_bytes + bytes < memory / 4 * 3 ? arena_alloc(b->arena, bytes) : NULL;
    if (!copy) {
        bind_fail(b, ERR_NOMEM, t->name,
                  "tensor %s is stored transposed and must be copied: no memory for %.1f GB more",
                  t->name, (double)bytes / 1e9);
        return;
    }
    b->copied_bytes += bytes;
    for (int32_t x = 0; x < n_expert; x++)
        for (int32_t col = 0; col < w->cols; col++) {
            const uint8_t *from =
                t->data +
                2 * (((size_t)x * (size_t)w->cols + (size_t)col) * (size_t)s.of + (size_t)s.first);
            for (int32_t row = 0; row < w->rows; row++)
                memcpy(&copy[x * each + (uint64_t)row * (uint64_t)w->cols + (uint64_t)col],
                       from + 2 * (size_t)row * (size_t)s.step, 2);
        }
    *w = (struct weight){.type = t->type == TENSOR_BF16 ? WEIGHT_BF16 : WEIGHT_F16,
                         .n_matrix = n_expert,
                         .rows = w->rows,
                         .cols = w->cols,
                         .name = t->name,
                         .data = copy,
                         .row_bytes = (size_t)w->cols * 2,
                         .matrix_bytes = each * 2};
}

static void bind_transposed(struct binder *b, struct moe_plan *m, int32_t d_model)
{
    struct tensor *gate_up = find(b, "mlp.experts.gate_up_proj"),
                  *down = find(b, "mlp.experts.down_proj");
    if (!down) {
        bind_missing(b, (struct names){"mlp.experts.down_proj", NULL});
        return;
    }
    transpose(b, &m->gate, gate_up, m->n_expert, (struct row_slice){0, 2, 2 * m->d_ff});
    transpose(b, &m->up, gate_up, m->n_expert, (struct row_slice){1, 2, 2 * m->d_ff});
    transpose(b, &m->down, down, m->n_expert, (struct row_slice){0, 1, d_model});
}

static void bind_biases(struct binder *b, struct moe_plan *m, int32_t d_model, bool fused)
{
    static const struct names gate_up = {"mlp.experts.gate_up_proj_bias", NULL};
    int32_t n = m->n_expert;
    struct vector_slices even = {.n_runs = n, .count = m->d_ff, .slice = {0, 2, 2 * m->d_ff}},
                         odd = even, all = even;
    odd.slice.first = 1;
    all.slice = (struct row_slice){0, 1, m->d_ff};
    if (fused) {
        bind_vector_slices(b, &m->b_gate, gate_up, &even);
        bind_vector_slices(b, &m->b_up, gate_up, &odd);
        bind_vector(b, &m->b_down, (struct names){"mlp.experts.down_proj_bias", NULL}, n * d_model);
        return;
    }
    bind_vector_slices(b, &m->b_gate,
                       (struct names){"mlp.experts.gate_proj.bias", "ffn_gate_exps.bias"}, &all);
    bind_vector_slices(b, &m->b_up, (struct names){"mlp.experts.up_proj.bias", "ffn_up_exps.bias"},
                       &all);
    bind_vector(b, &m->b_down, (struct names){"mlp.experts.down_proj.bias", "ffn_down_exps.bias"},
                n * d_model);
}

void bind_gpt_oss_experts(struct binder *b, struct moe_plan *m, int32_t d_model)
{
    bool blocks = bind_has(b, (struct names){"mlp.experts.gate_up_proj_blocks", NULL});
    bool transposed = bind_has(b, (struct names){"mlp.experts.gate_up_proj", NULL});
    m->gate = m->up = (struct weight){.rows = m->d_ff, .cols = d_model};
    m->down = (struct weight){.rows = d_model, .cols = m->d_ff};
    if (blocks)
        bind_blocks(b, m, d_model);
    else if (transposed)
        bind_transposed(b, m, d_model);
    else
        bind_experts(b, m, d_model);
    bind_biases(b, m, d_model, blocks || transposed);
}
