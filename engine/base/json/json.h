/* The checked reader over cJSON: what it lets through is safe to walk.
 *
 * json_parse refuses (ERR_INPUT with line and column): ill-formed JSON, bytes after the value,
 * depth or size over the limit, invalid UTF-8, lone surrogates, \u0000 (C strings end there),
 * duplicate keys, numbers that are not finite. The getters below check types and ranges and name
 * the field in `e`. Thread-safe; the tree belongs to the caller (cJSON_Delete). */
#pragma once
#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/buf.h"
#include "engine/base/err.h"

struct json_limits {
    size_t max_bytes;      /* 0: 64 MiB */
    int max_depth;         /* 0: 64; at most 900 (cJSON's own limit is 1000) */
    bool allow_duplicates; /* files of others: the first of two equal keys wins */
    bool allow_nul;        /* files of others: \u0000 cuts the string there */
};

/* A number whose text says more than a double (1.0, 1e3, 12345678901234567890) keeps that text in
 * its valuestring; json_write writes it again. */
cJSON *json_parse(const char *text, size_t len, const struct json_limits *limits, struct err *e);
/* Reads and parses a file. */
cJSON *json_parse_file(const char *path, size_t max_bytes, struct err *e);

/* An upper bound of the values in a JSON text, before memory is spent on them: a value costs 64
 * bytes in the tree, however short its text. */
size_t json_count_values(const char *text, size_t len);

/* Getters: absent or null leaves *out alone and returns true; wrong type or range fails and names
 * `path` (NULL: the name itself). Strings stay owned by the tree. */
bool json_get_string(const cJSON *o, const char *name, const char **out, struct err *e);
bool json_get_bool(const cJSON *o, const char *name, bool *out, struct err *e);
bool json_get_int(const cJSON *o, const char *name, int64_t min, int64_t max, int64_t *out,
                  struct err *e);
bool json_get_number(const cJSON *o, const char *name, double min, double max, double *out,
                     struct err *e);
bool json_get_array(const cJSON *o, const char *name, const cJSON **out, struct err *e);
bool json_get_object(const cJSON *o, const char *name, const cJSON **out, struct err *e);
/* The member, or NULL when absent or null. Case-sensitive. */
const cJSON *json_member(const cJSON *o, const char *name);
/* The member's text, or NULL when it is absent or no string. It lives as long as the tree. */
const char *json_text(const cJSON *o, const char *name);
/* Whether an item of the list is this text. NULL, and what is no list, has none. */
bool json_has_text(const cJSON *list, const char *text);
/* Serialises a tree compactly into b (same escapes as buf_json_string). */
bool json_write(struct buf *b, const cJSON *v);
/* The same with ", " and ": " as Python's json.dumps(ensure_ascii=False) writes it. */
bool json_write_spaced(struct buf *b, const cJSON *v);
