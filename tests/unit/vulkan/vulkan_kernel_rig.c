/* Packs random matrices, and computes products and tolerances in double. */
#include "tests/unit/vulkan/vulkan_kernel_rig.h"

#include "engine/vulkan/ops/matrix_places.h"

struct rig rig;
unsigned seed = 1;

void expand(const struct weight *w, float *out)
{
    for (int k = 0; k < w->n_matrix; k++)
        for (int i = 0; i < w->rows; i++)
            weight_row_f32(w, k, i,
                           out + ((size_t)k * (size_t)w->rows + (size_t)i) * (size_t)w->cols);
}

void stack_init(struct stack *s, const struct weight_form *f, int n_matrix, const int *rows, int n,
                int cols)
{
    *s = (struct stack){.n = n, .cols = cols};
    for (int i = 0; i < n; i++) {
        random_weight_init(&s->part[i], f, n_matrix, rows[i], cols, 3, seed++);
        s->w[i] = &s->part[i].w;
        s->rows += n_matrix * rows[i];
    }
    s->at = malloc((size_t)s->rows * (size_t)cols * sizeof *s->at);
    for (int i = 0, at = 0; i < n; at += n_matrix * rows[i++])
        expand(s->w[i], s->at + (size_t)at * (size_t)cols);
    rig_upload(&rig, s->w, n, &s->m);
}

void stack_fini(struct stack *s)
{
    for (int i = 0; i < s->n; i++)
        random_weight_fini(&s->part[i]);
    free(s->at);
}

uint32_t padded(int n)
{
    return (uint32_t)(n + 31) / 32 * 32;
}

void randomize(float *at, int rows, int cols, uint32_t stride, float scale)
{
    for (int i = 0; i < rows; i++)
        for (int c = 0; c < cols; c++) {
            float v = random_unit(&seed);
            at[(size_t)i * stride + (size_t)c] =
                scale * (v < 0 ? v * 0.75f - 0.25f : v * 0.75f + 0.25f);
        }
}

struct sum product(const float *w, const float *x, const float *norm, double factor, int n)
{
    struct sum s = {0};
    for (int i = 0; i < n; i++) {
        double p = (double)w[i] * (double)x[i] * (norm ? (double)norm[i] * factor : 1);
        s.v += p;
        s.magnitude += fabs(p);
        s.square += p * p;
        s.sides += fabs((double)w[i]) + fabs((double)x[i] * (norm ? (double)norm[i] * factor : 1));
    }
    return s;
}

double rms_factor(const float *x, int n)
{
    double squares = 0;
    for (int i = 0; i < n; i++)
        squares += (double)x[i] * (double)x[i];
    return 1 / sqrt(squares / n + 1e-6);
}

double tolerance(const struct sum *s, bool halves)
{
    return F32_TOLERANCE * (s->magnitude + fabs(s->v) + 1) +
           (halves ? HALF_SIGMAS * HALF_ROUNDING * sqrt(2 * s->square) : 0);
}

bool close_to(double have, double want, double tol)
{
    return fabs(have - want) <= tol; /* false for NaN */
}

int cols_of(const struct weight_form *f, int steps)
{
    return f->cols_step > 1 ? f->cols_step * steps : steps == 1 ? 33 : 29 + 48 * steps;
}

bool takes(const struct weight_form *f, int i, int n)
{
    return !rig.b.gpu.caps.software || (f - weight_forms) % n == i;
}

static bool share_module(const struct weight_form *f, const struct weight_form *other)
{
    const bool apart = f->type == WEIGHT_MXFP4_BLOCK || other->type == WEIGHT_MXFP4_BLOCK;
    return f->type == WEIGHT_AFFINE
               ? other->type == WEIGHT_AFFINE
               : !apart && f->type >= WEIGHT_Q8_0 && other->type >= WEIGHT_Q8_0;
}

int turn_of(const struct weight_form *f)
{
    int turn = 0;
    if (!rig.b.gpu.caps.software || !share_module(f, f))
        return -1;
    for (const struct weight_form *other = weight_forms; other < f; other++)
        turn += share_module(f, other);
    return turn;
}

void both_ways(void (*check)(const struct weight_form *f), const struct weight_form *f)
{
    const bool units = rig.b.gpu.caps.cooperative_matrix;
    rig.b.gpu.caps.cooperative_matrix = false;
    check(f);
    rig.b.gpu.caps.cooperative_matrix = units;
    if (units)
        check(f);
}

/* Forms with a module without matrix units: one whose codes become halves by bits, one by small
 * whole numbers, one in f32. */
static const char *const emulated[] = {"mxfp4", "q8_0", "q4_k"};

static int emulated_of(const struct weight_form *f)
{
    for (int i = 0; i < 3; i++)
        if (strcmp(emulated[i], f->name) == 0)
            return i;
    return -1;
}

bool whole_tiles_begin(const struct weight_form *f)
{
    const struct gpu_caps *caps = &rig.b.gpu.caps;
    if (!caps->cooperative_matrix && (!caps->float16 || emulated_of(f) < 0))
        return false;
    rig.b.tuning.wide = caps->cooperative_matrix ? WIDE_UNITS : WIDE_EMULATED;
    rig.b.tuning.wide_groups = 1;
    rig.b.tuning.wide_rows = 32;
    return true;
}

void whole_tiles_end(void)
{
    rig.b.tuning.wide = WIDE_NONE;
}

bool takes_whole(const struct weight_form *f, int i)
{
    return rig.b.gpu.caps.cooperative_matrix || emulated_of(f) == i % 3;
}

bool few_rows_begin(const struct weight_form *f)
{
    const struct gpu_caps *caps = &rig.b.gpu.caps;
    struct err e = {0};
    bool known = false;
    if (!caps->cooperative_matrix && (!caps->float16 || caps->subgroup < 8 || emulated_of(f) < 0))
        return false;
    if (caps->cooperative_matrix && (!matrix_places_check(&rig.b.gpu, &known, &e) || !known))
        return false;
    rig.b.tuning.few = caps->cooperative_matrix ? WIDE_UNITS : WIDE_EMULATED;
    rig.b.tuning.few_rows = 32;
    rig.b.tuning.few_split_rows = 1;
    rig.b.tuning.few_threads = 64; /* columns in several turns */
    return true;
}

void few_rows_end(void)
{
    rig.b.tuning.few = WIDE_NONE;
}

float value_of_half(uint32_t h)
{
    const float m = (float)(h & 0x3ff), sign = h & 0x8000 ? -1 : 1;
    const int exponent = (int)(h >> 10 & 31);
    return sign * (exponent ? ldexpf(1024 + m, exponent - 25) : ldexpf(m, -24));
}

int units_place(int i)
{
    return i / 128 * 128 + (i / 8 % 4 * 4 + i / 32 % 4) * 8 + i % 4 * 2 + i / 4 % 2;
}

void to_units_order(uint32_t *halves, int n, int d)
{
    uint16_t row[1024];
    assert_true(d % 128 == 0 && d <= 1024);
    for (int t = 0; t < n; t++) {
        uint16_t *at = (uint16_t *)halves + (size_t)t * (size_t)d;
        memcpy(row, at, (size_t)d * sizeof *row);
        for (int i = 0; i < d; i++)
            at[units_place(i)] = row[i];
    }
}

void check_cast_row(const float *row, const float *norm, int d, const uint32_t *halves, int first,
                    bool units)
{
    const double factor = rms_factor(row, d);
    for (int i = 0; i < d; i++) {
        const int at = first + (units ? units_place(i) : i);
        const double want = (double)row[i] * (double)norm[i] * factor,
                     have = (double)value_of_half(halves[at / 2] >> (at % 2 * 16));
        assert_true(close_to(have, want, 1e-3 * fabs(want) + 1e-6));
    }
}

uint32_t check_lists(const int32_t *ids, const uint32_t *counts, const uint32_t *lists,
                     int n_expert, int places)
{
    uint32_t listed = 0;
    for (int e = 0; e < n_expert; e++)
        for (uint32_t i = 0; i < counts[e]; i++, listed++)
            assert_int_equal(ids[lists[e * places + (int)i]], e);
    return listed;
}
