/* The packed sidecar of a model: every expert as one run of its file, so that it is read in one piece and not in up to
 * nine. `sluice pack` writes it; the engine takes it in place of the model's own files for the experts, and for nothing
 * else, when it is there and belongs to the model.
 *
 * Writing: one thread, one writer at a time (a lock). The file has its name only when it is whole; until then it is
 * NAME.part, which the next run goes on with. Reading: see expert_layout.h. */
#pragma once
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/err.h"
#include "engine/experts/pack/expert_layout.h"
#include "engine/model/model.h"

struct pack_progress {
    uint64_t bytes, bytes_total;     /* of records: in the file, of all */
    uint64_t records, records_total;
    uint64_t records_kept;           /* of them from an earlier run, read again and found right */
};

struct pack_params {
    const struct model *model;
    const char *folder;  /* where to; NULL: beside the model's first file */
    uint64_t safe_bytes; /* after so many written bytes they are made safe: what a kill may cost; 0: 256 MiB */
    const volatile sig_atomic_t *stop; /* set by a signal: ERR_CANCELLED after what is done was made safe; NULL: none */
    void (*progress)(void *context, const struct pack_progress *p); /* after each record; NULL: none */
    void *context;
};

/* Where the sidecar of this model is looked for: "FIRST FILE OF THE MODEL.experts", in the model's folder or in
 * `folder`. ERR_LIMIT: path too long. */
bool expert_pack_path(char *out, size_t size, const struct model *m, const char *folder, struct err *e);
/* Bytes that the sidecar of this layout (from the model's own files) has; *records: of them in records. May be NULL. */
uint64_t expert_pack_bytes(const struct expert_layout *l, uint64_t *records);
/* Writes it. *there: it was there already, whole and of this model; nothing was done.
 * ERR_LIMIT: not enough room on the disk, said before anything is written; ERR_BUSY: another pack is at it;
 * ERR_IO: reading or writing failed, NAME.part stays for the next run; ERR_UNSUPPORTED as expert_layout_open. */
bool expert_pack_write(const struct pack_params *p, bool *there, struct err *e);

/* A layout from the sidecar at path. ERR_NOTFOUND: none; ERR_CONFLICT: of another model, or of the model as it was
 * before it changed; ERR_FORMAT: not whole, or of another version. Records' bytes are not looked at: the cache does so
 * when it first reads each. */
bool expert_pack_open(struct expert_layout *l, const struct model *m, const char *path, struct err *e);
/* The sidecar's layout where it can be used, else the model's own files'. A sidecar that is there and can't be used
 * gets a line in the log. */
bool expert_layout_pick(struct expert_layout *l, const struct model *m, const char *folder, struct err *e);
