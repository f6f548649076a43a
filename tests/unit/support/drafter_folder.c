/* Writes the folders of drafter_folder.h, with values that come from the tensors' names. */
#include "tests/unit/support/drafter_folder.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "engine/base/buf.h"
#include "engine/base/file.h"
#include "engine/format/tensor_file.h"
#include "tests/unit/support/expert_models.h"

#define MOST 64

struct shape {
    const char *name; /* "%d" in it stands for each expert */
    int64_t dims[3];
};

/* eh_proj is in the golden file already, which has nothing else of the layer. */
static const struct shape glm[] = {
    {"model.layers.2.enorm.weight", {64}},
    {"model.layers.2.hnorm.weight", {64}},
    {"model.layers.2.shared_head.norm.weight", {64}},
    {"model.layers.2.shared_head.head.weight", {64, 64}},
    {"model.layers.2.embed_tokens.weight", {64, 64}},
    {"model.layers.2.input_layernorm.weight", {64}},
    {"model.layers.2.post_attention_layernorm.weight", {64}},
    {"model.layers.2.self_attn.q_proj.weight", {64, 64}},
    {"model.layers.2.self_attn.k_proj.weight", {32, 64}},
    {"model.layers.2.self_attn.v_proj.weight", {32, 64}},
    {"model.layers.2.self_attn.o_proj.weight", {64, 64}},
    {"model.layers.2.self_attn.q_norm.weight", {32}},
    {"model.layers.2.self_attn.k_norm.weight", {32}},
    {"model.layers.2.mlp.gate.weight", {6, 64}},
    {"model.layers.2.mlp.gate.e_score_correction_bias", {6}},
    {"model.layers.2.mlp.experts.%d.gate_proj.weight", {32, 64}},
    {"model.layers.2.mlp.experts.%d.up_proj.weight", {32, 64}},
    {"model.layers.2.mlp.experts.%d.down_proj.weight", {64, 32}},
    {"model.layers.2.mlp.shared_experts.gate_proj.weight", {32, 64}},
    {"model.layers.2.mlp.shared_experts.up_proj.weight", {32, 64}},
    {"model.layers.2.mlp.shared_experts.down_proj.weight", {64, 32}},
    {NULL, {0}},
};

static const struct shape qwen[] = {
    {"mtp.fc.weight", {128, 256}},
    {"mtp.pre_fc_norm_embedding.weight", {128}},
    {"mtp.pre_fc_norm_hidden.weight", {128}},
    {"mtp.norm.weight", {128}},
    {"mtp.layers.0.input_layernorm.weight", {128}},
    {"mtp.layers.0.post_attention_layernorm.weight", {128}},
    {"mtp.layers.0.self_attn.q_proj.weight", {256, 128}},
    {"mtp.layers.0.self_attn.k_proj.weight", {64, 128}},
    {"mtp.layers.0.self_attn.v_proj.weight", {64, 128}},
    {"mtp.layers.0.self_attn.o_proj.weight", {128, 128}},
    {"mtp.layers.0.self_attn.q_norm.weight", {64}},
    {"mtp.layers.0.self_attn.k_norm.weight", {64}},
    {"mtp.layers.0.mlp.gate.weight", {6, 128}},
    {"mtp.layers.0.mlp.switch_mlp.gate_proj.weight", {6, 64, 128}},
    {"mtp.layers.0.mlp.switch_mlp.up_proj.weight", {6, 64, 128}},
    {"mtp.layers.0.mlp.switch_mlp.down_proj.weight", {6, 128, 64}},
    {"mtp.layers.0.mlp.shared_expert.gate_proj.weight", {64, 128}},
    {"mtp.layers.0.mlp.shared_expert.up_proj.weight", {64, 128}},
    {"mtp.layers.0.mlp.shared_expert.down_proj.weight", {128, 64}},
    {"mtp.layers.0.mlp.shared_expert_gate.weight", {1, 128}},
    {NULL, {0}},
};

static void join(char *out, size_t size, const char *folder, const char *name)
{
    struct err e = {0};
    assert_true(file_join(out, size, folder, name, &e));
}

static void show(const struct drafter_folder *f, const char *model, const char *name)
{
    char target[4200], path[128];
    char *whole = realpath(expert_model_path(model), NULL);
    assert_non_null(whole);
    join(target, sizeof target, whole, name);
    join(path, sizeof path, f->path, name);
    free(whole);
    if (access(target, R_OK) == 0)
        assert_int_equal(symlink(target, path), 0);
}

/* Numbers from -0.5 to 0.5 that tests/tools/make_dflash_golden.py makes likewise: SplitMix64,
 * seeded by the name's FNV-1a. */
static double random_at(uint64_t seed, uint64_t i)
{
    uint64_t z = seed + (i + 1) * UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    z ^= z >> 31;
    return (double)(z >> 40) / (1 << 24) - 0.5;
}

static void put_values(const struct tensor_entry *t, struct tensor_writer *w)
{
    struct err e = {0};
    const uint64_t n = tensor_entry_bytes(t) / 4;
    const bool vector = t->n_dims == 1;
    const double scale = vector ? 0.5 : 4 / sqrt((double)t->dims[t->n_dims - 1]);
    uint64_t seed = UINT64_C(0xCBF29CE484222325);
    for (const char *c = t->name; *c; c++)
        seed = (seed ^ (uint8_t)*c) * UINT64_C(0x100000001B3);
    for (uint64_t i = 0; i < n; i++) {
        const float value = (float)(vector + random_at(seed, i) * scale);
        assert_true(tensor_writer_put(w, &value, 4, &e));
    }
}

static void write_tensors(const char *path, const struct tensor_entry *entries, int n)
{
    struct err e = {0};
    struct tensor_writer w;
    assert_true(tensor_writer_begin(&w, path,
                                    &(struct tensor_list){.entries = entries, .n = (size_t)n}, &e));
    for (int i = 0; i < n; i++)
        put_values(&entries[i], &w);
    assert_true(tensor_writer_end(&w, &e));
}

static int list(const struct shape *shapes, struct tensor_entry *out, char names[MOST][96])
{
    int n = 0;
    for (const struct shape *s = shapes; s->name; s++)
        for (int x = 0; x < (strstr(s->name, "%d") ? 6 : 1); x++, n++) {
            const char *at = strstr(s->name, "%d");
            assert_true(n < MOST);
            if (at)
                snprintf(names[n], 96, "%.*s%d%s", (int)(at - s->name), s->name, x, at + 2);
            else
                snprintf(names[n], 96, "%s", s->name);
            out[n] = (struct tensor_entry){.name = names[n], .dtype = "F32"};
            for (int k = 0; k < 3 && s->dims[k]; k++)
                out[n].dims[out[n].n_dims++] = s->dims[k];
        }
    return n;
}

static void make_folder(struct drafter_folder *f)
{
    snprintf(f->path, sizeof f->path, "/tmp/sluice-drafter-XXXXXX");
    assert_non_null(mkdtemp(f->path));
}

void drafter_folder_make_layer(struct drafter_folder *f, const char *model)
{
    static char names[MOST][96];
    struct tensor_entry entries[MOST];
    char path[128];
    make_folder(f);
    show(f, model, "config.json");
    show(f, model, "model.safetensors");
    show(f, model, "model.safetensors.index.json");
    const int n = list(strstr(model, "glm") ? glm : qwen, entries, names);
    join(path, sizeof path, f->path, "mtp.safetensors");
    write_tensors(path, entries, n);
}

static int add(struct tensor_entry *out, int n, const char *name, int64_t rows, int64_t cols)
{
    assert_true(n < MOST);
    out[n] = (struct tensor_entry){.name = name, .dtype = "F32", .n_dims = cols ? 2 : 1};
    out[n].dims[0] = rows;
    out[n].dims[1] = cols;
    return n + 1;
}

/* Two layers of two heads over one key head, 32 each, and a feed-forward of 64. */
void drafter_folder_make_dflash(struct drafter_folder *f, const struct dflash_shape *s)
{
    static char names[2][11][64];
    static const struct {
        const char *name;
        int rows, cols; /* 0: as wide as the model; cols -1: a vector */
    } parts[11] = {{"input_layernorm", 0, -1},   {"post_attention_layernorm", 0, -1},
                   {"self_attn.q_norm", 32, -1}, {"self_attn.k_norm", 32, -1},
                   {"self_attn.q_proj", 64, 0},  {"self_attn.k_proj", 32, 0},
                   {"self_attn.v_proj", 32, 0},  {"self_attn.o_proj", 0, 64},
                   {"mlp.gate_proj", 64, 0},     {"mlp.up_proj", 64, 0},
                   {"mlp.down_proj", 0, 64}};
    struct tensor_entry entries[MOST];
    struct buf b = {0};
    struct err e = {0};
    char path[128];
    int n = 0;
    make_folder(f);
    n = add(entries, n, "fc.weight", s->d, 2 * s->d);
    n = add(entries, n, "hidden_norm.weight", s->d, 0);
    n = add(entries, n, "norm.weight", s->d, 0);
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < 11; k++) {
            snprintf(names[i][k], 64, "layers.%d.%s.weight", i, parts[k].name);
            const int64_t cols = parts[k].cols < 0 ? 0 : parts[k].cols ? parts[k].cols : s->d;
            n = add(entries, n, names[i][k], parts[k].rows ? parts[k].rows : s->d, cols);
        }
    join(path, sizeof path, f->path, "model.safetensors");
    write_tensors(path, entries, n);
    buf_printf(&b,
               "{\"architectures\": [\"%s\"], \"model_type\": \"qwen3\", "
               "\"hidden_size\": %d, \"num_hidden_layers\": 2, \"num_attention_heads\": 2, "
               "\"num_key_value_heads\": 1, \"head_dim\": 32, \"intermediate_size\": 64, "
               "\"vocab_size\": %d, \"max_position_embeddings\": 512, \"rms_norm_eps\": 1e-6, "
               "\"rope_theta\": 10000, \"block_size\": %d, \"num_target_layers\": %d, "
               "\"dflash_config\": {\"mask_token_id\": %d, \"target_layer_ids\": [0, %d]}}",
               s->architecture ? s->architecture : "DFlashDraftModel", s->d, s->n_vocab, s->block,
               s->n_layer, s->n_vocab - 1, s->n_layer - 1);
    join(path, sizeof path, f->path, "config.json");
    assert_true(file_write_atomic(path, b.data, b.len, 0644, &e));
    buf_fini(&b);
}

void drafter_folder_remove(struct drafter_folder *f)
{
    static const char *const all[] = {"config.json", "model.safetensors",
                                      "model.safetensors.index.json", "mtp.safetensors"};
    char path[128];
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        join(path, sizeof path, f->path, all[i]);
        unlink(path);
    }
    assert_int_equal(rmdir(f->path), 0);
}
