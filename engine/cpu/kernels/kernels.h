/* The inner loops that exist once per instruction set: generic (plain C, the specification), avx2,
 * avx512, avx512vnni. Everything above them is plain C and written once. A table is chosen at open
 * by what the CPU reports; tests run all that this CPU has.
 *
 * Rule of all of them: what is computed for one row of activations is the same, bit for bit,
 * whatever other rows are passed along. Thread-safe: no kernel keeps state. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/err.h"
#include "engine/cpu/panel/panel.h"
#include "engine/model/kv_type.h"
#include "engine/model/plan.h"

#define KERNEL_MAX_LANES 16
#define KERNEL_MAX_TILE_ROWS 64 /* activation rows of one tile call */

struct tile { /* `lanes` rows of one matrix, starting at `row`, times some rows of a panel; and as
                 many times `lanes` rows behind them as `more` says, in the same way */
    const struct weight *weight;
    int32_t matrix, row; /* rows past the last are computed as copies of the last; drop them */
    const struct panel *panel;
    const int32_t *index; /* the panel's rows, or NULL: first, first + 1, ... */
    int32_t first, n;
    int32_t more; /* n * (1 + more) <= KERNEL_MAX_TILE_ROWS */
    /* The same matrix's rows or another's like it, which come next: many rows of activations have
     * them fetched meanwhile. NULL: those behind these */
    const uint8_t *ahead;
};

struct kv_view { /* one attention layer's storage, keys and values of all blocks: kv_layout.h */
    void *data;
    size_t block_bytes; /* stride of a block */
    int32_t n_kv_head, d_head;
    enum kv_type type; /* as stored */
};

#define ATTEND_SPAN 8                        /* blocks whose scores are held at a time, */
#define ATTEND_SCORES (8 * ATTEND_SPAN * 32) /* for eight heads */

struct attend { /* the query heads that share one kv head, of one row */
    const struct kv_view *kv;
    const int32_t *blocks; /* the sequence's block table */
    int32_t kv_head;
    int32_t from, to; /* positions from <= p < to are seen */
    int32_t n_query;  /* heads */
    const float *q;   /* [n_query, d_head], stride q_stride */
    size_t q_stride;
    float scale;
    const float *sinks; /* [n_query] or NULL */
    float *out;         /* [n_query, d_head], stride out_stride */
    size_t out_stride;
    float *scores; /* scratch [ATTEND_SCORES] */
};

#define ATTEND_ROWS 8          /* rows of attend_rows, */
#define ATTEND_QUERIES 64      /* heads of all of them, */
#define ATTEND_WIDEST_HEAD 256 /* and dimensions of a head, at most */
#define ATTEND_ROWS_SCORES (ATTEND_QUERIES * ATTEND_SPAN * 32)

struct attend_rows {       /* successive rows of one sequence */
    struct attend first;   /* of the first row; scores: scratch [ATTEND_ROWS_SCORES] */
    int32_t n;             /* rows; each sees one position more than the one before, */
    bool level;            /* or all of them the same ones */
    int32_t window;        /* positions that a row sees at most; 0: all from first.from on */
    size_t q_row, out_row; /* strides of rows */
    float *block;          /* scratch [32 * ATTEND_WIDEST_HEAD] */
};

#define CONVOLUTION_MAX_TAPS 3 /* inputs before the newest */

struct convolution {     /* causal and depthwise over n rows of one sequence, then silu, in place */
    const float *weight; /* [channels, n_taps + 1], the newest input's last */
    float *past; /* [n_taps, past_stride]: the inputs before, oldest first; becomes the last ones */
    float *values; /* [n, stride], of which `channels` are taken */
    size_t past_stride, stride;
    int32_t n_taps, channels, n;
};

struct delta_scan {         /* gated delta rule of one value head over n rows of one sequence, see
                               delta_net.c */
    float *state;           /* [d_k, d_v] */
    const float *q, *k, *v; /* [n, d_k], [n, d_k], [n, d_v] */
    size_t stride;          /* of all three */
    const float *decay, *strength; /* [n], stride gate_stride */
    size_t gate_stride;
    float *out; /* [n, d_v] */
    size_t out_stride;
    int32_t d_k, d_v, n;
};

struct kernels {
    const char *name;
    int32_t lanes;  /* weight rows per tile */
    bool half_kv;   /* attention reads f16 keys and values at full speed */
    unsigned kinds; /* all forms of a panel that these read */
    /* Those that `tile` reads for this weight. exact: f32 activations, whatever the weight. */
    unsigned (*panel_kinds)(const struct weight *w, bool exact);
    /* The same for activations of one byte; NULL, or 0 for a weight: as above. All of them. */
    unsigned (*byte_kinds)(const struct weight *w);
    unsigned all_byte_kinds;
    /* Whether `tile` reads this weight interleaved too, with activations of one byte; NULL: none.
     */
    bool (*reads_interleaved)(const struct weight *w);
    /* Writes row `row` of a panel, all forms in p->kinds, from x [cols]. */
    void (*pack)(struct panel *p, int32_t row, const float *x);
    /* acc [1 + more, n, lanes] (64-byte aligned) = rows of the weight times rows of the panel. */
    void (*tile)(const struct tile *t, bool exact, float *acc);
    /* out = x / sqrt(mean(x^2) + eps) * weight; out may be x. */
    void (*rms_norm)(const float *x, const float *weight, float eps, int32_t n, float *out);
    /* out = (x - mean) / sqrt(variance + eps) * weight + bias; out may be x. */
    void (*layer_norm)(const struct layer_norm_plan *p, const float *x, float eps, int32_t n,
                       float *out);
    /* v *= factor / sqrt(sum of v^2 + 1e-6) */
    void (*l2_normalize)(float *v, int32_t n, float factor);
    void (*convolve)(const struct convolution *c);
    void (*delta_scan)(const struct delta_scan *s);
    /* gate = activation(gate, up); ACT_GELU reads no up */
    void (*activate)(enum activation a, float *gate, const float *up, int32_t n);
    /* Rotates a head as packed types are stored (kv_type.h), and back. */
    void (*rotate)(float *head, int32_t d_head);
    /* Packed types: k and v as they were projected, q of attend rotated, what attend gives too. */
    void (*store_kv)(const struct kv_view *kv, int32_t block, int32_t slot, int32_t head,
                     const float *k, const float *v);
    void (*attend)(const struct attend *a);
    /* The same, bit for bit, for rows of f16 or f32 keys and values; NULL: one after the other. */
    void (*attend_rows)(const struct attend_rows *a);
    /* to += weight * from, rounded after the product and after the sum */
    void (*add_scaled)(float *to, const float *from, float weight, int32_t n);
    float (*max)(const float *x, int32_t n);
    /* sum of exp(x - top) */
    float (*sum_exp)(const float *x, int32_t n, float top);
};

/* Forms of a panel that `tile` reads for this weight, PANEL_ONE_BYTE among them where that is so.
 */
static inline unsigned kernels_panel_kinds(const struct kernels *k, const struct weight *w,
                                           bool exact, bool one_byte)
{
    const unsigned kinds = k->panel_kinds(w, exact),
                   own = one_byte && k->byte_kinds ? k->byte_kinds(w) : 0u;
    return !one_byte || kinds == PANEL_F32 ? kinds : (own ? own : kinds) | PANEL_ONE_BYTE;
}

extern const struct kernels kernels_generic;
/* Present where the build has them and the CPU can run them; NULL after the last. Best first;
 * generic last. */
const struct kernels *kernels_available(int i);
/* What backends open with: the first of them, unless one was chosen. */
const struct kernels *kernels_best(void);
/* Measurements only: chooses one by its name for the rest of the process. To be called before any
 * backend is opened. ERR_INPUT where the build or the CPU has none of that name. */
bool kernels_choose(const char *name, struct err *e);
