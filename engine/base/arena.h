/* Memory of one request: many small allocations, freed together, capped in total.
 * Not thread-safe: one arena belongs to one request, one thread at a time. */
#pragma once
#include <stddef.h>

struct arena;

/* `limit` bytes at most over the arena's life (0: no limit). NULL when memory ran out. */
struct arena *arena_create(size_t limit);
/* Frees all that was taken from it. Accepts a NULL pointer in *a, and nulls it. */
void arena_destroy(struct arena **a);
/* Forgets all allocations but keeps the first block for the next request. */
void arena_reset(struct arena *a);
/* Zeroed, aligned to 16. NULL past the limit or when memory ran out. */
void *arena_alloc(struct arena *a, size_t size);
char *arena_copy(struct arena *a, const char *data, size_t len); /* adds a NUL */
char *arena_strdup(struct arena *a, const char *s);
char *arena_printf(struct arena *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
size_t arena_used(const struct arena *a);
