/* Reads GGUF metadata and tensor infos, and checks every length against the file before it is used.
 */
#include "engine/format/gguf.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define MAX_ALIGNMENT 65536

struct cursor {
    const uint8_t *data;
    size_t size, at;
};

static bool cut(struct err *e, const char *what)
{
    return err_set(e, ERR_FORMAT, "the file ends inside %s", what);
}

static bool take(struct cursor *c, void *out, size_t n, const char *what, struct err *e)
{
    if (n > c->size - c->at)
        return cut(e, what);
    memcpy(out, c->data + c->at, n);
    c->at += n;
    return true;
}

static bool take_string(struct cursor *c, struct gguf_string *s, const char *what, struct err *e)
{
    uint64_t n = 0;
    if (!take(c, &n, 8, what, e))
        return false;
    if (n > c->size - c->at)
        return cut(e, what);
    *s = (struct gguf_string){(const char *)c->data + c->at, (size_t)n};
    c->at += (size_t)n;
    return true;
}

static size_t type_size(enum gguf_type t)
{
    static const uint8_t sizes[GGUF_TYPE__N] = {
        [GGUF_U8] = 1,  [GGUF_I8] = 1,  [GGUF_U16] = 2, [GGUF_I16] = 2,
        [GGUF_U32] = 4, [GGUF_I32] = 4, [GGUF_F32] = 4, [GGUF_BOOL] = 1,
        [GGUF_U64] = 8, [GGUF_I64] = 8, [GGUF_F64] = 8};
    return sizes[t];
}

static bool take_type(struct cursor *c, enum gguf_type *t, struct err *e)
{
    uint32_t v = 0;
    if (!take(c, &v, 4, "a value's type", e))
        return false;
    if (v >= GGUF_TYPE__N)
        return err_set(e, ERR_FORMAT, "metadata of unknown type %u", v);
    *t = (enum gguf_type)v;
    return true;
}

/* Steps over n values of one type; strings are looked at one by one, so that readers need not. */
static bool skip_values(struct cursor *c, enum gguf_type t, uint64_t n, struct err *e)
{
    struct gguf_string s;
    if (t == GGUF_STRING) {
        for (uint64_t i = 0; i < n; i++)
            if (!take_string(c, &s, "a string of metadata", e))
                return false;
        return true;
    }
    if (n > (c->size - c->at) / type_size(t))
        return cut(e, "an array of metadata");
    c->at += (size_t)n * type_size(t);
    return true;
}

static int shown(size_t len)
{
    return len < 80 ? (int)len : 80;
}

static bool read_value(struct cursor *c, struct gguf_value *v, struct err *e)
{
    if (!take_string(c, &v->key, "a metadata key", e) || !take_type(c, &v->type, e))
        return false;
    v->n = 1;
    enum gguf_type t = v->type;
    if (t == GGUF_ARRAY) {
        if (!take_type(c, &v->element, e) || !take(c, &v->n, 8, "an array's length", e))
            return false;
        t = v->element;
        if (t == GGUF_ARRAY)
            return err_set(e, ERR_UNSUPPORTED, "metadata %.*s is an array of arrays",
                           shown(v->key.len), v->key.at);
    }
    v->at = c->data + c->at;
    return skip_values(c, t, v->n, e) ||
           err_prefix(e, "metadata %.*s", shown(v->key.len), v->key.at);
}

static bool read_tensor(struct cursor *c, struct gguf_tensor *t, struct err *e)
{
    uint32_t n_dims = 0;
    if (!take_string(c, &t->name, "a tensor's name", e) ||
        !take(c, &n_dims, 4, "a tensor's shape", e))
        return false;
    if (!t->name.len || t->name.len > 255 || memchr(t->name.at, 0, t->name.len))
        return err_set(e, ERR_FORMAT, "a tensor's name has %zu bytes or a NUL", t->name.len);
    if (n_dims > GGUF_MAX_DIMS)
        return err_set(e, ERR_FORMAT, "tensor %.*s has %u dimensions", (int)t->name.len, t->name.at,
                       n_dims);
    t->n_dims = (int)n_dims;
    for (uint32_t i = 0; i < n_dims; i++) {
        if (!take(c, &t->dims[i], 8, "a tensor's shape", e))
            return false;
        if (t->dims[i] < 0)
            return err_set(e, ERR_FORMAT, "tensor %.*s has a negative dimension", (int)t->name.len,
                           t->name.at);
    }
    return take(c, &t->type, 4, "a tensor's type", e) &&
           take(c, &t->offset, 8, "a tensor's place", e);
}

/* Counts are bounded by what could stand in the rest of the file before memory is taken for them.
 */
static bool read_head(struct cursor *c, struct gguf *g, struct err *e)
{
    char magic[4];
    uint32_t version = 0;
    if (!take(c, magic, 4, "the header", e) || !take(c, &version, 4, "the header", e))
        return false;
    if (memcmp(magic, "GGUF", 4))
        return err_set(e, ERR_FORMAT, "not a GGUF file");
    if (version != 2 && version != 3)
        return err_set(e, ERR_UNSUPPORTED, "GGUF version %u is not read here%s", version,
                       version & 0xffff ? "" : " (big-endian?)");
    if (!take(c, &g->n_tensors, 8, "the header", e) || !take(c, &g->n_values, 8, "the header", e))
        return false;
    size_t left = c->size - c->at;
    if (g->n_tensors > GGUF_MAX_TENSORS || g->n_tensors > left / 24 ||
        g->n_values > GGUF_MAX_KEYS || g->n_values > left / 12)
        return err_set(e, ERR_FORMAT,
                       "the header speaks of %" PRIu64 " tensors and %" PRIu64 " keys in %zu bytes",
                       g->n_tensors, g->n_values, g->size);
    return true;
}

static bool set_alignment(struct gguf *g, size_t at, struct err *e)
{
    double alignment = 32;
    gguf_number(g, "general.alignment", &alignment);
    g->alignment = alignment >= 1 && alignment <= MAX_ALIGNMENT ? (uint64_t)alignment : 0;
    if (!g->alignment || (g->alignment & (g->alignment - 1)))
        return err_set(e, ERR_FORMAT, "general.alignment is %g", alignment);
    g->data_start = (at + (size_t)g->alignment - 1) / (size_t)g->alignment * (size_t)g->alignment;
    if (g->data_start > g->size) /* a file without tensor data, such as a vocabulary alone */
        g->data_start = g->size;
    return true;
}

bool gguf_is(const void *data, size_t size)
{
    return size >= 4 && !memcmp(data, "GGUF", 4);
}

bool gguf_read(struct gguf *g, const void *data, size_t size, struct err *e)
{
    struct cursor c = {data, size, 0};
    *g = (struct gguf){.data = data, .size = size};
    if (!read_head(&c, g, e))
        return false;
    g->values = calloc((size_t)g->n_values + 1, sizeof *g->values);
    g->tensors = calloc((size_t)g->n_tensors + 1, sizeof *g->tensors);
    if (!g->values || !g->tensors)
        return err_set(e, ERR_NOMEM, "no memory for %" PRIu64 " tensors", g->n_tensors);
    for (uint64_t i = 0; i < g->n_values; i++)
        if (!read_value(&c, &g->values[i], e))
            return false;
    for (uint64_t i = 0; i < g->n_tensors; i++)
        if (!read_tensor(&c, &g->tensors[i], e))
            return false;
    return set_alignment(g, c.at, e);
}

bool gguf_open(struct gguf *g, const char *path, struct err *e)
{
    struct file_map map;
    *g = (struct gguf){0};
    if (!file_map(path, &map, e))
        return false;
    bool ok = gguf_read(g, map.data, map.size, e) || err_prefix(e, "%s", path);
    g->map = map;
    if (!ok)
        gguf_fini(g);
    return ok;
}

void gguf_fini(struct gguf *g)
{
    free(g->values);
    free(g->tensors);
    file_unmap(&g->map);
    *g = (struct gguf){0};
}

const struct gguf_value *gguf_find(const struct gguf *g, const char *key)
{
    size_t n = strlen(key);
    for (uint64_t i = 0; i < g->n_values; i++)
        if (g->values[i].key.len == n && !memcmp(g->values[i].key.at, key, n))
            return &g->values[i];
    return NULL;
}

static double number_at(const uint8_t *at, enum gguf_type t)
{
    union {
        uint8_t u8;
        int8_t i8;
        uint16_t u16;
        int16_t i16;
        uint32_t u32;
        int32_t i32;
        uint64_t u64;
        int64_t i64;
        float f32;
        double f64;
    } v;
    memcpy(&v, at, type_size(t));
    switch (t) {
    case GGUF_U8:
    case GGUF_BOOL:
        return v.u8;
    case GGUF_I8:
        return v.i8;
    case GGUF_U16:
        return v.u16;
    case GGUF_I16:
        return v.i16;
    case GGUF_U32:
        return v.u32;
    case GGUF_I32:
        return v.i32;
    case GGUF_F32:
        return (double)v.f32;
    case GGUF_U64:
        return (double)v.u64;
    case GGUF_I64:
        return (double)v.i64;
    default:
        return v.f64;
    }
}

bool gguf_number(const struct gguf *g, const char *key, double *out)
{
    const struct gguf_value *v = gguf_find(g, key);
    if (!v || v->type == GGUF_ARRAY || v->type == GGUF_STRING)
        return false;
    *out = number_at(v->at, v->type);
    return true;
}

bool gguf_get_string(const struct gguf *g, const char *key, struct gguf_string *out)
{
    const struct gguf_value *v = gguf_find(g, key);
    if (!v || v->type != GGUF_STRING)
        return false;
    uint64_t n;
    memcpy(&n, v->at, 8);
    *out = (struct gguf_string){(const char *)v->at + 8, (size_t)n};
    return true;
}

double gguf_array_number(const struct gguf_value *v, uint64_t i)
{
    return v->element == GGUF_STRING ? 0 : number_at(v->at + i * type_size(v->element), v->element);
}

struct gguf_string gguf_next_string(const struct gguf_value *v, const uint8_t **at)
{
    const uint8_t *p = *at ? *at : v->at;
    uint64_t n;
    memcpy(&n, p, 8);
    *at = p + 8 + n;
    return (struct gguf_string){(const char *)p + 8, (size_t)n};
}
