/* Weights laid out anew: where each byte of a row comes to lie, which weights of a plan are copied
 * so, what stays as it is, and that the copies are gone with their owner. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "engine/backend/backend.h"
#include "engine/cpu/interleave/interleave.h"
#include "engine/cpu/interleave/interleaved_weights.h"
#include "engine/cpu/kernels/kernels.h"
#include "engine/cpu/open.h"
#include "tests/unit/support/cpu_weights.h"
#include "tests/unit/support/expert_models.h"
#include "tests/unit/support/guarded.h"

enum { ROWS = 48, COLS = 512, MATRICES = 3, GAP = 7, BLOCK_COLUMNS = 256 };

static const char *const forms[] = {"q8_0", "q4_0", "mxfp4 block", "q4_k", "q5_k"};
#define N_FORMS ((int)(sizeof forms / sizeof *forms))

static bool reads_all(const struct weight *w)
{
    return true;
}

static bool reads_q4_k(const struct weight *w)
{
    return w->type == WEIGHT_Q4_K;
}

static struct random_weight random_weight(const char *form, int n_matrix, int rows, int cols)
{
    struct random_weight r;
    random_weight_init(&r, weight_form_of(form), n_matrix, rows, cols, 0, (unsigned)rows);
    return r;
}

/* --- rows --- */

/* Where the header says that byte `k` of a block's codes or scale is: of row r of sixteen, whose
 * 256 columns begin at `at`. */
static const uint8_t *place_of(const struct interleave_form *f, const uint8_t *at, int block, int r,
                               int k, bool is_scale)
{
    const int blocks = BLOCK_COLUMNS / f->columns;
    const uint8_t *scales = at + 16 * f->code_bytes * blocks;
    return is_scale ? scales + (16 * block + r) * f->scale_bytes + k
                    : at + 64 * ((block * f->code_bytes + k) / 4) + 4 * r + k % 4;
}

static void check_row(const struct weight *w, int32_t matrix, int32_t row, const uint8_t *to)
{
    const struct interleave_form *f = interleave_form(w->type);
    const int each = BLOCK_COLUMNS / f->columns;
    const uint8_t *from = weight_planes(w, matrix).data + (size_t)row * w->row_bytes;
    for (int b = 0; b < w->cols / f->columns; b++, from += f->bytes) {
        const uint8_t *at = to + (size_t)(b / each * each * f->bytes) * 16;
        for (int k = 0; k < f->code_bytes; k++)
            assert_int_equal(*place_of(f, at, b % each, row % 16, k, false), from[f->codes + k]);
        for (int k = 0; k < f->scale_bytes; k++)
            assert_int_equal(*place_of(f, at, b % each, row % 16, k, true), from[f->scale + k]);
    }
}

/* All of a weight's bytes are codes or scales, rows lie apart, and nothing is written beside. */
static void test_rows(void **state)
{
    for (int i = 0; i < N_FORMS; i++) {
        struct random_weight r;
        random_weight_init(&r, weight_form_of(forms[i]), MATRICES, ROWS, COLS, GAP, 5);
        const struct interleave_form *f = interleave_form(r.w.type);
        assert_int_equal(f->code_bytes + f->scale_bytes, f->bytes);
        assert_int_equal(f->bytes * (COLS / f->columns), weight_row_size(&r.w));
        uint8_t *to = guarded_alloc(16 * weight_row_size(&r.w), 1);
        for (int32_t m = 0; m < MATRICES; m++)
            for (int32_t row = 0; row < ROWS; row += 16) {
                interleave_rows(&r.w, m, row, to);
                for (int32_t k = row; k < row + 16; k++)
                    check_row(&r.w, m, k, to);
            }
        guarded_free(to);
        random_weight_fini(&r);
    }
}

static void test_what_fits(void **state)
{
    const struct {
        enum weight_type type;
        int32_t rows, cols;
        bool fits;
    } cases[] = {{WEIGHT_Q4_K, 16, 256, true},  {WEIGHT_Q4_K, 24, 256, false},
                 {WEIGHT_Q8_0, 32, 768, true},  {WEIGHT_Q8_0, 32, 288, false},
                 {WEIGHT_Q4_0, 1, 256, false},  {WEIGHT_Q5_0, 16, 256, false},
                 {WEIGHT_F32, 16, 256, false},  {WEIGHT_AFFINE, 16, 256, false},
                 {WEIGHT_NONE, 16, 256, false}, {WEIGHT_MXFP4_BLOCK, 16, 256, true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct weight w = {
            .type = cases[i].type, .n_matrix = 1, .rows = cases[i].rows, .cols = cases[i].cols};
        assert_int_equal(interleave_fits(&w), cases[i].fits);
    }
}

/* --- plans --- */

static struct interleaved_weights *copy_of(const struct model_plan *plan,
                                           bool (*reads)(const struct weight *w))
{
    return interleaved_weights_open(&(struct interleaved_weights_params){
        .plan = plan, .reads = reads, .kernels = "test", .n_threads = 2});
}

/* w: the weight of the plan, to: of the copy. */
static void check_copied(const struct weight *w, const struct weight *to)
{
    const size_t bytes = 16 * weight_row_size(w);
    uint8_t *rows = malloc(bytes);
    assert_true(to->interleaved && !w->interleaved);
    assert_null(to->table);
    assert_int_equal((uintptr_t)to->data % 64, 0);
    assert_int_equal(to->row_bytes, weight_row_size(w));
    assert_int_equal(to->matrix_bytes, (size_t)w->rows * to->row_bytes);
    for (int32_t m = 0; m < w->n_matrix; m++)
        for (int32_t row = 0; row < w->rows; row += 16) {
            interleave_rows(w, m, row, rows);
            assert_memory_equal(weight_planes(to, m).data + (size_t)row * to->row_bytes, rows,
                                bytes);
        }
    free(rows);
}

static void check_kept(const struct weight *w, const struct weight *to)
{
    assert_memory_equal(w, to, sizeof *w);
}

static void check_by_form(const struct weight *w, const struct weight *to)
{
    (interleave_fits(w) ? check_copied : check_kept)(w, to);
}

struct rig {
    struct random_weight embed, head, k, q, o, odd, experts[MATRICES], stack, f32;
    struct weight_planes table[MATRICES];
    struct layer_plan layers[2];
    struct model_plan plan;
};

/* A layer of each kind of feed-forward; gate's experts are tensors of their own, up and down one.
 */
static int open_rig(void **state)
{
    struct rig *r = calloc(1, sizeof *r);
    r->embed = random_weight("q5_k", 1, 64, 256);
    r->head = random_weight("q5_k", 1, 80, 256);
    r->q = random_weight("q4_k", 1, 32, 256);
    r->k = random_weight("q5_k", 1, 16, 256);
    r->o = random_weight("q4_0", 1, 256, 512);
    r->odd = random_weight("q4_k", 1, 24, 256);
    r->stack = random_weight("q4_k", MATRICES, 16, 512);
    r->f32 = random_weight("f32", 1, 16, 256);
    for (int i = 0; i < MATRICES; i++) {
        r->experts[i] = random_weight("q5_k", 1, 32, 512);
        r->table[i] = (struct weight_planes){.data = r->experts[i].data};
    }
    struct layer_plan *dense = &r->layers[0], *moe = &r->layers[1];
    *dense = (struct layer_plan){.mixer = MIXER_ATTENTION, .ffn = FFN_DENSE};
    dense->attention.wq = r->q.w;
    dense->attention.wk = r->k.w;
    dense->attention.wv = r->odd.w;
    dense->attention.wo = r->o.w;
    dense->dense = (struct mlp_plan){.gate = r->q.w, .down = r->f32.w};
    *moe = (struct layer_plan){.mixer = MIXER_DELTA_NET, .ffn = FFN_MOE};
    moe->delta_net.w_qkv = r->q.w;
    moe->moe = (struct moe_plan){.router = r->stack.w, .up = r->stack.w, .down = r->stack.w};
    moe->moe.gate = r->experts[0].w;
    moe->moe.gate.n_matrix = MATRICES;
    moe->moe.gate.data = NULL;
    moe->moe.gate.table = r->table;
    moe->moe.has_shared = true;
    moe->moe.shared = (struct mlp_plan){.gate = r->q.w, .up = r->q.w, .down = r->o.w};
    r->plan = (struct model_plan){
        .n_layer = 2, .layers = r->layers, .embed = r->embed.w, .head = r->head.w};
    r->plan.embedding.positions = r->embed.w;
    r->plan.scorer.dense = r->q.w;
    r->plan.joint.fc = r->q.w;
    r->plan.context.fc = r->stack.w;
    *state = r;
    return 0;
}

static int close_rig(void **state)
{
    struct rig *r = *state;
    struct random_weight *all[] = {&r->embed, &r->head, &r->k,     &r->q,
                                   &r->o,     &r->odd,  &r->stack, &r->f32};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        random_weight_fini(all[i]);
    for (int i = 0; i < MATRICES; i++)
        random_weight_fini(&r->experts[i]);
    free(r);
    return 0;
}

static void test_plan(void **state)
{
    struct rig *r = *state;
    struct interleaved_weights *i = copy_of(&r->plan, reads_all);
    assert_non_null(i);
    const struct model_plan *p = &r->plan, *to = interleaved_weights_plan(i);
    const struct layer_plan *a = p->layers, *b = to->layers;
    assert_true(interleaved_weights_any(to) && !interleaved_weights_any(p));
    check_copied(&p->head, &to->head);
    check_copied(&p->joint.fc, &to->joint.fc);
    check_copied(&p->context.fc, &to->context.fc);
    check_copied(&a->attention.wq, &b->attention.wq);
    check_copied(&a->attention.wk, &b->attention.wk);
    check_copied(&a->attention.wo, &b->attention.wo);
    check_copied(&a->dense.gate, &b->dense.gate);
    check_copied(&a[1].delta_net.w_qkv, &b[1].delta_net.w_qkv);
    check_copied(&a[1].moe.gate, &b[1].moe.gate);
    check_copied(&a[1].moe.up, &b[1].moe.up);
    check_copied(&a[1].moe.down, &b[1].moe.down);
    check_copied(&a[1].moe.shared.down, &b[1].moe.shared.down);
    check_kept(&p->embed, &to->embed);
    check_kept(&p->embedding.positions, &to->embedding.positions);
    check_kept(&p->scorer.dense, &to->scorer.dense);
    check_kept(&a->attention.wv, &b->attention.wv);
    check_kept(&a->dense.down, &b->dense.down);
    check_kept(&a[1].moe.router, &b[1].moe.router);
    interleaved_weights_close(&i);
    assert_null(i);
}

/* Only what the kernels read; nothing at all where they read nothing. */
static void test_kernels_choose(void **state)
{
    struct rig *r = *state;
    struct interleaved_weights *i = copy_of(&r->plan, reads_q4_k);
    assert_non_null(i);
    const struct layer_plan *a = r->plan.layers, *b = interleaved_weights_plan(i)->layers;
    check_copied(&a->attention.wq, &b->attention.wq);
    check_kept(&a->attention.wk, &b->attention.wk);
    check_kept(&a->attention.wo, &b->attention.wo);
    interleaved_weights_close(&i);
    r->plan = (struct model_plan){.embed = r->embed.w, .head = r->k.w, .layers = r->layers};
    assert_null(copy_of(&r->plan, reads_q4_k));
}

/* A tied head is the table, which stays; a head of another plan is as that has it. */
static void test_ends(void **state)
{
    struct rig *r = *state;
    r->plan.head = r->plan.embed;
    struct interleaved_weights *i = copy_of(&r->plan, reads_all);
    assert_non_null(i);
    const struct model_plan *to = interleaved_weights_plan(i);
    check_kept(&r->plan.head, &to->head);
    check_kept(&r->plan.embed, &to->embed);
    struct model_plan shares = r->plan;
    shares.shares_ends = true;
    shares.head = r->head.w;
    struct interleaved_weights *beside = copy_of(&shares, reads_all);
    assert_non_null(beside);
    check_kept(&shares.head, &interleaved_weights_plan(beside)->head);
    interleaved_weights_close(&beside);
    interleaved_weights_close(&i);
}

static void test_memory_is_freed(void **state)
{
    struct rig *r = *state;
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    struct interleaved_weights *i = copy_of(&r->plan, reads_all);
    assert_non_null(i);
    const uintptr_t at = (uintptr_t)interleaved_weights_plan(i)->head.data;
    unsigned char there;
    void *first = (void *)(at & ~(uintptr_t)(page - 1));
    assert_int_equal(mincore(first, 1, &there), 0);
    interleaved_weights_close(&i);
    assert_int_equal(mincore(first, 1, &there), -1);
    assert_int_equal(errno, ENOMEM);
    interleaved_weights_close(&i);
}

/* --- models and backends --- */

/* Pages that are given back are read again from the file. */
static void test_model(void **state)
{
    struct err e = {0};
    struct model *m = model_open(expert_model_path("tests/data/golden/qwen3moe-k/gguf"), &e);
    assert_non_null(m);
    const struct model_plan *p = model_plan(m);
    struct interleaved_weights *i = interleaved_weights_open(&(struct interleaved_weights_params){
        .plan = p, .model = m, .reads = reads_all, .kernels = "test", .n_threads = 1});
    assert_non_null(i);
    const struct model_plan *to = interleaved_weights_plan(i);
    check_by_form(&p->head, &to->head);
    for (int32_t k = 0; k < p->n_layer; k++) {
        const struct layer_plan *a = &p->layers[k], *b = &to->layers[k];
        check_by_form(&a->attention.wv, &b->attention.wv);
        check_copied(&a->moe.gate, &b->moe.gate);
        check_by_form(&a->moe.down, &b->moe.down);
        check_kept(&a->moe.router, &b->moe.router);
    }
    interleaved_weights_close(&i);
    model_close(&m);
}

/* Kernels are given no weights that they do not read, and who reads them says so. */
static void test_backends(void **state)
{
    struct err e = {0};
    struct model *m = model_open(expert_model_path("tests/data/golden/qwen3moe-k/gguf"), &e);
    assert_non_null(m);
    struct interleaved_weights *i = interleaved_weights_open(&(struct interleaved_weights_params){
        .plan = model_plan(m), .model = m, .reads = reads_all, .kernels = "test", .n_threads = 1});
    assert_non_null(i);
    const struct model_plan *plan = interleaved_weights_plan(i);
    struct backend_params p = {.n_blocks = 2, .max_rows = 4, .max_sequences = 1, .n_threads = 1};
    struct kernels with = *kernels_best(), without = with;
    char mapped[128], laid_out[128];
    with.reads_interleaved = reads_all;
    without.reads_interleaved = NULL;
    assert_null(cpu_open_with(plan, &p, &with, &e));
    p.one_byte = with.kinds != PANEL_F32;
    assert_null(cpu_open_with(plan, &p, &without, &e));
    if (!p.one_byte) {
        interleaved_weights_close(&i);
        model_close(&m);
        return;
    }
    struct backend *a = cpu_open_with(model_plan(m), &p, &with, &e),
                   *b = cpu_open_with(plan, &p, &with, &e);
    assert_non_null(a);
    assert_non_null(b);
    assert_null(strstr(cpu_backend.device_name(a), "interleaved weights"));
    assert_non_null(strstr(cpu_backend.device_name(b), "interleaved weights"));
    cpu_backend.content->format(a, mapped, sizeof mapped);
    cpu_backend.content->format(b, laid_out, sizeof laid_out);
    assert_string_equal(mapped, laid_out); /* the same bits */
    cpu_backend.close(&b);
    cpu_backend.close(&a);
    interleaved_weights_close(&i);
    model_close(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_what_fits),
        cmocka_unit_test_setup_teardown(test_plan, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(test_kernels_choose, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(test_ends, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(test_memory_is_freed, open_rig, close_rig),
        cmocka_unit_test(test_model),
        cmocka_unit_test(test_backends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
