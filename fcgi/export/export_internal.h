/* The state of one export, which export.c (documents) and archive.c (the ZIP of them) share. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "fcgi/export/export.h"
#include "fcgi/export/format.h"
#include "engine/base/zip_writer.h"

struct export
{
    const struct export_params *p;
    const struct export_format *format; /* of the document that is written; in an archive: JSON */
    struct export_writer w;
    struct export_tree tree;
    struct zip_writer *zip; /* or NULL */
    struct buf files;       /* of an archive: the index's rows of attachments */
    uint32_t number;        /* of the message that comes next */
    int64_t n_items;        /* of an API's conversation, so far */
    struct err e;           /* why a step returned false */
};

/* A document is open, put, ..., close. send: the writer's buffer is flushed once it is large
 * enough, or all of it. */
void export_open(struct export *x);
bool export_put(struct export *x, const struct store_export_conversation *c);
bool export_close(struct export *x);
bool export_send(struct export *x, bool all);
bool export_archive(struct export *x); /* the whole of it */
