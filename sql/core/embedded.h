/* The SQL of this folder as the build put it into the program (sql/embed.awk). Inside sql/ only. */
#pragma once
#include "sql/queries.gen.h"

struct migration {
    int version;      /* the user_version that it leads to; 1, 2, 3 ... without gaps */
    const char *name; /* of its file */
    const char *text; /* ends with its own PRAGMA user_version */
};

extern const char *const query_text[QUERY__N];
extern const char *const query_name[QUERY__N];   /* as in their "-- name:" lines */
extern const struct migration migration_table[]; /* ended by version 0 */
extern const char schema_sql[], connection_sql[];
