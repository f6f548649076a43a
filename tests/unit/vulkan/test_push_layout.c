/* The layout of each block of push constants, as the shader's compiler placed its members, against
 * the struct that the host fills; no device is needed. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "engine/vulkan/device/shader.h"
#include "engine/vulkan/shaders/push.h"

enum { /* SPIR-V: the words of a module's head, opcodes and a decoration */
       HEAD_WORDS = 5,
       OP_NAME = 5,
       OP_MEMBER_NAME = 6,
       OP_MEMBER_DECORATE = 72,
       DECORATION_OFFSET = 35
};

struct row {
    const char *shader, *member;
    size_t offset;
};

#define ROW(variant, op, name) {#variant, #name, offsetof(struct push_##op, name)}

/* For each block a member behind the addresses, and the last one: one that is missing or of another
 * size on either side moves it. */
static const struct row rows[] = {
    ROW(embed_f32, embed, n_chunk),
    ROW(linear_f32, linear, rows),
    ROW(linear_f32, linear, inverse_cols),
    ROW(cast_f16, cast_f16, n),
    ROW(cast_f16, cast_f16, inverse_cols),
    ROW(matmul_f32, matmul, rows),
    ROW(matmul_f32, matmul, up_at),
    ROW(matmul_plain_f32, matmul, up_at),
    ROW(matmul_few_f32, matmul_few, rows),
    ROW(matmul_few_f32, matmul_few, beside_stride),
    ROW(router_fold_f32, router_fold, rows),
    ROW(router_fold_f32, router_fold, stride),
    ROW(moe_route, moe_route, stride),
    ROW(moe_route, moe_route, scale),
    ROW(router, router, quads),
    ROW(router, router, inverse_cols),
    ROW(router_choose, router, stride),
    ROW(router_choose, router, inverse_cols),
    ROW(moe_up_f32, moe_up, rows),
    ROW(moe_up_f32, moe_up, scale),
    ROW(moe_down_f32, moe_down, rows),
    ROW(moe_down_f32, moe_down, gate_stride),
    ROW(resident_block, resident, wo_data),
    ROW(resident_block, resident, scale),
    ROW(moe_sort, moe_sort, n),
    ROW(moe_sum, moe_sum, norm),
    ROW(moe_sum, moe_sum, eps),
    ROW(add_rows, add_rows, cols),
    ROW(add_rows, add_rows, y_stride),
    ROW(rope_kv, rope_kv, stride),
    ROW(rope_kv, rope_kv, rope_scale),
    ROW(attn, attn, stride),
    ROW(attn, attn, scale),
    ROW(attn_coop, attn_tiled, stride),
    ROW(attn_coop, attn_tiled, scale),
    ROW(attn_plain, attn_tiled, scale),
    ROW(attn_rotate, attn_rotate, stride),
    ROW(attn_rotate, attn_rotate, q_step),
    ROW(delta_conv, delta_conv, stride),
    ROW(delta_conv, delta_conv, gates_at),
    ROW(delta_scan, delta_scan, raw_stride),
    ROW(delta_norm, delta_norm, stride),
    ROW(delta_norm, delta_norm, eps),
    ROW(delta_step, delta_step, stride),
    ROW(delta_step, delta_step, eps),
    ROW(topk, topk, n),
    ROW(topk, topk, n_slices),
    ROW(read_bandwidth, read_bandwidth, n),
    ROW(bench_chain, bench_chain, a),
    ROW(bench_grid, bench_grid, rounds),
    ROW(bench_grid, bench_grid, n),
};

static const struct shader *shader_of(const char *name)
{
    for (int i = 0; i < shader_table_n; i++)
        if (strcmp(shader_table[i].name, name) == 0)
            return &shader_table[i];
    fail_msg("no shader %s", name);
    return NULL;
}

/* The instruction after `at` (NULL: the first) with this opcode; NULL: there is none. */
static const uint32_t *next_op(const struct shader *s, const uint32_t *at, uint32_t opcode)
{
    const uint32_t *end = s->code + s->bytes / sizeof *s->code;
    at = at ? at + (at[0] >> 16) : s->code + HEAD_WORDS;
    while (at < end && (at[0] & 0xffff) != opcode)
        at += at[0] >> 16;
    return at < end ? at : NULL;
}

/* Where the shader expects a member of its block; SIZE_MAX: it has none of this name. */
static size_t offset_in_shader(const struct shader *s, const char *member)
{
    const uint32_t *type = NULL, *name = NULL, *place = NULL;
    while ((type = next_op(s, type, OP_NAME)) && strcmp((const char *)&type[2], "Push") != 0)
        ;
    while (type && (name = next_op(s, name, OP_MEMBER_NAME)) &&
           (name[1] != type[1] || strcmp((const char *)&name[3], member) != 0))
        ;
    while (name && (place = next_op(s, place, OP_MEMBER_DECORATE)) &&
           (place[1] != name[1] || place[2] != name[2] || place[3] != DECORATION_OFFSET))
        ;
    return place ? place[4] : SIZE_MAX;
}

static void test_members_lie_where_the_shader_expects_them(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const size_t found = offset_in_shader(shader_of(rows[i].shader), rows[i].member);
        if (found != rows[i].offset)
            fail_msg("%s: %s at %zu, the host writes it at %zu", rows[i].shader, rows[i].member,
                     found, rows[i].offset);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_members_lie_where_the_shader_expects_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
