/* The API's description (OpenAPI 3.1), made from the very table that dispatches: route.h's rows and
 * the schemas in fcgi/openapi/<noun>.json, which the build embeds. No state; thread-safe. */
#pragma once
#include <cjson/cJSON.h>

#include "engine/base/err.h"

/* One file of schemas: {"Name": {...}, ...}. */
struct openapi_schemas {
    const char *name, *text; /* "chat", its JSON; the last row is zeroed */
};
extern const struct openapi_schemas openapi_schemas[];

/* The whole document; the caller owns it. NULL: no memory, or (a bug, and a test's finding) a file
 * that is not JSON or a schema that is there twice. */
cJSON *openapi_document(struct err *e);
/* openapi_nulls.c: members that the body `name`, or what it refers to, need not have may be null in
 * it. seen: an object that names the schemas which have been gone through. */
void openapi_allow_nulls(cJSON *schemas, cJSON *seen, const char *name);
