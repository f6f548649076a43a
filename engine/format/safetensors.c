/* Reads the header of a safetensors file. It goes through the checked JSON reader, is walked once,
 * and the ranges are sorted to find overlaps. Holes between tensors are allowed: they hurt nobody.
 */
#include "engine/format/safetensors.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/json/json.h"

static const struct dtype {
    const char *name;
    enum tensor_type type;
    int bits;
} dtypes[] = {
    {"F32", TENSOR_F32, 32},   {"F16", TENSOR_F16, 16},      {"BF16", TENSOR_BF16, 16},
    {"U32", TENSOR_U32, 32},   {"U8", TENSOR_U8, 8},         {"I8", TENSOR_OTHER, 8},
    {"I16", TENSOR_OTHER, 16}, {"U16", TENSOR_OTHER, 16},    {"I32", TENSOR_OTHER, 32},
    {"I64", TENSOR_OTHER, 64}, {"U64", TENSOR_OTHER, 64},    {"F64", TENSOR_OTHER, 64},
    {"BOOL", TENSOR_OTHER, 8}, {"F8_E4M3", TENSOR_OTHER, 8}, {"F8_E5M2", TENSOR_OTHER, 8},
    {"F8_E8M0", TENSOR_U8, 8}, {"F4", TENSOR_OTHER, 4},      {"C64", TENSOR_OTHER, 64},
};

struct range {
    uint64_t begin, end;
    const char *name;
};

static const struct dtype *find_dtype(const char *name)
{
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        if (!strcmp(dtypes[i].name, name))
            return &dtypes[i];
    return NULL;
}

/* A whole number in [0, 2^53]; cJSON holds doubles. */
static bool whole(const cJSON *v, int64_t *out)
{
    if (!cJSON_IsNumber(v) || !(v->valuedouble >= 0) || v->valuedouble > 9007199254740992.0 ||
        v->valuedouble != floor(v->valuedouble))
        return false;
    *out = (int64_t)v->valuedouble;
    return true;
}

static bool read_shape(const cJSON *o, struct tensor *t, struct err *e)
{
    const cJSON *shape = json_member(o, "shape"), *d;
    if (!cJSON_IsArray(shape))
        return err_field(e, ERR_FORMAT, t->name, "tensor %s has no shape", t->name);
    cJSON_ArrayForEach (d, shape) {
        if (t->n_dims == TENSOR_MAX_DIMS)
            return err_field(e, ERR_FORMAT, t->name, "tensor %s has over %d dimensions", t->name,
                             TENSOR_MAX_DIMS);
        if (!whole(d, &t->dims[t->n_dims++]))
            return err_field(e, ERR_FORMAT, t->name, "tensor %s: a dimension is not a whole number",
                             t->name);
    }
    return true;
}

static bool read_range(const cJSON *o, const char *name, struct range *r, struct err *e)
{
    const cJSON *offsets = json_member(o, "data_offsets");
    int64_t begin, end;
    if (!cJSON_IsArray(offsets) || cJSON_GetArraySize(offsets) != 2 ||
        !whole(offsets->child, &begin) || !whole(offsets->child->next, &end) || begin > end)
        return err_field(e, ERR_FORMAT, name,
                         "tensor %s: data_offsets are not two ascending whole numbers", name);
    *r = (struct range){(uint64_t)begin, (uint64_t)end, name};
    return true;
}

/* One entry of the header, checked against the size of the data part. */
static bool read_entry(const cJSON *o, uint64_t data_size, struct tensor *t, struct range *r,
                       struct err *e)
{
    t->name = o->string;
    const char *type_name = NULL;
    if (!cJSON_IsObject(o) || !t->name[0])
        return err_set(e, ERR_FORMAT, "header entry '%.80s' is not a tensor", t->name);
    if (!json_get_string(o, "dtype", &type_name, e) || !type_name)
        return err_field(e, ERR_FORMAT, t->name, "tensor %s has no dtype", t->name);
    const struct dtype *dtype = find_dtype(type_name);
    if (!dtype)
        return err_field(e, ERR_FORMAT, t->name, "tensor %s: unknown dtype %.20s", t->name,
                         type_name);
    t->type = dtype->type;
    t->type_name = dtype->name;
    if (!read_shape(o, t, e) || !read_range(o, t->name, r, e))
        return false;
    int64_t count = tensor_count(t->dims, t->n_dims);
    if (count < 0 || count > INT64_MAX / dtype->bits)
        return err_field(e, ERR_FORMAT, t->name, "tensor %s: its shape is larger than any file",
                         t->name);
    uint64_t bytes = ((uint64_t)count * (uint64_t)dtype->bits + 7) / 8;
    if (r->end > data_size)
        return err_field(e, ERR_FORMAT, t->name,
                         "tensor %s ends at byte %" PRIu64 " of a data part of %" PRIu64
                         " bytes: the file is cut short",
                         t->name, r->end, data_size);
    if (r->end - r->begin != bytes)
        return err_field(e, ERR_FORMAT, t->name,
                         "tensor %s has %" PRIu64 " bytes, its shape and type want %" PRIu64,
                         t->name, r->end - r->begin, bytes);
    t->bytes = bytes;
    return true;
}

static int by_begin(const void *a, const void *b)
{
    const struct range *x = a, *y = b;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    return x->end < y->end ? -1 : x->end > y->end;
}

static bool check_overlap(struct range *ranges, size_t n, struct err *e)
{
    qsort(ranges, n, sizeof *ranges, by_begin);
    for (size_t i = 1; i < n; i++)
        if (ranges[i].begin < ranges[i - 1].end)
            return err_field(e, ERR_FORMAT, ranges[i].name, "tensors %s and %s overlap in the file",
                             ranges[i - 1].name, ranges[i].name);
    return true;
}

/* header: its bytes, behind the 8 of its length and in front of the data. */
static bool read_entries(const struct safetensors_source *s, uint64_t header, const cJSON *root,
                         struct tensor_table *t, struct err *e)
{
    const uint8_t *data = s->data + 8 + header;
    const uint64_t data_size = s->size - 8 - header;
    size_t count = 0, n = 0;
    const cJSON *o;
    cJSON_ArrayForEach (o, root)
        count++;
    struct range *ranges = calloc(count + 1, sizeof *ranges);
    if (!ranges)
        return err_set(e, ERR_NOMEM, "no memory for a header of %zu tensors", count);
    bool ok = false;
    cJSON_ArrayForEach (o, root) {
        if (!strcmp(o->string, "__metadata__"))
            continue;
        struct tensor one = {.file = s->file};
        if (!read_entry(o, data_size, &one, &ranges[n], e))
            goto out;
        one.data = data + ranges[n++].begin;
        if ((!s->want || s->want(s->context, one.name)) && !tensor_table_add(t, &one, e))
            goto out;
    }
    ok = check_overlap(ranges, n, e);
out:
    free(ranges);
    return ok;
}

bool safetensors_read(const struct safetensors_source *s, struct tensor_table *t, struct err *e)
{
    const uint8_t *data = s->data;
    const size_t size = s->size;
    if (size < 8)
        return err_set(e, ERR_FORMAT, "not a safetensors file: %zu bytes", size);
    uint64_t header = 0;
    for (int i = 7; i >= 0; i--)
        header = header << 8 | data[i];
    if (header > size - 8)
        return err_set(e, ERR_FORMAT,
                       "header of %" PRIu64 " bytes in a file of %zu: cut short or not safetensors",
                       header, size);
    if (header > SAFETENSORS_MAX_HEADER)
        return err_set(e, ERR_FORMAT, "header of %" PRIu64 " bytes, over the format's limit of %u",
                       header, SAFETENSORS_MAX_HEADER);
    cJSON *root =
        json_parse((const char *)data + 8, (size_t)header,
                   &(struct json_limits){.max_bytes = SAFETENSORS_MAX_HEADER, .max_depth = 8}, e);
    if (!root) {
        if (e && e->code == ERR_INPUT)
            e->code = ERR_FORMAT;
        return err_prefix(e, "safetensors header");
    }
    bool ok = cJSON_IsObject(root) ? read_entries(s, header, root, t, e)
                                   : err_set(e, ERR_FORMAT, "safetensors header is not an object");
    cJSON_Delete(root);
    return ok;
}
