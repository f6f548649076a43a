/* The packed sidecar of a model: every expert is one range of the file, read in one piece instead
 * of up to nine. `sluice pack` writes it. If it is there and belongs to the model, the engine reads
 * the experts from it, and everything else from the model's own files.
 *
 * Writing: one thread, one writer at a time (a lock). The file gets its name only when it is
 * complete; until then it is NAME.part, which the next run resumes. Reading: see expert_layout.h.
 */
#pragma once
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/err.h"
#include "engine/experts/pack/expert_layout.h"
#include "engine/model/model.h"

struct pack_progress {
    uint64_t bytes, bytes_total; /* of records: in the file, of all */
    uint64_t records, records_total;
    uint64_t records_kept; /* of them from an earlier run, read again and verified */
};

struct pack_params {
    const struct model *model;
    const char *folder;  /* target folder; NULL: beside the model's first file */
    uint64_t safe_bytes; /* written bytes between checkpoints: what a kill can lose; 0: 256 MiB */
    const volatile sig_atomic_t
        *stop; /* set by a signal: a checkpoint, then ERR_CANCELLED; NULL: none */
    void (*progress)(void *context,
                     const struct pack_progress *p); /* after each record; NULL: none */
    void *context;
};

/* The path at which the sidecar of this model is looked for: "FIRST FILE OF THE MODEL.experts", in
 * the model's folder or in `folder`. ERR_LIMIT: path too long. */
bool expert_pack_path(char *out, size_t size, const struct model *m, const char *folder,
                      struct err *e);
/* The size of the sidecar for this layout (from the model's own files); *records: the part of it
 * that is records. `records` may be NULL. */
uint64_t expert_pack_bytes(const struct expert_layout *l, uint64_t *records);
/* Writes it. *there: a complete one of this model existed, and nothing was done.
 * ERR_LIMIT: not enough room on the disk, checked before anything is written; ERR_BUSY: another
 * pack runs; ERR_IO: reading or writing failed; NAME.part stays for the next run; ERR_UNSUPPORTED
 * as expert_layout_open. */
bool expert_pack_write(const struct pack_params *p, bool *there, struct err *e);

/* A layout from the sidecar at path. ERR_NOTFOUND: none; ERR_CONFLICT: of another model, or of the
 * model as it was before it changed; ERR_FORMAT: incomplete, or of another version. The bytes of
 * records are not checked here: the cache does so when it first reads each. */
bool expert_pack_open(struct expert_layout *l, const struct model *m, const char *path,
                      struct err *e);
/* The sidecar's layout if it can be used, otherwise that of the model's own files. A sidecar that
 * exists and cannot be used is logged. */
bool expert_layout_pick(struct expert_layout *l, const struct model *m, const char *folder,
                        struct err *e);
