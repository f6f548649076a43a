/* DFlash drafters as z-lab publishes them (arXiv 2602.06036): layers of Qwen3's kind that see the
 * whole block, over keys and values of the hidden states of another model, whose embedding and head
 * they use. dflash_config names the layers that these are taken from and the mask token. */
#include "engine/model/family.h"

#include <string.h>

#include "engine/base/json/json.h"

static bool accept(struct config *c, struct err *e)
{
    const cJSON *all = json_member(c->root, "architectures");
    const cJSON *name = cJSON_GetArrayItem(all, 0);
    if (!cJSON_IsString(name) || strcmp(name->valuestring, "DFlashDraftModel") != 0)
        return err_set(e, ERR_UNSUPPORTED,
                       "DFlash drafter of architecture '%.40s': only DFlashDraftModel is read here",
                       cJSON_IsString(name) ? name->valuestring : "(none)");
    if (config_bool(c, "use_sliding_window", NULL, false) ||
        config_bool(c, "is_causal", NULL, false))
        return err_set(e, ERR_UNSUPPORTED,
                       "DFlash drafter with a sliding window or causal blocks: not read here");
    for (int32_t i = 0; config_string_at(c, "layer_types", i); i++)
        if (strcmp(config_string_at(c, "layer_types", i), "full_attention") != 0)
            return err_set(e, ERR_UNSUPPORTED, "DFlash drafter with %.40s: not read here",
                           config_string_at(c, "layer_types", i));
    return true;
}

/* A number of dflash_config, or of the configuration itself. */
static int32_t draft_number(struct config *c, const char *name, double min, double max)
{
    const cJSON *own = json_member(json_member(c->root, "dflash_config"), name);
    if (!own)
        own = json_member(c->root, name);
    const double v = cJSON_IsNumber(own) ? own->valuedouble : min - 1;
    if (v >= min && v <= max && v == (double)(int32_t)v)
        return (int32_t)v;
    config_fail(c, ERR_FORMAT, "dflash_config: %s is missing or not from %.0f to %.0f", name, min,
                max);
    return (int32_t)min;
}

static void read_taps(struct config *c, struct context_plan *p, int32_t n_layer)
{
    const cJSON *list = json_member(json_member(c->root, "dflash_config"), "target_layer_ids"),
                *one;
    const int n = cJSON_IsArray(list) ? cJSON_GetArraySize(list) : 0;
    if (n < 1 || n > PLAN_MAX_TAPS) {
        config_fail(c, ERR_FORMAT, "dflash_config: target_layer_ids has %d layers, want 1 to %d", n,
                    PLAN_MAX_TAPS);
        return;
    }
    cJSON_ArrayForEach (one, list) {
        const double v = cJSON_IsNumber(one) ? one->valuedouble : -1;
        if (!(v >= 0 && v < n_layer) || v != (double)(int32_t)v ||
            (p->n_taps && v <= p->taps[p->n_taps - 1])) {
            config_fail(c, ERR_FORMAT,
                        "dflash_config: target_layer_ids[%d] is no layer after the "
                        "one before, of %d",
                        p->n_taps, n_layer);
            return;
        }
        p->taps[p->n_taps++] = (int32_t)v;
    }
}

static void ends(struct config *c, struct binder *b, struct model_plan *p)
{
    static const struct names fc = {"fc", NULL}, hidden_norm = {"hidden_norm", NULL},
                              norm = {"norm", NULL};
    struct context_plan *context = &p->context;
    p->shares_ends = true;
    context->block = draft_number(c, "block_size", 2, 256);
    context->mask_token = draft_number(c, "mask_token_id", 0, p->n_vocab - 1);
    context->model_layers = draft_number(c, "num_target_layers", 1, 1024);
    read_taps(c, context, context->model_layers);
    bind_matrix(b, &context->fc, fc, p->d_model, context->n_taps * p->d_model);
    bind_vector(b, &context->norm, hidden_norm, p->d_model);
    bind_vector(b, &p->final_norm, norm, p->d_model);
}

static void layer(struct config *c, struct binder *b, struct model_plan *p, int32_t i)
{
    struct layer_plan *l = &p->layers[i];
    bind_vector(b, &l->mixer_norm, (struct names){"input_layernorm", NULL}, p->d_model);
    bind_vector(b, &l->ffn_norm, (struct names){"post_attention_layernorm", NULL}, p->d_model);
    l->mixer = MIXER_ATTENTION;
    l->attention.bidirectional = true;
    family_read_attention(c, &l->attention, p->d_model);
    family_attention_weights(b, &l->attention, p->d_model);
    family_qk_norms(b, &l->attention);
    l->ffn = FFN_DENSE;
    bind_mlp(b, &l->dense, (struct names){"mlp", ""}, family_dense_width(c), p->d_model);
}

const struct family family_dflash = {
    .name = "dflash",
    .model_types = (const char *const[]){NULL},
    .accept = accept,
    .read = family_read_common,
    .layer = layer,
    .ends = ends,
};
