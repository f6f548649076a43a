/* sluice synth: a random model of any real shape, in the forms that models are published in, so
 * that loading and speed can be tried without a download. The weights are noise with sane sizes;
 * what it says is nonsense. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config.h"
#include "engine/base/clock.h"
#include "engine/base/file.h"
#include "engine/base/json/json.h"
#include "engine/model/tensor_manifest.h"
#include "fcgi/cli/bench/synth.h"
#include "fcgi/cli/bench/synth_gguf.h"
#include "fcgi/cli/bench/synth_shape.h"
#include "fcgi/cli/cli_options.h"

extern const struct command cmd_synth;

struct synth {
    const char *out, *preset, *format, *tokenizer;
    int64_t seed, group;
    struct synth_shape own, shape;
    struct synth_format experts, rest, ends; /* ends: embedding and head */
    int64_t eos;
    bool json;
    struct tensor_manifest manifest;
    uint64_t bytes, n_tensors; /* written */
};

#define AT(field) offsetof(struct synth, field)
#define SIZE(name, field, help) {name, OPTION_INT, AT(own.field), "0", 0, 1 << 26, NULL, "N", help}
static const struct option options[] = {
    {"out", OPTION_STRING, AT(out), NULL, 0, 0, NULL, "DIR", "folder to make"},
    {"shape", OPTION_CHOICE, AT(preset), "qwen3-30b-a3b", 0, 0, SYNTH_PRESETS, NULL,
     "start from a published model's numbers"},
    {"family", OPTION_CHOICE, AT(own.family), NULL, 0, 0, SYNTH_FAMILIES, NULL, "architecture"},
    {"format", OPTION_CHOICE, AT(format), "mxfp4", 0, 0,
     "mxfp4|mxfp4-q8|q2|q3|q4|q5|q6|q8|bf16|f16|f32|" SYNTH_GGUF_FORMATS, NULL,
     "of the matrices; mxfp4-q8: experts mxfp4, the rest 8-bit; gguf-...: one GGUF file, without a "
     "tokenizer"},
    {"group", OPTION_INT, AT(group), "64", 32, 128, NULL, "N",
     "columns per scale of q2 to q8: 32, 64 or 128"},
    SIZE("layers", layers, "layers"),
    SIZE("hidden", hidden, "width"),
    SIZE("experts", experts, "routed experts"),
    SIZE("top-k", top_k, "experts a token uses"),
    SIZE("inter", inter, "width of an expert"),
    SIZE("shared-inter", shared_inter, "width of the shared expert"),
    SIZE("heads", heads, "attention heads"),
    SIZE("kv-heads", kv_heads, "key and value heads"),
    SIZE("head-dim", head_dim, "width of a head"),
    SIZE("vocab", vocab, "tokens"),
    SIZE("context", context, "positions"),
    SIZE("dense-layers", dense_layers, "first layers without experts (bailing_moe)"),
    SIZE("dense-inter", dense_inter, "width of a dense feed-forward"),
    {"tied", OPTION_BOOL, AT(own.tied), NULL, 0, 0, NULL, NULL, "head and embedding are one"},
    {"tokenizer", OPTION_STRING, AT(tokenizer), SLUICE_DATADIR "/demo-model", 0, 0, NULL, "DIR",
     "copy the tokenizer from there when the vocabulary is large enough"},
    {"seed", OPTION_INT, AT(seed), "1", 0, 9e15, NULL, "S", "the same seed gives the same model"},
    {"json", OPTION_BOOL, AT(json), NULL, 0, 0, NULL, NULL, "print one JSON object"},
};

static bool read_format(struct synth *s, struct err *e)
{
    static const struct synth_format q8 = {SYNTH_AFFINE, 8, 64}, mxfp4 = {SYNTH_MXFP4, 4, 32};
    const char *f = s->format;
    if (s->group != 32 && s->group != 64 && s->group != 128)
        return err_field(e, ERR_INPUT, "group", "groups are of 32, 64 or 128 columns");
    if (f[0] == 'q')
        s->rest = (struct synth_format){SYNTH_AFFINE, f[1] - '0', (int)s->group};
    else if (f[0] == 'm')
        s->rest = mxfp4;
    else
        s->rest.type = !strcmp(f, "bf16") ? SYNTH_BF16 : !strcmp(f, "f16") ? SYNTH_F16 : SYNTH_F32;
    s->experts = s->rest;
    if (!strcmp(f, "mxfp4-q8"))
        s->rest = q8;
    s->ends = f[0] == 'm' ? q8 : s->rest;
    return true;
}

static bool is_packed(const struct synth_format *f)
{
    return f->type == SYNTH_AFFINE || f->type == SYNTH_MXFP4;
}

static bool ends_with(const char *s, const char *suffix)
{
    size_t n = strlen(s), m = strlen(suffix);
    return n >= m && !strcmp(s + n - m, suffix);
}

/* Routers and other matrices of few rows keep 8 bits, as converters do; what does not divide stays
 * bf16. */
static struct synth_format format_of(const struct synth *s, const struct tensor_manifest_item *item)
{
    struct synth_format f = item->n_matrix ? s->experts : item->layer < 0 ? s->ends : s->rest;
    if (!is_packed(&f))
        return f;
    if (!item->n_matrix && item->layer >= 0 && item->rows <= s->shape.experts &&
        item->rows < s->shape.hidden / 4)
        f = (struct synth_format){SYNTH_AFFINE, 8, 64};
    if (item->cols % f.group)
        f.group = 32;
    if (item->cols % f.group)
        f = (struct synth_format){SYNTH_BF16, 0, 0};
    return f;
}

/* --- config.json --- */

static void put_quantization(const struct synth *s, const struct tensor_manifest *o, struct buf *b)
{
    const struct synth_format *d = &s->rest;
    buf_printf(b, ",\n  \"quantization\": {\"group_size\": %d, \"bits\": %d, \"mode\": \"%s\"",
               d->group, d->bits, d->type == SYNTH_MXFP4 ? "mxfp4" : "affine");
    for (int32_t i = 0; i < o->n; i++) {
        struct synth_format f = format_of(s, &o->items[i]);
        if (o->items[i].is_vector || !is_packed(&f) || !memcmp(&f, d, sizeof f))
            continue;
        buf_printf(b, ",\n    \"%s\": {\"group_size\": %d, \"bits\": %d, \"mode\": \"%s\"}",
                   o->items[i].path, f.group, f.bits, f.type == SYNTH_MXFP4 ? "mxfp4" : "affine");
    }
    buf_putc(b, '}');
}

/* Written twice: the family reads the shape from it, and only then it is known which modules there
 * are. */
static bool write_config(struct synth *s, bool with_quantization, struct err *e)
{
    char path[4096];
    struct buf b = {0};
    const char *dtype = s->rest.type == SYNTH_F32   ? "float32"
                        : s->rest.type == SYNTH_F16 ? "float16"
                                                    : "bfloat16";
    bool ok = synth_config(&s->shape, s->eos, dtype, &b, e);
    if (ok && with_quantization && (is_packed(&s->rest) || is_packed(&s->experts)))
        put_quantization(s, &s->manifest, &b);
    buf_puts(&b, "\n}\n");
    ok = ok && file_join(path, sizeof path, s->out, "config.json", e) &&
         file_write_atomic(path, b.data, b.len, 0644, e);
    buf_fini(&b);
    return ok;
}

/* --- tensors --- */

static const char *plain_name(enum synth_type t)
{
    return t == SYNTH_F32 ? "F32" : t == SYNTH_F16 ? "F16" : "BF16";
}

struct plane { /* one tensor of a matrix */
    const char *suffix, *dtype;
    int64_t cols;
};

static void add_entry(struct tensor_entry *t, char *name, const struct tensor_manifest_item *item,
                      const struct plane *p)
{
    snprintf(name, 288, "%s.%s", item->path, p->suffix);
    *t = (struct tensor_entry){.name = name, .dtype = p->dtype};
    if (item->n_matrix)
        t->dims[t->n_dims++] = item->n_matrix;
    t->dims[t->n_dims++] = item->rows;
    t->dims[t->n_dims++] = p->cols;
}

/* A vector's type and shape: mlx keeps a convolution as [channels, width, 1]. */
static void add_vector(struct tensor_entry *t, char *name, const struct tensor_manifest_item *item)
{
    snprintf(name, 288, "%s%s", item->path, item->has_weight ? ".weight" : "");
    *t = (struct tensor_entry){.name = name, .dtype = "BF16", .n_dims = 1, .dims = {item->cols}};
    if (ends_with(item->path, "A_log") || ends_with(item->path, "expert_bias"))
        t->dtype = "F32";
    if (ends_with(item->path, "conv1d")) {
        t->n_dims = 3;
        t->dims[0] = item->cols / 4;
        t->dims[1] = 4;
        t->dims[2] = 1;
    }
}

/* The item's tensors, in the order in which write_item writes their data; at most 3. */
static int add_item(const struct synth *s, const struct tensor_manifest_item *item,
                    struct tensor_entry *t, char (*names)[288])
{
    if (item->is_vector) {
        add_vector(t, names[0], item);
        return 1;
    }
    struct synth_format f = format_of(s, item);
    if (!is_packed(&f)) {
        add_entry(t, names[0], item, &(struct plane){"weight", plain_name(f.type), item->cols});
        return 1;
    }
    const struct plane planes[] = {
        {"weight", "U32", (int64_t)item->cols * f.bits / 32},
        {"scales", f.type == SYNTH_MXFP4 ? "U8" : "BF16", item->cols / f.group},
        {"biases", "BF16", item->cols / f.group}};
    int n = f.type == SYNTH_MXFP4 ? 2 : 3;
    for (int i = 0; i < n; i++)
        add_entry(&t[i], names[i], item, &planes[i]);
    return n;
}

static bool write_vector(struct tensor_writer *w, struct synth_random *r,
                         const struct tensor_manifest_item *item, struct err *e)
{
    static const struct {
        const char *suffix;
        double mean, deviation;
    } kinds[] = {{"A_log", 1.2, 0.8}, {"dt_bias", -3, 1}, {"conv1d", 0, 0.5},
                 {".bias", 0, 0.02},  {"sinks", 0, 1},    {"expert_bias", 0, 0.02},
                 {"norm", 1, 0.05}};
    enum synth_type type = ends_with(item->path, "A_log") || ends_with(item->path, "expert_bias")
                               ? SYNTH_F32
                               : SYNTH_BF16;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (ends_with(item->path, kinds[i].suffix) || i + 1 == sizeof kinds / sizeof *kinds)
            return synth_values(
                w, r, type,
                &(struct synth_values){(uint64_t)item->cols, kinds[i].mean, kinds[i].deviation}, e);
    return true;
}

/* Values of a matrix get this deviation: residual branches add little, the head separates the
 * tokens.
 */
static double deviation_of(const struct tensor_manifest_item *item)
{
    double unit = 1 / sqrt((double)item->cols);
    if (item->layer < 0)
        return strstr(item->path, "lm_head") ? 3 * unit : 1;
    return ends_with(item->path, "o_proj") || ends_with(item->path, "down_proj") ||
                   ends_with(item->path, "dense")
               ? unit / 2
               : unit;
}

static bool write_item(struct synth *s, struct tensor_writer *w, struct synth_random *r,
                       const struct tensor_manifest_item *item, struct err *e)
{
    if (item->is_vector)
        return write_vector(w, r, item, e);
    struct synth_format f = format_of(s, item);
    uint64_t n = (uint64_t)(item->n_matrix ? item->n_matrix : 1) * (uint64_t)item->rows *
                 (uint64_t)item->cols;
    struct synth_values v = {.n = n, .deviation = deviation_of(item)};
    if (!is_packed(&f))
        return synth_values(w, r, f.type, &v, e);
    return synth_codes(w, r, &f, n, e) && synth_scales(w, r, &f, &v, e) &&
           (f.type == SYNTH_MXFP4 || synth_biases(w, &f, n, v.deviation, e));
}

static bool write_tensors(struct synth *s, struct err *e)
{
    const struct tensor_manifest *o = &s->manifest;
    char path[4096];
    struct tensor_writer w = {0};
    struct synth_random r;
    size_t n = 0;
    uint64_t bytes = 0;
    struct tensor_entry *entries = calloc((size_t)o->n * 3, sizeof *entries);
    char(*names)[288] = calloc((size_t)o->n * 3, sizeof *names);
    bool ok = (entries && names) || err_set(e, ERR_NOMEM, "no memory for %d tensors", o->n);
    for (int32_t i = 0; ok && i < o->n; i++) {
        int parts = add_item(s, &o->items[i], entries + n, names + n);
        for (int k = 0; k < parts; k++)
            bytes += tensor_entry_bytes(&entries[n++]);
    }
    synth_seed(&r, (uint64_t)s->seed);
    ok = ok && synth_space(s->out, bytes, e) &&
         file_join(path, sizeof path, s->out, "model.safetensors", e) &&
         tensor_writer_begin(&w, path,
                             &(struct tensor_list){.entries = entries,
                                                   .n = n,
                                                   .about = "sluice synth: random weights"},
                             e);
    for (int32_t i = 0; ok && i < o->n; i++)
        ok = write_item(s, &w, &r, &o->items[i], e);
    ok = ok && tensor_writer_end(&w, e);
    tensor_writer_abort(&w);
    free(entries);
    free(names);
    s->bytes = bytes;
    s->n_tensors = n;
    return ok;
}

/* --- tokenizer --- */

static bool copy_file(const struct synth *s, const char *name, struct err *e)
{
    char from[4096], to[4096];
    struct buf b = {0};
    bool ok = file_join(from, sizeof from, s->tokenizer, name, e) &&
              file_join(to, sizeof to, s->out, name, e);
    if (ok && file_exists(from))
        ok = file_read(from, 256u << 20, &b, e) &&
             file_write_atomic(to, b.data ? b.data : "", b.len, 0644, e);
    buf_fini(&b);
    return ok;
}

/* The end token of the tokenizer's own model; -1 when its vocabulary is larger than ours, or
 * unknown. */
static int64_t tokenizer_eos(const struct synth *s)
{
    char path[4096];
    int64_t eos = -1, vocab = 0;
    struct err ignored = {0};
    if (!s->tokenizer[0] || !file_join(path, sizeof path, s->tokenizer, "config.json", &ignored) ||
        !file_exists(path))
        return -1;
    cJSON *root = json_parse_file(path, 16u << 20, &ignored);
    bool ok = root && json_get_int(root, "vocab_size", 1, INT32_MAX, &vocab, &ignored) &&
              json_get_int(root, "eos_token_id", 0, INT32_MAX, &eos, &ignored);
    cJSON_Delete(root);
    return ok && vocab <= s->shape.vocab ? eos : -1;
}

/* config.json only tells which tensors there are; the file itself says everything. */
static bool make_gguf(struct synth *s, struct err *e)
{
    char config[4096];
    uint64_t bytes = 0;
    int32_t n = 0;
    s->eos = -1;
    bool ok = file_mkdirs(s->out, 0755, e) && write_config(s, false, e) &&
              file_join(config, sizeof config, s->out, "config.json", e);
    if (!ok)
        return false;
    struct synth_gguf_params p = {.shape = &s->shape,
                                  .format = s->format,
                                  .config = config,
                                  .folder = s->out,
                                  .seed = (uint64_t)s->seed};
    ok = synth_gguf(&p, &bytes, &n, e);
    unlink(config);
    s->bytes = bytes;
    s->n_tensors = (uint64_t)n;
    return ok;
}

static void say(const struct synth *s, double seconds)
{
    struct buf b = {0};
    if (!s->json) {
        printf("%.2f GB in %" PRIu64 " tensors, %.1f s%s\n", (double)s->bytes / 1e9, s->n_tensors,
               seconds, s->eos < 0 ? "; no tokenizer" : "");
        return;
    }
    buf_puts(&b, "{\"path\":");
    buf_json_string(&b, s->out, strlen(s->out));
    buf_printf(&b, ",\"bytes\":%" PRIu64 ",\"tensors\":%" PRIu64 ",\"tokenizer\":%s,\"ms\":%.0f}",
               s->bytes, s->n_tensors, s->eos < 0 ? "false" : "true", seconds * 1e3);
    if (!b.failed)
        puts(b.data);
    buf_fini(&b);
}

static bool make(struct synth *s, struct err *e)
{
    char path[4096];
    s->shape = *synth_preset(s->preset);
    synth_override(&s->shape, &s->own);
    if (!strncmp(s->format, "gguf-", 5))
        return make_gguf(s, e);
    s->eos = tokenizer_eos(s);
    bool ok = read_format(s, e) && file_mkdirs(s->out, 0755, e) && write_config(s, false, e) &&
              file_join(path, sizeof path, s->out, "config.json", e) &&
              tensor_manifest_open(&s->manifest, path, false, e) && write_config(s, true, e) &&
              write_tensors(s, e);
    static const char *const texts[] = {"tokenizer.json", "tokenizer_config.json",
                                        "chat_template.jinja", "generation_config.json"};
    for (size_t i = 0; ok && s->eos >= 0 && i < sizeof texts / sizeof *texts; i++)
        ok = copy_file(s, texts[i], e);
    tensor_manifest_close(&s->manifest);
    return ok;
}

static bool synth(struct synth *s, struct err *e)
{
    double begin = clock_ms();
    if (!s->out)
        return err_set(e, ERR_INPUT, "--out is needed");
    if (!make(s, e))
        return false;
    say(s, (clock_ms() - begin) / 1000);
    return true;
}

static int run_synth(int argc, char **argv)
{
    struct synth s = {0};
    struct err e = {0};
    int status = cli_options(&cmd_synth, argc, argv, &s, NULL);
    if (status >= 0)
        return status;
    return synth(&s, &e) ? 0 : command_fail("synth", &e);
}

const struct command cmd_synth = {
    .name = "synth",
    .usage = "--out DIR [--shape NAME] [--format F] [--layers N] ...",
    .help = "make a random model of a real shape, for tests of loading and speed",
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .run = run_synth,
};
