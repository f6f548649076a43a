/* Finds tensors by name, checks their shapes and types, and makes views of them as a plan's
 * weights. Everything that is missing is collected, so that one error names it together. */
#include "engine/model/bind.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "engine/format/weight_bits.h"
#include "engine/format/weight_block.h"
#include "engine/model/tensor_manifest.h"

#define PATH_SIZE 256

static const char *const prefixes[][2] = {{"model.", ""},
                                          {"language_model.model.", "language_model."},
                                          {"model.language_model.", ""},
                                          {"", ""}};
/* An encoder has no norm at its end: its embedding tells where it lies. */
static const char *const encoder_prefixes[] = {"", "bert.", "roberta."};

void bind_init(struct binder *b, struct tensor_table *tensors, const struct config *c,
               struct arena *arena)
{
    *b = (struct binder){.tensors = tensors,
                         .config = c,
                         .arena = arena,
                         .gguf = c->gguf != NULL,
                         .layer = -1,
                         .model_prefix = "model.",
                         .head_prefix = "",
                         .layer_word = "layers"};
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes && !b->gguf; i++) {
        char path[PATH_SIZE];
        snprintf(path, sizeof path, "%snorm.weight", prefixes[i][0]);
        if (tensor_table_find(tensors, path)) {
            b->model_prefix = prefixes[i][0];
            b->head_prefix = prefixes[i][1];
            return;
        }
    }
    for (size_t i = 0; i < sizeof encoder_prefixes / sizeof *encoder_prefixes && !b->gguf; i++) {
        char path[PATH_SIZE];
        snprintf(path, sizeof path, "%sembeddings.word_embeddings.weight", encoder_prefixes[i]);
        if (tensor_table_find(tensors, path)) {
            b->model_prefix = encoder_prefixes[i];
            b->layer_word = "encoder.layer";
            return;
        }
    }
}

bool bind_fail(struct binder *b, enum err_code code, const char *tensor, const char *fmt, ...)
{
    if (b->failed)
        return false;
    char text[256];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    b->failed = true;
    return err_field(&b->failure, code, tensor, "%s", text);
}

bool bind_finish(const struct binder *b, struct err *e)
{
    if (b->failed) {
        if (e)
            *e = b->failure;
        return false;
    }
    if (b->n_missing)
        return err_set(e, ERR_FORMAT, "%d tensor%s missing: %s%s", b->n_missing,
                       b->n_missing > 1 ? "s" : "", b->missing,
                       b->n_missing > 1 && strlen(b->missing) > sizeof b->missing - 64 ? ", ..."
                                                                                       : "");
    return true;
}

/* Full path of alternative `name` (which ends at '|' or NUL). */
static void full_path(const struct binder *b, const char *name, char *path)
{
    int len = (int)strcspn(name, "|");
    bool head = b->outside || !strncmp(name, "lm_head", 7);
    if (b->gguf && b->layer >= 0)
        snprintf(path, PATH_SIZE, "blk.%d.%.*s", b->layer, len, name);
    else if (b->gguf)
        snprintf(path, PATH_SIZE, "%.*s", len, name);
    else if (b->layer >= 0)
        snprintf(path, PATH_SIZE, "%s%s.%d.%.*s", b->model_prefix, b->layer_word, b->layer, len,
                 name);
    else
        snprintf(path, PATH_SIZE, "%s%.*s", head ? b->head_prefix : b->model_prefix, len, name);
}

static struct tensor *find_module(const struct binder *b, const char *path)
{
    char full[PATH_SIZE + 16];
    snprintf(full, sizeof full, "%s.weight", path);
    struct tensor *t = tensor_table_find(b->tensors, full);
    return t ? t : tensor_table_find(b->tensors, path);
}

static struct tensor *find_any(const struct binder *b, struct names n, char *path)
{
    const char *name = b->gguf ? n.gguf : n.hf;
    while (name && *name) {
        full_path(b, name, path);
        struct tensor *t = find_module(b, path);
        if (t)
            return t;
        name += strcspn(name, "|");
        name += *name == '|';
    }
    return NULL;
}

bool bind_has(const struct binder *b, struct names n)
{
    char path[PATH_SIZE];
    return find_any(b, n, path) != NULL;
}

struct tensor *bind_find(struct binder *b, struct names n, char *path, size_t size)
{
    char own[PATH_SIZE];
    struct tensor *t = find_any(b, n, own);
    if (t)
        t->used = true;
    if (path)
        snprintf(path, size, "%s", t ? own : "");
    return t;
}

void bind_missing(struct binder *b, struct names n)
{
    char path[PATH_SIZE] = "?";
    const char *name = b->gguf ? n.gguf : n.hf;
    if (name)
        full_path(b, name, path);
    size_t at = strlen(b->missing), room = sizeof b->missing - at;
    if (strlen(path) + 16 < room)
        snprintf(b->missing + at, room, "%s%.*s", at ? ", " : "", (int)room - 3, path);
    b->n_missing++;
}

/* Notes what is asked for, under its first name. Parameters that are no module's weight (biases,
 * sinks, ...) are those whose last part says so. */
static void note(struct binder *b, struct names n, struct tensor_manifest_item item)
{
    static const char *const bare[] = {".bias",    ".sinks",       ".A_log",
                                       ".dt_bias", ".expert_bias", ".e_score_correction_bias",
                                       ".ssm_a"};
    char path[PATH_SIZE];
    const char *name = b->gguf ? n.gguf : n.hf;
    if (!name)
        return;
    full_path(b, name, path);
    size_t len = strlen(path);
    item.path = path;
    item.layer = b->layer;
    item.has_weight = true;
    for (size_t i = 0; i < sizeof bare / sizeof *bare; i++)
        if (len > strlen(bare[i]) && !strcmp(path + len - strlen(bare[i]), bare[i]))
            item.has_weight = false;
    if (!tensor_manifest_add(b->manifest, &item))
        bind_fail(b, ERR_NOMEM, path, "no memory for the manifest of tensors");
}

/* "[n_matrix,] rows, cols" against the tensor; a plain matrix of one row may be a vector. */
static bool shape_is(const struct tensor *t, int32_t n_matrix, int64_t rows, int64_t cols)
{
    if (n_matrix == 0 && rows == 1 && t->n_dims == 1)
        return t->dims[0] == cols;
    int at = n_matrix ? 1 : 0;
    return t->n_dims == at + 2 && (!n_matrix || t->dims[0] == n_matrix) && t->dims[at] == rows &&
           t->dims[at + 1] == cols;
}

bool bind_want_shape(struct binder *b, const struct tensor *t, int32_t n_matrix, int64_t rows,
                     int64_t cols)
{
    if (shape_is(t, n_matrix, rows, cols))
        return true;
    char shape[128];
    tensor_shape_text(t, shape, sizeof shape);
    if (n_matrix)
        return bind_fail(b, ERR_FORMAT, t->name,
                         "tensor %s is %s %s, want [%d, %" PRId64 ", %" PRId64 "]", t->name,
                         t->type_name, shape, n_matrix, rows, cols);
    return bind_fail(b, ERR_FORMAT, t->name, "tensor %s is %s %s, want [%" PRId64 ", %" PRId64 "]",
                     t->name, t->type_name, shape, rows, cols);
}

static struct tensor *find_part(struct binder *b, const char *path, const char *part)
{
    char full[PATH_SIZE + 16];
    snprintf(full, sizeof full, "%s.%s", path, part);
    struct tensor *t = tensor_table_find(b->tensors, full);
    if (t)
        t->used = true;
    return t;
}

/* The scales (or biases) plane of a quantized module. */
static bool take_plane(struct binder *b, const struct weight *w, const struct tensor *t,
                       int32_t n_matrix, const void **plane)
{
    static const enum tensor_type types[] = {TENSOR_BF16, TENSOR_F16, TENSOR_F32, TENSOR_U8};
    if (t->type != types[w->scale_type])
        return bind_fail(b, ERR_FORMAT, t->name,
                         "tensor %s is %s, which does not fit its module's quantization", t->name,
                         t->type_name);
    *plane = t->data;
    return bind_want_shape(b, t, n_matrix, w->rows, w->cols / w->group);
}

static bool scale_type_of(const struct tensor *t, enum scale_type *type)
{
    *type = t->type == TENSOR_F32 ? SCALE_F32 : t->type == TENSOR_F16 ? SCALE_F16 : SCALE_BF16;
    return t->type == TENSOR_F32 || t->type == TENSOR_F16 || t->type == TENSOR_BF16;
}

/* An MLX-quantized module: weight words, scales and perhaps biases. */
static bool view_quantized(struct binder *b, struct weight *w, const struct tensor *t,
                           const char *path, int32_t n_matrix)
{
    struct quantization q;
    struct err e = {0};
    if (!config_quantization(b->config, path, &q, &e))
        return bind_fail(b, e.code, t->name, "%s", e.text);
    const struct tensor *scales = find_part(b, path, "scales");
    if (!scales)
        return bind_fail(b, ERR_FORMAT, t->name, "tensor %s is packed, but %s.scales is missing",
                         t->name, path);
    if (q.mode == QUANT_NONE)
        return bind_fail(b, ERR_FORMAT, t->name,
                         "tensor %s is packed, but config.json has no quantization for it",
                         t->name);
    w->bits = q.bits;
    w->group = q.group;
    if (w->cols % q.group || w->cols * (int64_t)q.bits % 32)
        return bind_fail(b, ERR_FORMAT, t->name,
                         "tensor %s: %d columns do not divide into groups of %d", t->name, w->cols,
                         q.group);
    if (!bind_want_shape(b, t, n_matrix, w->rows, w->cols * (int64_t)q.bits / 32))
        return false;
    w->type = q.mode == QUANT_MXFP4 ? WEIGHT_MXFP4 : WEIGHT_AFFINE;
    w->scale_type = SCALE_E8M0;
    if (q.mode == QUANT_AFFINE && !scale_type_of(scales, &w->scale_type))
        return bind_fail(b, ERR_FORMAT, scales->name, "tensor %s is %s, affine scales are floats",
                         scales->name, scales->type_name);
    if (!take_plane(b, w, scales, n_matrix, &w->scales))
        return false;
    if (q.mode == QUANT_MXFP4)
        return true;
    const struct tensor *biases = find_part(b, path, "biases");
    if (!biases)
        return bind_fail(b, ERR_FORMAT, t->name, "tensor %s: %s.biases is missing", t->name, path);
    return take_plane(b, w, biases, n_matrix, &w->biases);
}

static bool view_plain(struct binder *b, struct weight *w, const struct tensor *t, int32_t n_matrix)
{
    switch (t->type) {
    case TENSOR_F32:
        w->type = WEIGHT_F32;
        break;
    case TENSOR_F16:
        w->type = WEIGHT_F16;
        break;
    case TENSOR_BF16:
        w->type = WEIGHT_BF16;
        break;
    case TENSOR_BLOCK:
        w->type = t->block;
        if (w->cols % weight_block_cols(w->type))
            return bind_fail(b, ERR_FORMAT, t->name,
                             "tensor %s: %d columns do not divide into blocks of %d", t->name,
                             w->cols, weight_block_cols(w->type));
        break;
    default:
        return bind_fail(b, ERR_UNSUPPORTED, t->name,
                         "tensor %s is %s, which is not read as a weight", t->name, t->type_name);
    }
    return bind_want_shape(b, t, n_matrix, w->rows, w->cols);
}

static void set_strides(struct weight *w)
{
    w->row_bytes = weight_row_size(w);
    w->scale_row_bytes = weight_scale_row_size(w);
    w->matrix_bytes = w->row_bytes * (size_t)w->rows;
    w->scale_matrix_bytes = w->scale_row_bytes * (size_t)w->rows;
}

/* n_matrix 0: a plain matrix; else a stack. */
static void bind_view(struct binder *b, struct weight *w, struct names n, int32_t n_matrix,
                      struct row_slice s)
{
    char path[PATH_SIZE];
    if (b->manifest) {
        note(b, n,
             (struct tensor_manifest_item){.n_matrix = n_matrix, .rows = s.of, .cols = w->cols});
        return;
    }
    struct tensor *t = bind_find(b, n, path, sizeof path);
    if (!t) {
        bind_missing(b, n);
        return;
    }
    int32_t rows = w->rows;
    w->rows = s.of;
    w->n_matrix = n_matrix ? n_matrix : 1;
    w->data = t->data;
    w->name = t->name;
    if (!(t->type == TENSOR_U32 ? view_quantized(b, w, t, path, n_matrix)
                                : view_plain(b, w, t, n_matrix)))
        return;
    set_strides(w);
    w->rows = rows;
    w->data = (const uint8_t *)w->data + (size_t)s.first * w->row_bytes;
    if (w->scales)
        w->scales = (const uint8_t *)w->scales + (size_t)s.first * w->scale_row_bytes;
    if (w->biases)
        w->biases = (const uint8_t *)w->biases + (size_t)s.first * w->scale_row_bytes;
    w->row_bytes *= (size_t)s.step;
    w->scale_row_bytes *= (size_t)s.step;
}

void bind_stack(struct binder *b, struct weight *w, struct names n, const struct stack_shape *s)
{
    *w = (struct weight){.rows = s->rows, .cols = s->cols};
    bind_view(b, w, n, s->n_matrix, s->slice.of ? s->slice : (struct row_slice){0, 1, s->rows});
}

void bind_matrix(struct binder *b, struct weight *w, struct names n, int32_t rows, int32_t cols)
{
    bind_stack(b, w, n, &(struct stack_shape){.rows = rows, .cols = cols});
}

static bool copy_f32(struct binder *b, const struct tensor *t, float *out,
                     const struct row_slice *s, int32_t count)
{
    int32_t each = s->of / s->step; /* taken of each run */
    for (int32_t i = 0; i < count; i++) {
        size_t from = (size_t)(i / each) * (size_t)s->of + (size_t)s->first +
                      (size_t)(i % each) * (size_t)s->step;
        const uint8_t *at = t->data + from * (t->type == TENSOR_F32 ? 4 : 2);
        out[i] = t->type == TENSOR_F32   ? f32_from_bits(load_u32(at))
                 : t->type == TENSOR_F16 ? f16_to_f32(load_u16(at))
                                         : bf16_to_f32(load_u16(at));
        if (!isfinite(out[i]))
            return bind_fail(b, ERR_FORMAT, t->name, "tensor %s: value %zu is not finite", t->name,
                             from);
    }
    return true;
}

static void bind_values(struct binder *b, struct vector *v, struct names n,
                        const struct vector_slices *s)
{
    int64_t total = (int64_t)s->n_runs * s->slice.of; /* values in the file */
    int32_t count = s->n_runs * s->count;
    *v = (struct vector){0};
    struct tensor *t = bind_find(b, n, NULL, 0);
    if (!t)
        return;
    char shape[128];
    if (tensor_count(t->dims, t->n_dims) != total) {
        bind_fail(b, ERR_FORMAT, t->name, "tensor %s is %s, want %d values", t->name,
                  tensor_shape_text(t, shape, sizeof shape), (int)total);
        return;
    }
    if (t->type != TENSOR_F32 && t->type != TENSOR_F16 && t->type != TENSOR_BF16) {
        bind_fail(b, ERR_UNSUPPORTED, t->name, "tensor %s is %s, want f32, f16 or bf16", t->name,
                  t->type_name);
        return;
    }
    float *copy = arena_alloc(b->arena, (size_t)count * sizeof *copy);
    if (!copy)
        bind_fail(b, ERR_NOMEM, t->name, "no memory for tensor %s", t->name);
    else if (copy_f32(b, t, copy, &s->slice, count))
        *v = (struct vector){copy, count};
}

void bind_vector_optional(struct binder *b, struct vector *v, struct names n, int32_t count)
{
    bind_values(b, v, n,
                &(struct vector_slices){.n_runs = 1, .count = count, .slice = {0, 1, count}});
}

void bind_vector_slices(struct binder *b, struct vector *v, struct names n,
                        const struct vector_slices *s)
{
    if (b->manifest)
        note(b, n,
             (struct tensor_manifest_item){.is_vector = true, .cols = s->n_runs * s->slice.of});
    else if (bind_has(b, n))
        bind_values(b, v, n, s);
    else
        bind_missing(b, n);
}

void bind_vector(struct binder *b, struct vector *v, struct names n, int32_t count)
{
    if (b->manifest)
        note(b, n, (struct tensor_manifest_item){.is_vector = true, .cols = count});
    else if (bind_has(b, n))
        bind_vector_optional(b, v, n, count);
    else
        bind_missing(b, n);
}

void bind_mlp(struct binder *b, struct mlp_plan *m, struct names n, int32_t d_ff, int32_t d_model)
{
    char hf[3][64], gguf[3][64];
    static const char *const projections[] = {"gate", "up", "down"};
    for (int i = 0; i < 3; i++) {
        snprintf(hf[i], sizeof hf[i], "%s.%s_proj", n.hf, projections[i]);
        snprintf(gguf[i], sizeof gguf[i], "ffn_%s%s", projections[i], n.gguf);
    }
    m->d_ff = d_ff;
    bind_matrix(b, &m->gate, (struct names){hf[0], gguf[0]}, d_ff, d_model);
    bind_matrix(b, &m->up, (struct names){hf[1], gguf[1]}, d_ff, d_model);
    bind_matrix(b, &m->down, (struct names){hf[2], gguf[2]}, d_model, d_ff);
}
