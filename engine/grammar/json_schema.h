/* JSON Schema (2020-12, a subset) to a grammar of the JSON texts that are valid by it. docs/API.md
 * states the subset; what lies outside is refused with its place, never ignored. The grammar may
 * leave out valid texts (other spellings of a number or a string, undeclared properties unless the
 * schema names them), and never lets an invalid one in. Bounded time and memory; thread-safe. */
#pragma once
#include <cjson/cJSON.h>
#include <stdbool.h>

#include "engine/base/err.h"
#include "engine/grammar/builder.h"

struct json_schema; /* what one builder's schemas share: whitespace, strings, any value */

struct json_schema *json_schema_create(struct builder *b, struct err *e);
void json_schema_destroy(struct json_schema **s);

/* The texts that are valid by `schema`; $ref is looked up in it. strict: OpenAI's rules for strict
 * mode hold as well. -1: *e (ERR_INPUT, ERR_UNSUPPORTED, ERR_LIMIT), its text begins with the
 * place, such as "#/properties/a: ...". The tree must stay until json_schema_destroy. */
expr json_schema_read(struct json_schema *s, const cJSON *schema, bool strict, struct err *e);
/* Is it, by its type or keywords, a schema of objects and of nothing else? */
bool json_schema_is_object(struct json_schema *s, const cJSON *schema);
/* Any JSON value; any JSON object. */
expr json_schema_any(struct json_schema *s);
expr json_schema_any_object(struct json_schema *s);

/* A function's parameters where a model writes each by itself, in tags of its format. */
struct json_parameter {
    const char *name;
    bool required;
    bool text; /* the schema takes strings only: `value` is plain text without quotes; else JSON */
    expr value;
};
struct json_parameter_sink {
    bool strict;
    const char *stop; /* values as plain text end before it */
    bool (*give)(void *context, const struct json_parameter *p); /* false: memory ran out */
    void *context;
};
/* Gives each property of an object schema, in order. False: *e; ERR_UNSUPPORTED when the schema is
 * no plain object with declared properties. */
bool json_schema_parameters(struct json_schema *s, const cJSON *schema,
                            const struct json_parameter_sink *sink, struct err *e);
