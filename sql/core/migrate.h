/* From whatever version the file has to this program's. Inside sql/ only. */
#pragma once
#include "engine/base/err.h"

struct store;
struct migration;

/* An empty file gets `schema`; an older one the migrations that it lacks, all in one transaction
 * with foreign keys checked at its end. ERR_FORMAT: newer than the last migration, or not our
 * database at all. Safe when several processes do it at once. */
bool migrate(struct store *s, const char *schema, const struct migration *table, struct err *e);
