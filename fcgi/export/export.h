/* Exports one user's conversations as one document or one archive, written to a sink as they are
 * read.
 *
 * Memory: one message, 16 bytes per message of one conversation, and in an archive about 150 bytes
 * per file. The caller begins the snapshot (sql/chats/store_export.h) and ends it. Used by the API
 * and by `sluice export`. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/buf.h"
#include "engine/base/err.h"
#include "sql/chats/store_export.h"

struct export_format;
struct store;

#define EXPORT_FORMATS "json, jsonl, markdown, html, text, zip"

struct export_sink {
    bool (*write)(void *context, const void *data, size_t len, struct err *e);
    void *context;
};

struct export_params {
    struct store *store;
    struct store_export which;
    const struct export_format *format;
    int64_t
        exported_at; /* Unix ms: stands in the export; an answer that is being written ends there */
    struct export_sink sink;
    const struct buf *account; /* of an archive: goes in as account.json, and what the API keeps
                                  beside it; NULL: neither */
};

/* By name ("json"); NULL: there is none. */
const struct export_format *export_format_find(const char *name);
const char *export_format_media(const struct export_format *f); /* with charset */
/* Does writing the same twice cost little (no compression)? Then its length can be told before. */
bool export_format_plain(const struct export_format *f);

/* False: *e; what was written so far is not a whole export. */
bool export_run(const struct export_params *p, struct err *e);
/* The bytes that export_run would write. Reads everything once. */
bool export_measure(const struct export_params *p, uint64_t *bytes, struct err *e);

/* "my-title.md" for one conversation, else "sluice-2026-11-21.json"; UTF-8 without control
 * characters or '/'. title NULL: not for one. */
void export_file_name(struct buf *out, const struct export_format *f, const char *title,
                      int64_t exported_at);
