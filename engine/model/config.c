/* Looks up a configuration's values by the names of config.json or of GGUF's metadata, and checks
 * their types and ranges. */
#include "engine/model/config.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/json/json.h"
#include "engine/format/gguf.h"

#define CONFIG_MAX_BYTES (16u << 20)

bool config_open(struct config *c, const char *path, struct err *e)
{
    *c = (struct config){0};
    c->root = json_parse_file(path, CONFIG_MAX_BYTES, e);
    if (!c->root) {
        if (e && e->code == ERR_INPUT)
            e->code = ERR_FORMAT;
        return err_prefix(e, "config.json");
    }
    if (!cJSON_IsObject(c->root)) {
        config_close(c);
        return err_set(e, ERR_FORMAT, "config.json is not an object");
    }
    const cJSON *text = json_member(c->root, "text_config");
    c->text = cJSON_IsObject(text) ? text : c->root;
    return true;
}

bool config_open_gguf(struct config *c, const struct gguf *g, struct err *e)
{
    struct gguf_string arch;
    *c = (struct config){.gguf = g};
    if (!gguf_get_string(g, "general.architecture", &arch) || arch.len >= sizeof c->arch)
        return err_set(e, ERR_FORMAT, "general.architecture is missing");
    snprintf(c->arch, sizeof c->arch, "%.*s", (int)arch.len, arch.at);
    static const char embedding[] = "token_embd.weight";
    for (uint64_t i = 0; i < g->n_tensors; i++) {
        const struct gguf_tensor *t = &g->tensors[i];
        if (t->name.len == sizeof embedding - 1 && !memcmp(t->name.at, embedding, t->name.len) &&
            t->n_dims == 2 && t->dims[1] <= INT32_MAX)
            c->n_vocab = (int32_t)t->dims[1];
    }
    return true;
}

void config_close(struct config *c)
{
    cJSON_Delete(c->root);
    *c = (struct config){0};
}

bool config_fail(struct config *c, enum err_code code, const char *fmt, ...)
{
    if (c->failed)
        return false;
    char text[256];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    c->failed = true;
    return err_set(&c->failure, code, "%s: %s", c->root ? "config.json" : "GGUF metadata", text);
}

/* "a.b" goes one level down. The text part is tried first: multimodal files keep most keys there.
 */
static const cJSON *find(const struct config *c, const char *name)
{
    if (!name || !c->text) /* GGUF: there is no tree */
        return NULL;
    const char *dot = strchr(name, '.');
    if (dot) {
        char outer[64];
        snprintf(outer, sizeof outer, "%.*s", (int)(dot - name), name);
        const cJSON *o = find(c, outer);
        return o ? json_member(o, dot + 1) : NULL;
    }
    const cJSON *v = json_member(c->text, name);
    return v ? v : json_member(c->root, name);
}

/* "KEY" is ARCH.KEY; "/KEY" is KEY itself. */
static const struct gguf_value *find_gguf(const struct config *c, const char *key)
{
    char full[192];
    if (!key)
        return NULL;
    if (key[0] == '/')
        return gguf_find(c->gguf, key + 1);
    snprintf(full, sizeof full, "%s.%s", c->arch, key);
    return gguf_find(c->gguf, full);
}

bool config_has(const struct config *c, const char *hf, const char *gguf)
{
    return c->gguf ? find_gguf(c, gguf) != NULL : find(c, hf) != NULL;
}

static const char *name_of(const struct config *c, struct key k)
{
    const char *name = c->gguf ? k.gguf : k.hf;
    return name ? name : k.hf ? k.hf : k.gguf;
}

static double check_range(struct config *c, struct key k, double v)
{
    if (v >= k.min && v <= k.max)
        return v;
    config_fail(c, ERR_FORMAT, "%s is %g, want %g to %g", name_of(c, k), v, k.min, k.max);
    return k.min;
}

static double absent(struct config *c, struct key k)
{
    if (k.optional)
        return k.fallback;
    config_fail(c, ERR_FORMAT, "%s is missing", name_of(c, k));
    return k.min;
}

/* Entry i of a list, or the number itself; i < 0: a list must hold one number all over. */
static double json_number(struct config *c, struct key k, int32_t i)
{
    const cJSON *v = find(c, k.hf);
    if (i >= 0 && cJSON_IsArray(v)) {
        v = cJSON_GetArrayItem(v, i);
        if (!v)
            config_fail(c, ERR_FORMAT, "%s has no entry for layer %d", k.hf, i);
    }
    if (!v)
        return absent(c, k);
    if (!cJSON_IsNumber(v)) {
        config_fail(c, ERR_FORMAT, "%s is not a number", k.hf);
        return k.min;
    }
    return check_range(c, k, v->valuedouble);
}

static double gguf_number_of(struct config *c, struct key k, int32_t i)
{
    const struct gguf_value *v = find_gguf(c, k.gguf);
    double first;
    if (!v)
        return absent(c, k);
    if (v->type == GGUF_STRING || (v->type == GGUF_ARRAY && (v->element == GGUF_STRING || !v->n))) {
        config_fail(c, ERR_FORMAT, "%s is not a number", k.gguf);
        return k.min;
    }
    if (v->type != GGUF_ARRAY) {
        struct gguf_value one = *v;
        one.element = v->type;
        return check_range(c, k, gguf_array_number(&one, 0));
    }
    if (i >= 0 && (uint64_t)i < v->n)
        return check_range(c, k, gguf_array_number(v, (uint64_t)i));
    first = gguf_array_number(v, 0);
    for (uint64_t n = 1; n < v->n; n++)
        if (gguf_array_number(v, n) != first)
            config_fail(c, ERR_UNSUPPORTED, "%s differs from layer to layer", k.gguf);
    return check_range(c, k, first);
}

static int32_t to_int(struct config *c, struct key k, double v)
{
    if (v != floor(v) || fabs(v) > INT32_MAX) {
        config_fail(c, ERR_FORMAT, "%s is %g, want a whole number", name_of(c, k), v);
        return (int32_t)k.min;
    }
    return (int32_t)v;
}

double config_number(struct config *c, struct key k)
{
    return c->gguf ? gguf_number_of(c, k, -1) : json_number(c, k, -1);
}

int32_t config_int(struct config *c, struct key k)
{
    return to_int(c, k, config_number(c, k));
}

bool config_bool(struct config *c, const char *hf, const char *gguf, bool fallback)
{
    if (c->gguf)
        return gguf_number_of(c, key_or(hf, gguf, 0, 1, fallback), -1) != 0;
    const cJSON *v = find(c, hf);
    if (cJSON_IsBool(v))
        return cJSON_IsTrue(v);
    if (v)
        config_fail(c, ERR_FORMAT, "%s is not true or false", hf);
    return fallback;
}

const char *config_string(struct config *c, const char *hf)
{
    const cJSON *v = find(c, hf);
    if (v && !cJSON_IsString(v))
        config_fail(c, ERR_FORMAT, "%s is not a string", hf);
    return cJSON_IsString(v) ? v->valuestring : NULL;
}

const char *config_string_at(struct config *c, const char *hf, int32_t i)
{
    const cJSON *v = find(c, hf);
    if (!v)
        return NULL;
    v = cJSON_IsArray(v) ? cJSON_GetArrayItem(v, i) : NULL;
    if (!cJSON_IsString(v)) {
        config_fail(c, ERR_FORMAT, "%s has no string for layer %d", hf, i);
        return NULL;
    }
    return v->valuestring;
}

bool config_list_has(struct config *c, const char *hf, int32_t n)
{
    const cJSON *list = find(c, hf), *v;
    if (list && !cJSON_IsArray(list))
        return config_fail(c, ERR_FORMAT, "%s is not a list", hf);
    cJSON_ArrayForEach (v, list)
        if (cJSON_IsNumber(v) && v->valuedouble == n)
            return true;
    return false;
}

const cJSON *config_rope(const struct config *c)
{
    const cJSON *v = find(c, "rope_parameters");
    if (!cJSON_IsObject(v))
        v = find(c, "rope_scaling");
    return cJSON_IsObject(v) ? v : NULL;
}

static const cJSON *quantization_object(const struct config *c)
{
    const cJSON *q = c->root ? json_member(c->root, "quantization") : NULL;
    if (!cJSON_IsObject(q) && c->root) { /* some converters write only the other name */
        const cJSON *other = json_member(c->root, "quantization_config");
        q = cJSON_IsObject(other) && json_member(other, "group_size") &&
                    !json_member(other, "quant_method")
                ? other
                : NULL;
    }
    return cJSON_IsObject(q) ? q : NULL;
}

static bool read_quantization(const cJSON *o, const char *where, struct quantization *q,
                              struct err *e)
{
    const char *mode = "affine";
    int64_t bits = 4, group = 0;
    if (!json_get_string(o, "mode", &mode, e) || !json_get_int(o, "bits", 1, 32, &bits, e) ||
        !json_get_int(o, "group_size", 1, 4096, &group, e)) {
        if (e)
            e->code = ERR_FORMAT;
        return err_prefix(e, "config.json: quantization of %s", where);
    }
    bool mxfp4 = !strcmp(mode, "mxfp4");
    if (!group)
        group = mxfp4 ? 32 : 64; /* mlx's defaults */
    *q = (struct quantization){.bits = (int)bits, .group = (int)group};
    if (mxfp4) {
        q->mode = QUANT_MXFP4;
        if (bits == 4 && group == 32)
            return true;
    } else if (!strcmp(mode, "affine")) {
        q->mode = QUANT_AFFINE;
        bool bits_ok = bits >= 2 && bits <= 8 && bits != 7;
        if (bits_ok && (group == 32 || group == 64 || group == 128))
            return true;
    }
    return err_field(e, ERR_UNSUPPORTED, where,
                     "quantization of %s: mode %.20s, %d bits in groups of %d is not read here",
                     where, mode, (int)bits, (int)group);
}

bool config_quantization(const struct config *c, const char *module, struct quantization *q,
                         struct err *e)
{
    *q = (struct quantization){0};
    const cJSON *all = quantization_object(c);
    if (!all)
        return true;
    const cJSON *own = json_member(all, module);
    if (cJSON_IsBool(own) && cJSON_IsFalse(own))
        return true;
    if (cJSON_IsObject(own))
        return read_quantization(own, module, q, e);
    return read_quantization(all, module, q, e);
}

bool config_check_scheme(const struct config *c, struct err *e)
{
    const cJSON *o = c->root ? json_member(c->root, "quantization_config") : NULL;
    const char *method = NULL;
    if (!cJSON_IsObject(o) || !json_get_string(o, "quant_method", &method, NULL) || !method)
        return true;
    if (!strcmp(method, "mxfp4"))
        return true;
    return err_field(e, ERR_UNSUPPORTED, "quantization_config",
                     "config.json: weights quantized by '%.32s' are not read here", method);
}
