/* Inside the reader of JSON Schema: one file per kind of value. Private to json_schema.c and
 * schema_*.c. */
#pragma once
#include <cjson/cJSON.h>
#include <stddef.h>

#include "engine/grammar/json_schema.h"

#define SCHEMA_MAX_DEPTH 64    /* schemas within schemas */
#define SCHEMA_MAX_NODES 20000 /* schemas read in all, copies by merging included */
#define SCHEMA_MAX_REFS 4096
#define SCHEMA_MAX_ITEMS 50000      /* JSON values in one schema */
#define SCHEMA_MAX_COPIED 400000    /* JSON values copied by merging */
#define SCHEMA_MAX_COMPARED 4000000 /* pairs of listed values compared at once */

enum schema_type { /* bits */
                   TYPE_NULL = 1,
                   TYPE_BOOLEAN = 2,
                   TYPE_INTEGER = 4,
                   TYPE_NUMBER = 8,
                   TYPE_STRING = 16,
                   TYPE_ARRAY = 32,
                   TYPE_OBJECT = 64,
                   TYPE_ANY = 127 & ~4 /* number holds integer */
};

struct schema_ref {
    const cJSON *target;
    bool strict;
    expr rule;
};

struct json_schema {
    struct builder *b;
    const cJSON *root;
    bool strict;
    expr space, string, character, key_character, number, integer, any,
        any_object; /* -1: not made yet */
    struct schema_ref *refs;
    size_t n_refs;
    cJSON **made; /* merged schemas, freed at the end */
    size_t n_made, cap_made;
    int depth, n_nodes;
    size_t n_copied;
    char path[256]; /* "#/properties/a", cut when it is longer */
    size_t path_len;
    struct err *e;
};

/* One schema; its place is s->path. -1: *s->e. */
expr schema_read(struct json_schema *s, const cJSON *schema);
/* The same one step deeper: "/name" or "/name/key". */
expr schema_read_at(struct json_schema *s, const cJSON *schema, const char *name, const char *key);
/* Puts the place in front. Always -1. */
expr schema_fail(struct json_schema *s, enum err_code code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Is what stands under "properties" an object, or nothing? Names are looked for among its items: in
 * a list nothing has one. */
bool schema_has_names(struct json_schema *s, const cJSON *schema);

size_t schema_enter(struct json_schema *s, const char *name,
                    const char *key); /* returns what schema_leave wants */
void schema_leave(struct json_schema *s, size_t mark);

/* Types that a schema takes, by "type", "enum", "const" or its keywords; a $ref is followed. */
unsigned schema_types(struct json_schema *s, const cJSON *schema);
/* The target of a $ref, NULL: *s->e. */
const cJSON *schema_resolve(struct json_schema *s, const char *ref);
/* JSON values in a tree, itself included. */
size_t schema_items(const cJSON *v);
bool schema_is_annotation(const char *keyword);
/* Refuse keywords that can't be enforced, and a "type" that names no JSON type. */
bool schema_check_keywords(struct json_schema *s, const cJSON *schema);
bool schema_check_type(struct json_schema *s, const cJSON *schema);

expr schema_object(struct json_schema *s, const cJSON *schema);
expr schema_array(struct json_schema *s, const cJSON *schema);
expr schema_string(struct json_schema *s, const cJSON *schema);
expr schema_number(struct json_schema *s, const cJSON *schema, bool integer);
expr schema_enum(struct json_schema *s, const cJSON *schema);

/* A value between the tags of a call (see json_parameter): what the answer parser makes of it is
 * valid by the schema. It ends before `stop`, which it never holds. *text: plain text. */
expr schema_tag_value(struct json_schema *s, const cJSON *schema, const char *stop, bool *text);

/* Both at once, as a new schema that s owns; NULL: *s->e. */
const cJSON *schema_merge(struct json_schema *s, const cJSON *a, const cJSON *b);
/* Without the named member; owned by s. */
const cJSON *schema_without(struct json_schema *s, const cJSON *schema, const char *name);
/* Can no text that is made for one be valid by the other? */
bool schema_disjoint(struct json_schema *s, const cJSON *a, const cJSON *b);

expr schema_space(struct json_schema *s);     /* white space between tokens, bounded */
expr schema_character(struct json_schema *s); /* one character of a string's value, any spelling */
expr schema_any_string(struct json_schema *s);
/* A property's name as it is written, with its colon. */
expr schema_key(struct json_schema *s, const char *name);
/* Is this non-negative integer member there and in range? */
bool schema_count(struct json_schema *s, const cJSON *schema, const char *name, int64_t *out);
