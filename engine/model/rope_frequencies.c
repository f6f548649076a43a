/* Rotary frequencies: plain, linear, YaRN and Llama 3's scaling, as transformers computes them. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/json/json.h"
#include "engine/format/gguf.h"
#include "engine/model/family.h"

struct scaling {
    const char *type;
    double factor, original, beta_fast, beta_slow, low, high, attention_factor;
    bool truncate;
};

static double member(const cJSON *o, const char *name, double fallback)
{
    const cJSON *v = json_member(o, name);
    return cJSON_IsNumber(v) ? v->valuedouble : fallback;
}

static void read_json(struct config *c, struct scaling *s)
{
    const cJSON *o = config_rope(c), *v;
    if (!o)
        return;
    if (cJSON_IsString(v = json_member(o, "rope_type")) ||
        cJSON_IsString(v = json_member(o, "type")))
        s->type = v->valuestring;
    s->factor = member(o, "factor", 1);
    s->original = member(o, "original_max_position_embeddings",
                         config_int(c, key_or("max_position_embeddings", NULL, 1, 1 << 30, 4096)));
    s->beta_fast = member(o, "beta_fast", 32);
    s->beta_slow = member(o, "beta_slow", 1);
    s->low = member(o, "low_freq_factor", 1);
    s->high = member(o, "high_freq_factor", 4);
    s->attention_factor = member(o, "attention_factor", 0);
    s->truncate = !cJSON_IsFalse(json_member(o, "truncate"));
}

/* GGUF has no word for an unrounded YaRN range, nor for Llama 3's scaling (that is in a tensor of
 * factors). */
static void read_gguf(struct config *c, struct scaling *s)
{
    static const char *const known[] = {"yarn", "linear"};
    char key[96];
    struct gguf_string type;
    snprintf(key, sizeof key, "%s.rope.scaling.type", c->arch);
    for (size_t i = 0; i < 2 && gguf_get_string(c->gguf, key, &type); i++)
        if (type.len == strlen(known[i]) && !memcmp(type.at, known[i], type.len))
            s->type = known[i];
    s->factor = config_number(c, key_or(NULL, "rope.scaling.factor", 0, 1e6, 1));
    s->original =
        config_number(c, key_or(NULL, "rope.scaling.original_context_length", 1, 1 << 30, 4096));
    s->beta_fast = config_number(c, key_or(NULL, "rope.scaling.yarn_beta_fast", 0, 1e6, 32));
    s->beta_slow = config_number(c, key_or(NULL, "rope.scaling.yarn_beta_slow", 0, 1e6, 1));
    s->attention_factor = config_number(c, key_or(NULL, "rope.scaling.attn_factor", 0, 1e6, 0));
    s->truncate =
        strcmp(c->arch, "gpt-oss") != 0; /* every gpt-oss is published with truncate: false */
}

/* The dimension pair at which `turns` full turns are made over the original context. */
static double correction_pair(double turns, const struct scaling *s, double base, int32_t n_dims)
{
    return n_dims * log(s->original / (turns * 2 * M_PI)) / (2 * log(base));
}

static void yarn(struct rope_plan *r, const struct scaling *s, double base)
{
    double low = correction_pair(s->beta_fast, s, base, r->n_dims);
    double high = correction_pair(s->beta_slow, s, base, r->n_dims);
    if (s->truncate) {
        low = floor(low);
        high = ceil(high);
    }
    low = fmax(low, 0);
    high = fmin(high, r->n_dims - 1);
    if (low == high)
        high += 0.001;
    for (int32_t i = 0; i < r->n_dims / 2; i++) {
        double ramp = fmin(fmax((i - low) / (high - low), 0), 1);
        double plain = r->inv_freq[i];
        r->inv_freq[i] = (float)(plain / s->factor * ramp + plain * (1 - ramp));
    }
    r->scale = (float)(s->attention_factor > 0 ? s->attention_factor
                       : s->factor > 1         ? 0.1 * log(s->factor) + 1
                                               : 1);
}

static void llama3(struct rope_plan *r, const struct scaling *s)
{
    for (int32_t i = 0; i < r->n_dims / 2; i++) {
        double wave = 2 * M_PI / r->inv_freq[i];
        double smooth = (s->original / wave - s->low) / (s->high - s->low);
        smooth = fmin(fmax(smooth, 0), 1);
        r->inv_freq[i] =
            (float)((1 - smooth) * r->inv_freq[i] / s->factor + smooth * r->inv_freq[i]);
    }
}

static double rope_base(struct config *c)
{
    const cJSON *o = config_rope(c);
    double base = o ? member(o, "rope_theta", 0) : 0;
    return base >= 1 ? base
                     : config_number(c, key_or("rope_theta", "rope.freq_base", 1, 1e12, 10000));
}

void family_rope(struct config *c, struct rope_plan *r, int32_t n_dims)
{
    struct scaling s = {.type = "default", .factor = 1, .original = 1};
    if (c->gguf)
        read_gguf(c, &s);
    else
        read_json(c, &s);
    double base = rope_base(c);
    *r = (struct rope_plan){.n_dims = n_dims, .scale = 1};
    if (n_dims < 2 || n_dims % 2 || n_dims / 2 > PLAN_MAX_ROPE_PAIRS) {
        config_fail(c, ERR_UNSUPPORTED, "rotary over %d dimensions", n_dims);
        return;
    }
    if (!(s.factor >= 1 && s.factor <= 1e6 && s.original >= 1)) {
        config_fail(c, ERR_FORMAT, "rotary scaling with factor %g over %g positions", s.factor,
                    s.original);
        return;
    }
    for (int32_t i = 0; i < n_dims / 2;
         i++) /* in f32, as the references do: long contexts show the difference */
        r->inv_freq[i] = 1 / powf((float)base, (float)(2 * i) / (float)n_dims);
    if (!strcmp(s.type, "yarn"))
        yarn(r, &s, base);
    else if (!strcmp(s.type, "llama3"))
        llama3(r, &s);
    else if (!strcmp(s.type, "linear"))
        for (int32_t i = 0; i < n_dims / 2; i++)
            r->inv_freq[i] /= (float)s.factor;
    else if (strcmp(s.type, "default") && strcmp(s.type, "mrope"))
        config_fail(c, ERR_UNSUPPORTED, "rotary scaling '%.32s' is not known here", s.type);
}

int32_t family_rotary_dims(struct config *c, int32_t d_head)
{
    const cJSON *o = config_rope(c);
    double part = o ? member(o, "partial_rotary_factor", 0) : 0;
    if (c->gguf)
        return config_int(c, key_or(NULL, "rope.dimension_count", 1, 4096, d_head));
    if (part <= 0)
        part = config_number(c, key_or("partial_rotary_factor", NULL, 0, 1, 1));
    return part > 0 && part <= 1 ? (int32_t)(d_head * part) : d_head;
}

void family_rope_factors(struct binder *b, struct rope_plan *r)
{
    struct vector factors;
    bind_vector_optional(b, &factors, (struct names){NULL, "rope_freqs"}, r->n_dims / 2);
    for (int32_t i = 0; factors.at && i < factors.n; i++)
        if (factors.at[i] > 0)
            r->inv_freq[i] /= factors.at[i];
}
