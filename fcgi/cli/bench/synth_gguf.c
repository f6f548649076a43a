/* Writes a synthetic model as one GGUF file: metadata, tensor table, then random blocks. Container:
 * https://github.com/ggml-org/ggml/blob/master/docs/gguf.md; blocks: ggml-common.h. */
#include "fcgi/cli/bench/synth_gguf.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/buf.h"
#include "engine/base/file.h"
#include "engine/format/gguf.h"
#include "engine/format/weight_block.h"
#include "engine/model/tensor_manifest.h"
#include "fcgi/cli/bench/synth.h"

#define ALIGNMENT 32
#define CHUNK_BLOCKS 4096

/* A format: ggml's number, where its f16 scales lie, and what turns a wanted deviation into them.
 * `flat` bytes take the place of random block scales, so that values are centred; `unit` is the
 * deviation of a value at scale 1 and `middle` what the minimum must take away, in units of the
 * scale. */
static const struct block {
    const char *name;
    uint32_t number;
    enum weight_type type; /* NONE: plain values */
    enum synth_type plain;
    int scale_at, min_at; /* offsets of f16 scale and minimum; -1: none */
    int flat_at, flat_n;
    uint8_t flat;
    double unit, middle;
} blocks[] = {
    {"f32", 0, WEIGHT_NONE, SYNTH_F32, -1, -1, 0, 0, 0, 1, 0},
    {"f16", 1, WEIGHT_NONE, SYNTH_F16, -1, -1, 0, 0, 0, 1, 0},
    {"bf16", 30, WEIGHT_NONE, SYNTH_BF16, -1, -1, 0, 0, 0, 1, 0},
    {"q8_0", 8, WEIGHT_Q8_0, 0, 0, -1, 0, 0, 0, 73.9, 0},
    {"q4_0", 2, WEIGHT_Q4_0, 0, 0, -1, 0, 0, 0, 4.61, 0},
    {"q4_1", 3, WEIGHT_Q4_1, 0, 0, 2, 0, 0, 0, 4.61, -7.5},
    {"q5_0", 6, WEIGHT_Q5_0, 0, 0, -1, 0, 0, 0, 9.23, 0},
    {"q5_1", 7, WEIGHT_Q5_1, 0, 0, 2, 0, 0, 0, 9.23, -15.5},
    {"q2_k", 10, WEIGHT_Q2_K, 0, 80, 82, 0, 16, 0x88, 8 * 1.118, 1.5},
    {"q3_k", 11, WEIGHT_Q3_K, 0, 108, -1, 0, 0, 0, 18.5 * 2.3, 0},
    {"q4_k", 12, WEIGHT_Q4_K, 0, 0, 2, 4, 8, 0xa0, 32 * 4.61, 7.5},
    {"q5_k", 13, WEIGHT_Q5_K, 0, 0, 2, 4, 8, 0xa0, 32 * 9.23, 15.5},
    {"q6_k", 14, WEIGHT_Q6_K, 0, 208, -1, 192, 16, 32, 32 * 18.5, 0},
    {"iq4_nl", 20, WEIGHT_IQ4_NL, 0, 0, -1, 0, 0, 0, 68, 0},
    {"iq4_xs", 23, WEIGHT_IQ4_XS, 0, 0, -1, 0, 0, 0, 18.5 * 68, 0},
    {"mxfp4", 39, WEIGHT_MXFP4_BLOCK, 0, -1, -1, 0, 0, 0, 2.926, 0},
};

static const struct block *block_named(const char *name)
{
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++)
        if (!strcmp(blocks[i].name, name))
            return &blocks[i];
    return NULL;
}

/* --- which tensor gets which format --- */

static bool contains(const char *path, const char *part)
{
    return strstr(path, part) != NULL;
}

/* The mixture that llama.cpp calls Q4_K_M keeps 6 bits where errors cost most. */
static bool wants_more_bits(const char *path, int32_t layer, int32_t n_layer)
{
    int32_t eighth = n_layer / 8;
    if (!contains(path, "ffn_down") && !contains(path, "attn_v"))
        return false;
    return layer < eighth || layer >= 7 * eighth || (layer - eighth) % 3 == 2;
}

/* What does not divide into blocks of 256 falls back as llama.cpp's quantizer does. */
static const struct block *fitting(const struct block *b, int32_t cols)
{
    if (b->type == WEIGHT_NONE || cols % weight_block_cols(b->type) == 0)
        return b;
    b = block_named(b->type == WEIGHT_Q6_K ? "q8_0" : b->type == WEIGHT_Q5_K ? "q5_1" : "q5_0");
    return cols % 32 ? block_named("f16") : b;
}

static const struct block *format_of(const char *format, const struct tensor_manifest_item *item,
                                     int32_t n_layer)
{
    const char *base = format + strlen("gguf-");
    if (item->is_vector || contains(item->path, "ffn_gate_inp"))
        return block_named("f32");
    if (!strcmp(base, "mxfp4"))
        return fitting(block_named(item->n_matrix ? "mxfp4" : "q8_0"), item->cols);
    if (strcmp(base, "q4_k_m"))
        return fitting(block_named(base), item->cols);
    bool more = item->layer < 0 ? !strcmp(item->path, "output")
                                : wants_more_bits(item->path, item->layer, n_layer);
    return fitting(block_named(more ? "q6_k" : "q4_k"), item->cols);
}

static uint64_t values_of(const struct tensor_manifest_item *item)
{
    if (item->is_vector)
        return (uint64_t)item->cols;
    return (uint64_t)(item->n_matrix ? item->n_matrix : 1) * (uint64_t)item->rows *
           (uint64_t)item->cols;
}

static uint64_t bytes_of(const struct block *b, const struct tensor_manifest_item *item)
{
    uint64_t n = values_of(item);
    if (b->type == WEIGHT_NONE)
        return n * (b->plain == SYNTH_F32 ? 4 : 2);
    return n / (uint64_t)weight_block_cols(b->type) * weight_block_size(b->type);
}

/* --- the header --- */

static void put_u32(struct buf *b, uint32_t v)
{
    uint8_t at[4] = {(uint8_t)v, (uint8_t)(v >> 8), (uint8_t)(v >> 16), (uint8_t)(v >> 24)};
    buf_append(b, at, sizeof at);
}

static void put_u64(struct buf *b, uint64_t v)
{
    put_u32(b, (uint32_t)v);
    put_u32(b, (uint32_t)(v >> 32));
}

static void put_string(struct buf *b, const char *s)
{
    put_u64(b, strlen(s));
    buf_puts(b, s);
}

struct meta {
    struct buf out;
    const char *arch;
    uint64_t n;
};

/* A key that begins with '/' has no architecture in front. */
static void put_key(struct meta *m, const char *key, enum gguf_type type)
{
    char full[128];
    snprintf(full, sizeof full, "%s%s%s", key[0] == '/' ? "" : m->arch, key[0] == '/' ? "" : ".",
             key + (key[0] == '/'));
    put_string(&m->out, full);
    put_u32(&m->out, type);
    m->n++;
}

static void meta_int(struct meta *m, const char *key, int64_t v)
{
    put_key(m, key, GGUF_U32);
    put_u32(&m->out, (uint32_t)v);
}

static void meta_float(struct meta *m, const char *key, float v)
{
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    put_key(m, key, GGUF_F32);
    put_u32(&m->out, bits);
}

static void meta_string(struct meta *m, const char *key, const char *v)
{
    put_key(m, key, GGUF_STRING);
    put_string(&m->out, v);
}

static void meta_usual(struct meta *m, const struct synth_shape *s)
{
    meta_string(m, "/general.architecture", m->arch);
    meta_string(m, "/general.name", "sluice synth: random weights");
    meta_string(m, "/tokenizer.ggml.model", "none");
    meta_int(m, "block_count", s->layers);
    meta_int(m, "context_length", s->context);
    meta_int(m, "embedding_length", s->hidden);
    meta_int(m, "vocab_size", s->vocab);
    meta_int(m, "attention.head_count", s->heads);
    meta_int(m, "attention.head_count_kv", s->kv_heads);
    meta_int(m, "attention.key_length", s->head_dim);
    meta_int(m, "attention.value_length", s->head_dim);
    meta_int(m, "feed_forward_length",
             s->dense_inter ? s->dense_inter : s->inter * (s->top_k ? s->top_k : 1));
    if (!s->experts)
        return;
    meta_int(m, "expert_count", s->experts);
    meta_int(m, "expert_used_count", s->top_k);
    meta_int(m, "expert_feed_forward_length", s->inter);
}

static void meta_rope(struct meta *m, float base, float eps, int64_t dims)
{
    meta_float(m, "rope.freq_base", base);
    meta_float(m, "attention.layer_norm_rms_epsilon", eps);
    meta_int(m, "rope.dimension_count", dims);
}

static void meta_plain(struct meta *m, const struct synth_shape *s)
{
    meta_rope(m, 1e6f, 1e-6f, s->head_dim);
}

static void meta_qwen3_5_moe(struct meta *m, const struct synth_shape *s)
{
    static const uint32_t sections[4] = {11, 11, 10, 0};
    meta_rope(m, 1e7f, 1e-6f, s->head_dim / 4);
    put_key(m, "rope.dimension_sections", GGUF_ARRAY);
    put_u32(&m->out, GGUF_I32);
    put_u64(&m->out, 4);
    for (int i = 0; i < 4; i++)
        put_u32(&m->out, sections[i]);
    meta_int(m, "expert_shared_feed_forward_length", s->shared_inter);
    meta_int(m, "ssm.conv_kernel", 4);
    meta_int(m, "ssm.state_size", s->linear_dim);
    meta_int(m, "ssm.group_count", s->linear_k_heads);
    meta_int(m, "ssm.time_step_rank", s->linear_v_heads);
    meta_int(m, "ssm.inner_size", s->linear_v_heads * s->linear_dim);
    meta_int(m, "full_attention_interval", 4);
}

static void meta_bailing(struct meta *m, const struct synth_shape *s)
{
    meta_rope(m, 6e5f, 1e-6f, s->head_dim / 2);
    meta_int(m, "leading_dense_block_count", s->dense_layers);
    meta_int(m, "expert_shared_count", s->inter ? s->shared_inter / s->inter : 0);
    meta_int(m, "expert_shared_feed_forward_length", s->inter); /* of one */
    meta_int(m, "expert_group_count", s->groups ? s->groups : 1);
    meta_int(m, "expert_group_used_count", s->groups_used ? s->groups_used : 1);
    meta_int(m, "expert_gating_func", 2);
    meta_float(m, "expert_weights_scale", 2.5f);
    put_key(m, "expert_weights_norm", GGUF_BOOL);
    buf_putc(&m->out, 1);
    meta_int(m, "nextn_predict_layers", 0);
}

static void meta_gpt_oss(struct meta *m, const struct synth_shape *s)
{
    meta_rope(m, 150000, 1e-5f, s->head_dim);
    meta_string(m, "rope.scaling.type", "yarn");
    meta_float(m, "rope.scaling.factor", 32);
    meta_int(m, "rope.scaling.original_context_length", 4096);
    meta_float(m, "rope.scaling.yarn_beta_fast", 32);
    meta_float(m, "rope.scaling.yarn_beta_slow", 1);
    meta_int(m, "attention.sliding_window", s->window ? s->window : 128);
}

static const struct family_meta {
    const char *family, *arch;
    void (*put)(struct meta *m, const struct synth_shape *s);
} families[] = {
    {"qwen3_moe", "qwen3moe", meta_plain},
    {"qwen3_5_moe", "qwen35moe", meta_qwen3_5_moe},
    {"bailing_moe", "bailingmoe2", meta_bailing},
    {"gpt_oss", "gpt-oss", meta_gpt_oss},
    {"qwen3", "qwen3", meta_plain},
    {"llama", "llama", meta_plain},
};

/* Dimensions, fastest first. llama.cpp wants the width of a convolution and the experts of a bias
 * apart. */
static int dims_of(const struct tensor_manifest_item *item, int64_t experts, int64_t *dims)
{
    size_t len = strlen(item->path);
    if (item->is_vector) {
        int64_t width = contains(item->path, "ssm_conv1d") ? 4 : item->cols;
        if (len > 10 && !strcmp(item->path + len - 10, "_exps.bias"))
            width = item->cols / experts;
        dims[0] = width;
        dims[1] = item->cols / width;
        return dims[1] > 1 ? 2 : 1;
    }
    dims[0] = item->cols;
    dims[1] = item->rows;
    dims[2] = item->n_matrix;
    return item->n_matrix ? 3 : item->rows > 1 ? 2 : 1;
}

static uint64_t aligned(uint64_t n)
{
    return (n + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* Header and tensor table; *data: bytes of the data part. */
static void put_header(struct meta *m, const struct synth_gguf_params *p,
                       const struct tensor_manifest *o, struct buf *out, uint64_t *data)
{
    buf_append(out, "GGUF", 4);
    put_u32(out, 3);
    put_u64(out, (uint64_t)o->n);
    put_u64(out, m->n);
    buf_append(out, m->out.data, m->out.len);
    *data = 0;
    for (int32_t i = 0; i < o->n; i++) {
        const struct tensor_manifest_item *item = &o->items[i];
        const struct block *b = format_of(p->format, item, o->n_layer);
        char name[300];
        int64_t dims[GGUF_MAX_DIMS];
        int n_dims = dims_of(item, p->shape->experts, dims);
        snprintf(name, sizeof name, "%s%s", item->path, item->has_weight ? ".weight" : "");
        put_string(out, name);
        put_u32(out, (uint32_t)n_dims);
        for (int d = 0; d < n_dims; d++)
            put_u64(out, (uint64_t)dims[d]);
        put_u32(out, b->number);
        put_u64(out, *data);
        *data += aligned(bytes_of(b, item));
    }
    while (out->len % ALIGNMENT && !out->failed)
        buf_putc(out, 0);
}

/* --- the values --- */

static uint16_t half_of(double v)
{
    int exponent;
    double mantissa = frexp(fabs(v), &exponent); /* 0.5 .. 1 */
    uint16_t sign = v < 0 ? 0x8000 : 0;
    if (exponent < -13) /* subnormal */
        return (uint16_t)(sign | (uint16_t)lround(fabs(v) * 0x1p24));
    return (uint16_t)(sign |
                      (uint16_t)(((exponent + 14) << 10) + (int)lround((mantissa - 0.5) * 2048)));
}

/* The codes of a block without a minimum seldom have the mean 0: with 16 codes from -8 to 7 all
 * weights would share a part that chooses the same experts for every token. So every other scale,
 * by the random bits in its place, is negative. */
static void put_scale(uint8_t *at, uint16_t half, bool any_sign)
{
    const uint16_t value = (uint16_t)(half | (any_sign ? (at[1] & 0x80) << 8 : 0));
    memcpy(at, &value, sizeof value);
}

static bool put_blocks(struct tensor_writer *w, struct synth_random *r, const struct block *b,
                       const struct synth_values *v, struct err *e)
{
    size_t size = weight_block_size(b->type);
    uint64_t n = v->n / (uint64_t)weight_block_cols(b->type);
    double scale = v->deviation / b->unit;
    uint16_t halves[2] = {half_of(scale), half_of(scale * b->middle)};
    uint8_t exponent = (uint8_t)((int)lround(log2(scale)) + 127);
    uint8_t *chunk = malloc(CHUNK_BLOCKS * size);
    bool ok = chunk || err_set(e, ERR_NOMEM, "no memory for a chunk of blocks");
    for (uint64_t at = 0; ok && at < n; at += CHUNK_BLOCKS) {
        size_t here = n - at < CHUNK_BLOCKS ? (size_t)(n - at) : CHUNK_BLOCKS;
        synth_bytes(r, chunk, here * size);
        for (uint8_t *block = chunk; block < chunk + here * size; block += size) {
            if (b->flat_n)
                memset(block + b->flat_at, b->flat, (size_t)b->flat_n);
            if (b->type == WEIGHT_Q4_K || b->type == WEIGHT_Q5_K)
                memset(block + b->flat_at + b->flat_n, 0,
                       4); /* the low bits of the last four scales */
            if (b->scale_at >= 0)
                put_scale(block + b->scale_at, halves[0], b->min_at < 0);
            if (b->min_at >= 0)
                memcpy(block + b->min_at, &halves[1], 2);
            if (b->type == WEIGHT_MXFP4_BLOCK)
                block[0] = exponent;
        }
        ok = tensor_writer_put(w, chunk, here * size, e);
    }
    free(chunk);
    return ok;
}

static bool put_vector(struct tensor_writer *w, struct synth_random *r,
                       const struct tensor_manifest_item *item, struct err *e)
{
    static const struct {
        const char *part;
        double mean, deviation;
    } kinds[] = {{"ssm_a", -4, 1},         {"ssm_dt", -3, 1},  {"ssm_conv1d", 0, 0.5},
                 {"exp_probs_b", 0, 0.02}, {".bias", 0, 0.02}, {"sinks", 0, 1},
                 {"norm", 1, 0.05}};
    size_t n = sizeof kinds / sizeof *kinds, i = 0;
    while (i + 1 < n && !contains(item->path, kinds[i].part))
        i++;
    struct synth_values v = {
        .n = (uint64_t)item->cols, .mean = kinds[i].mean, .deviation = kinds[i].deviation};
    return synth_values(w, r, SYNTH_F32, &v, e);
}

/* Residual branches add little, the head separates the tokens; as in cmd_synth.c. */
static double deviation_of(const struct tensor_manifest_item *item)
{
    double unit = 1 / sqrt((double)item->cols);
    if (item->layer < 0)
        return !strcmp(item->path, "output") ? 3 * unit : 1;
    return contains(item->path, "attn_output") || contains(item->path, "ffn_down") ? unit / 2
                                                                                   : unit;
}

static bool put_item(struct tensor_writer *w, struct synth_random *r, const struct block *b,
                     const struct tensor_manifest_item *item, struct err *e)
{
    static const uint8_t zeros[ALIGNMENT];
    uint64_t bytes = bytes_of(b, item);
    struct synth_values v = {.n = values_of(item), .deviation = deviation_of(item)};
    bool ok = item->is_vector          ? put_vector(w, r, item, e)
              : b->type == WEIGHT_NONE ? synth_values(w, r, b->plain, &v, e)
                                       : put_blocks(w, r, b, &v, e);
    return ok && tensor_writer_put(w, zeros, (size_t)(aligned(bytes) - bytes), e);
}

static bool write_file(const struct synth_gguf_params *p, const struct family_meta *f,
                       const struct tensor_manifest *o, uint64_t *bytes, struct err *e)
{
    char path[4096];
    struct meta m = {.arch = f->arch};
    struct buf header = {0};
    struct tensor_writer w = {0};
    struct synth_random r;
    meta_usual(&m, p->shape);
    f->put(&m, p->shape);
    put_header(&m, p, o, &header, bytes);
    bool ok =
        (!header.failed && !m.out.failed) || err_set(e, ERR_NOMEM, "no memory for a GGUF header");
    const struct tensor_raw_header raw = {
        .data = header.data, .len = header.len, .data_bytes = *bytes};
    ok = ok && file_join(path, sizeof path, p->folder, "model.gguf", e) &&
         synth_space(path, *bytes, e) && tensor_writer_begin_raw(&w, path, &raw, e);
    synth_seed(&r, p->seed);
    for (int32_t i = 0; ok && i < o->n; i++)
        ok = put_item(&w, &r, format_of(p->format, &o->items[i], o->n_layer), &o->items[i], e);
    ok = ok && tensor_writer_end(&w, e);
    tensor_writer_abort(&w);
    buf_fini(&header);
    buf_fini(&m.out);
    return ok;
}

bool synth_gguf(const struct synth_gguf_params *p, uint64_t *bytes, int32_t *n_tensors,
                struct err *e)
{
    struct tensor_manifest o = {0};
    const struct family_meta *f = families, *end = families + sizeof families / sizeof *families;
    while (f < end && strcmp(f->family, p->shape->family))
        f++;
    if (f == end)
        return err_field(e, ERR_INPUT, "format", "no GGUF form of family %s is made here",
                         p->shape->family);
    bool ok = tensor_manifest_open(&o, p->config, true, e) && write_file(p, f, &o, bytes, e);
    *n_tensors = o.n;
    tensor_manifest_close(&o);
    return ok;
}
