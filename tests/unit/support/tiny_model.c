/* tiny_model.h: a tiny random qwen3_moe folder, written in whatever way a test wants it. */
#include "tests/unit/support/tiny_model.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "engine/base/buf.h"
#include "engine/base/file.h"
#include "engine/base/hash.h"
#include "engine/format/tensor_file.h"
#include "engine/model/tensor_manifest.h"

#define N_EXPERT 3
#define MAX_TENSORS 256

struct list { /* what will be written, in order */
    struct tensor_entry entries[MAX_TENSORS];
    char names[MAX_TENSORS][128];
    uint64_t seeds[MAX_TENSORS]; /* of the values; fused and separate experts have those of the
                                    stacked ones */
    uint64_t skips[MAX_TENSORS]; /* values of the seed's stream before the first */
    int n;
};

static const char config[] =
    "{\"model_type\": \"qwen3_moe\", \"hidden_size\": 32, \"num_hidden_layers\": 2, "
    "\"num_attention_heads\": 4,"
    " \"num_key_value_heads\": 2, \"head_dim\": 16, \"vocab_size\": 40, "
    "\"max_position_embeddings\": 128,"
    " \"rms_norm_eps\": 1e-6, \"num_experts\": 3, \"num_experts_per_tok\": 2, "
    "\"moe_intermediate_size\": 24,"
    " \"norm_topk_prob\": true, \"rope_theta\": 10000, \"eos_token_id\": [3, 99]";

void tiny_text(const struct tiny *t, const char *name, const char *text)
{
    char path[256];
    struct err e = {0};
    assert_true(file_join(path, sizeof path, t->dir, name, &e));
    assert_true(file_write_atomic(path, text, strlen(text), 0644, &e));
}

void tiny_make(struct tiny *t)
{
    struct buf b = {0};
    snprintf(t->dir, sizeof t->dir, "/tmp/sluice-tiny-XXXXXX");
    assert_non_null(mkdtemp(t->dir));
    buf_printf(&b, "%s%s}", config, t->config_more ? t->config_more : "");
    tiny_text(t, "config.json", b.data);
    buf_fini(&b);
}

static void push(struct list *l, const char *name, const struct tensor_entry *shape, uint64_t seed,
                 uint64_t skip)
{
    int i = l->n++;
    snprintf(l->names[i], sizeof l->names[i], "%s", name);
    l->entries[i] = *shape;
    l->entries[i].name = l->names[i];
    l->seeds[i] = seed;
    l->skips[i] = skip;
}

/* "a.switch_mlp.gate_proj" of three experts as a.experts.0.gate_proj.weight and so on. */
static void push_separate(struct list *l, const struct tensor_manifest_item *item, uint64_t seed)
{
    const char *at = strstr(item->path, "switch_mlp.");
    for (int x = 0; x < N_EXPERT; x++) {
        char name[128];
        snprintf(name, sizeof name, "%.*sexperts.%d.%s.weight", (int)(at - item->path), item->path,
                 x, at + 11);
        struct tensor_entry one = {.dtype = "F32", .n_dims = 2, .dims = {item->rows, item->cols}};
        push(l, name, &one, seed, (uint64_t)x * (uint64_t)item->rows * (uint64_t)item->cols);
    }
}

static void push_item(const struct tiny *t, struct list *l, const struct tensor_manifest_item *item)
{
    char name[128];
    uint64_t seed = hash64(item->path, strlen(item->path), 7);
    struct tensor_entry one = {.dtype = "F32"};
    if (item->n_matrix && t->experts == TINY_SEPARATE) {
        push_separate(l, item, seed);
        return;
    }
    if (item->n_matrix)
        one.dims[one.n_dims++] = item->n_matrix;
    if (!item->is_vector)
        one.dims[one.n_dims++] = item->rows;
    one.dims[one.n_dims++] = item->cols;
    snprintf(name, sizeof name, "%s%s", item->path, item->has_weight ? ".weight" : "");
    push(l, name, &one, seed, 0);
}

/* Fused: one tensor whose matrices are gate's rows, then up's; down is called by its plain name. */
static void fuse(struct list *l)
{
    for (int i = 0; i < l->n; i++) {
        char *gate = strstr(l->names[i], "switch_mlp.gate_proj.weight"),
             *up = strstr(l->names[i], "switch_mlp.up_proj");
        char *down = strstr(l->names[i], "switch_mlp.down_proj.weight");
        if (gate) {
            strcpy(gate, "experts.gate_up_proj");
            l->entries[i].dims[1] *= 2;
        } else if (down) {
            strcpy(down, "experts.down_proj");
        } else if (up) {
            strcpy(l->names[i], "left.out"); /* its values are in the tensor before */
        }
    }
}

static void list_tensors(const struct tiny *t, struct list *l)
{
    char path[256];
    struct err e = {0};
    struct tensor_manifest o;
    assert_true(file_join(path, sizeof path, t->dir, "config.json", &e));
    if (!tensor_manifest_open(&o, path, false, &e))
        fail_msg("%s", e.text);
    for (int32_t i = 0; i < o.n; i++)
        push_item(t, l, &o.items[i]);
    tensor_manifest_close(&o);
    if (t->experts == TINY_FUSED)
        fuse(l);
    for (int i = 0; i < l->n && t->widen; i++)
        if (strstr(l->names[i], t->widen)) {
            l->entries[i].dims[l->entries[i].n_dims > 2]++;
            break;
        }
}

static float value(uint64_t seed, uint64_t i)
{
    uint64_t h = hash64(&i, sizeof i, seed);
    return (float)((double)(h >> 40) / (1 << 24) - 0.5);
}

/* Values of the tensor; a fused one takes up's from up's own stream. */
static void put_values(const struct tiny *t, const struct list *l, int i, bool spoil,
                       struct tensor_writer *w)
{
    struct err e = {0};
    const struct tensor_entry *entry = &l->entries[i];
    uint64_t n = tensor_entry_bytes(entry) / 4;
    bool fused = strstr(l->names[i], "gate_up_proj") != NULL;
    uint64_t half = fused ? (uint64_t)(entry->dims[1] / 2 * entry->dims[2]) : 1;
    char up[160];
    snprintf(
        up, sizeof up, "%.*sswitch_mlp.up_proj",
        (int)(strstr(l->names[i], "experts.") ? strstr(l->names[i], "experts.") - l->names[i] : 0),
        l->names[i]);
    for (uint64_t k = 0; k < n; k++) {
        float v = value(l->seeds[i], l->skips[i] + k);
        if (fused && k / half % 2)
            v = value(hash64(up, strlen(up), 7), k / (2 * half) * half + k % half);
        else if (fused)
            v = value(l->seeds[i], k / (2 * half) * half + k % half);
        if (spoil && k == (uint64_t)t->spoil_at)
            v = t->spoil_value;
        assert_true(tensor_writer_put(w, &v, 4, &e));
    }
}

static bool is_left_out(const struct tiny *t, const char *name)
{
    return !strcmp(name, "left.out") || (t->without && strstr(name, t->without));
}

void tiny_write(const struct tiny *t, const char *name, int part, int parts)
{
    static struct list l;
    struct tensor_entry chosen[MAX_TENSORS];
    int from[MAX_TENSORS], n = 0;
    char path[256];
    struct err e = {0};
    struct tensor_writer w;
    l.n = 0;
    list_tensors(t, &l);
    for (int i = part; i < l.n; i += parts)
        if (!is_left_out(t, l.names[i])) {
            from[n] = i;
            chosen[n++] = l.entries[i];
        }
    assert_true(file_join(path, sizeof path, t->dir, name, &e));
    assert_true(tensor_writer_begin(&w, path,
                                    &(struct tensor_list){.entries = chosen, .n = (size_t)n}, &e));
    bool spoiled = false;
    for (int k = 0; k < n; k++) {
        bool here = t->spoil && !spoiled && strstr(l.names[from[k]], t->spoil);
        spoiled |= here;
        put_values(t, &l, from[k], here, &w);
    }
    assert_true(tensor_writer_end(&w, &e));
}

void tiny_index(const struct tiny *t, const char *const *names, int parts)
{
    static struct list l;
    struct buf b = {0};
    l.n = 0;
    list_tensors(t, &l);
    buf_puts(&b, "{\"weight_map\": {");
    for (int i = 0; i < l.n; i++)
        buf_printf(&b, "%s\"%s\": \"%s\"", i ? ", " : "", l.names[i], names[i % parts]);
    buf_puts(&b, "}}");
    tiny_text(t, "model.safetensors.index.json", b.data);
    buf_fini(&b);
}

void tiny_remove(struct tiny *t)
{
    char path[512];
    DIR *d = opendir(t->dir);
    for (struct dirent *one; d && (one = readdir(d));) {
        snprintf(path, sizeof path, "%s/%s", t->dir, one->d_name);
        if (one->d_name[0] != '.')
            unlink(path);
    }
    if (d)
        closedir(d);
    rmdir(t->dir);
}
