/* Parses JSON that json_scan.c has checked before cJSON reads it, and gives the tree's members out
 * by checked getters. */
#include "engine/base/json/json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/file.h"
#include "engine/base/json/json_scan.h"

#define DEFAULT_MAX_BYTES ((size_t)64 << 20)
#define DEFAULT_MAX_DEPTH 64
#define HARD_MAX_DEPTH 900

cJSON *json_parse(const char *text, size_t len, const struct json_limits *limits, struct err *e)
{
    struct json_limits l = limits ? *limits : (struct json_limits){0};
    size_t max = l.max_bytes ? l.max_bytes : DEFAULT_MAX_BYTES;
    int depth = l.max_depth ? l.max_depth : DEFAULT_MAX_DEPTH;
    if (len > max) {
        err_set(e, ERR_LIMIT, "JSON of %zu bytes is over the limit of %zu", len, max);
        return NULL;
    }
    l.max_depth = depth < HARD_MAX_DEPTH ? depth : HARD_MAX_DEPTH;
    if (!json_scan(text, len, &l, e))
        return NULL;
    cJSON *v = cJSON_ParseWithLengthOpts(text, len, NULL, false);
    if (!v) {
        err_set(e, ERR_INPUT, "JSON is not well-formed");
    } else if (!json_keep_literals(text, len, v)) {
        cJSON_Delete(v);
        v = NULL;
        err_set(e, ERR_NOMEM, "memory ran out for JSON of %zu bytes", len);
    }
    return v;
}

size_t json_count_values(const char *s, size_t len)
{
    size_t n = 1;
    bool quoted = false;
    for (size_t i = 0; i < len; i++)
        if (quoted && s[i] == '\\')
            i++;
        else if (s[i] == '"')
            quoted = !quoted;
        else if (!quoted && (s[i] == ',' || s[i] == '[' || s[i] == '{'))
            n++;
    return n;
}

cJSON *json_parse_file(const char *path, size_t max_bytes, struct err *e)
{
    struct buf b = {0};
    cJSON *v = NULL;
    struct json_limits l = {
        .max_bytes = max_bytes, .max_depth = 200, .allow_duplicates = true, .allow_nul = true};
    if (file_read(path, max_bytes, &b, e)) {
        v = json_parse(b.data ? b.data : "", b.len, &l, e);
        if (!v) {
            err_prefix(e, "%s", path);
            if (e && e->code == ERR_INPUT)
                e->code = ERR_FORMAT;
        }
    }
    buf_fini(&b);
    return v;
}

const cJSON *json_member(const cJSON *o, const char *name)
{
    const cJSON *m = cJSON_GetObjectItemCaseSensitive(o, name);
    return cJSON_IsNull(m) ? NULL : m;
}

const char *json_text(const cJSON *o, const char *name)
{
    return cJSON_GetStringValue(json_member(o, name));
}

bool json_has_text(const cJSON *list, const char *text)
{
    const cJSON *item;
    if (cJSON_IsArray(list))
        cJSON_ArrayForEach (item, list)
            if (cJSON_IsString(item) && !strcmp(item->valuestring, text))
                return true;
    return false;
}

bool json_get_string(const cJSON *o, const char *name, const char **out, struct err *e)
{
    const cJSON *m = json_member(o, name);
    if (!m)
        return true;
    if (!cJSON_IsString(m))
        return err_field(e, ERR_INPUT, name, "must be a string");
    *out = m->valuestring;
    return true;
}

bool json_get_bool(const cJSON *o, const char *name, bool *out, struct err *e)
{
    const cJSON *m = json_member(o, name);
    if (!m)
        return true;
    if (!cJSON_IsBool(m))
        return err_field(e, ERR_INPUT, name, "must be true or false");
    *out = cJSON_IsTrue(m);
    return true;
}

bool json_get_int(const cJSON *o, const char *name, int64_t min, int64_t max, int64_t *out,
                  struct err *e)
{
    const cJSON *m = json_member(o, name);
    if (!m)
        return true;
    if (!cJSON_IsNumber(m) || m->valuedouble != floor(m->valuedouble))
        return err_field(e, ERR_INPUT, name, "must be a whole number");
    if (fabs(m->valuedouble) > 9007199254740992.0 || (int64_t)m->valuedouble < min ||
        (int64_t)m->valuedouble > max)
        return err_field(e, ERR_INPUT, name, "must be from %lld to %lld", (long long)min,
                         (long long)max);
    *out = (int64_t)m->valuedouble;
    return true;
}

bool json_get_number(const cJSON *o, const char *name, double min, double max, double *out,
                     struct err *e)
{
    const cJSON *m = json_member(o, name);
    if (!m)
        return true;
    if (!cJSON_IsNumber(m))
        return err_field(e, ERR_INPUT, name, "must be a number");
    if (!(m->valuedouble >= min && m->valuedouble <= max))
        return err_field(e, ERR_INPUT, name, "must be from %g to %g", min, max);
    *out = m->valuedouble;
    return true;
}

bool json_get_array(const cJSON *o, const char *name, const cJSON **out, struct err *e)
{
    const cJSON *m = json_member(o, name);
    if (m && !cJSON_IsArray(m))
        return err_field(e, ERR_INPUT, name, "must be an array");
    if (m)
        *out = m;
    return true;
}

bool json_get_object(const cJSON *o, const char *name, const cJSON **out, struct err *e)
{
    const cJSON *m = json_member(o, name);
    if (m && !cJSON_IsObject(m))
        return err_field(e, ERR_INPUT, name, "must be an object");
    if (m)
        *out = m;
    return true;
}

static bool write_value(struct buf *b, const cJSON *v, const char *comma, const char *colon)
{
    if (cJSON_IsString(v))
        return buf_json_string(b, v->valuestring, strlen(v->valuestring));
    if (cJSON_IsNumber(v)) {
        if (v->valuestring && strtod(v->valuestring, NULL) == v->valuedouble)
            return buf_puts(b,
                            v->valuestring); /* as it was read, unless someone changed it since */
        return buf_json_number(b, v->valuedouble);
    }
    if (cJSON_IsRaw(v))
        return buf_puts(b, v->valuestring);
    if (!cJSON_IsArray(v) && !cJSON_IsObject(v))
        return buf_puts(b, cJSON_IsTrue(v) ? "true" : cJSON_IsFalse(v) ? "false" : "null");
    bool object = cJSON_IsObject(v);
    buf_putc(b, object ? '{' : '[');
    for (const cJSON *m = v->child; m; m = m->next) {
        if (m != v->child)
            buf_puts(b, comma);
        if (object) {
            buf_json_string(b, m->string, strlen(m->string));
            buf_puts(b, colon);
        }
        write_value(b, m, comma, colon); /* depth is bounded by the reader's limit */
    }
    return buf_putc(b, object ? '}' : ']');
}

bool json_write(struct buf *b, const cJSON *v)
{
    return write_value(b, v, ",", ":");
}

bool json_write_spaced(struct buf *b, const cJSON *v)
{
    return write_value(b, v, ", ", ": ");
}
