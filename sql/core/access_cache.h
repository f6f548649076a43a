/* What a connection has read of who may do what (keys, limits, models), kept for as long as nobody
 * changes any of it: a request of the API asks for the same rows as the one before it, and after
 * each commit of another process SQLite reads every page of them anew. The database itself says
 * whether something has changed: triggers draw the number in access_stamp anew, whoever writes. So
 * what is found here is what a statement would find in the same read transaction. Inside sql/ only;
 * a connection is one thread's. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct store;

enum access_kind { ACCESS_KEY, ACCESS_LIMITS, ACCESS_MODEL };

struct access_name { /* what is looked for */
    enum access_kind kind;
    /* Not only in the read transaction that read the stamp, but for ACCESS_AFTER_MS after it: what
     * the same request reads a moment later. */
    bool after;
    const void *bytes; /* [len] len above ACCESS_NAME_BYTES: it is never found */
    size_t len;
};
#define ACCESS_NAME_BYTES 144
#define ACCESS_AFTER_MS 100.0

/* A read transaction has begun in which access_stamp is `stamp`: what was kept under another one
 * goes. Nothing is found after store_access_leave (store.h), which a write begins with. */
void access_cache_begin(struct store *s, int64_t stamp);
/* NULL: it is not known. Else the bytes that were put, aligned for any type, until the next put. */
const void *access_cache_get(struct store *s, const struct access_name *name);
/* Takes a copy, or nothing when there is no memory or the stamp is not known. */
void access_cache_put(struct store *s, const struct access_name *name, const void *value,
                      size_t len);
/* At any time: it is read anew the next time. */
void access_cache_drop(struct store *s, const struct access_name *name);
void access_cache_fini(struct store *s); /* accepts one that was never used */
