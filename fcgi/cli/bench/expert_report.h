/* What reading a model's routed experts from disk costs, as its files are and with a packed
 * sidecar: for `sluice info` and `sluice pack`. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/buf.h"
#include "engine/base/err.h"
#include "engine/model/model.h"

enum expert_report_packed {
    PACKED_NONE /* no such file */,
    PACKED_REFUSED /* it can't be used */,
    PACKED_USED
};

struct expert_report {
    uint64_t n;                 /* experts of all layers; 0: none that can be streamed */
    uint64_t bytes;             /* of all of them, without alignment */
    uint64_t reads, read_bytes; /* runs of the model's own files that hold them, and their bytes */
    uint64_t file_bytes;        /* of the sidecar: what it has or would have */
    uint64_t record_bytes;      /* of all its records */
    enum expert_report_packed packed;
    char path[4096]; /* where the sidecar is looked for */
    struct err why;  /* PACKED_REFUSED: the reason; n is 0: why none can be streamed */
};

/* folder: where sidecars are; NULL: beside the model. */
void expert_report_make(struct expert_report *f, const struct model *m, const char *folder);
/* Lines for people; nothing for a model without routed experts. */
void expert_report_print(const struct expert_report *f);
/* One JSON value. */
void expert_report_json(const struct expert_report *f, struct buf *b);
