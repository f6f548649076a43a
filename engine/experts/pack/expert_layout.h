/* Where the bytes of each routed expert lie on disk, and where they go in memory.
 *
 * An expert's record is what the cache holds for one (layer, expert): the planes of gate, up and
 * down. It is read in parts: ranges of a file, each aligned to EXPERT_ALIGN at both ends so that
 * O_DIRECT can read straight into the record. Bytes that are read only for alignment stay in the
 * record unused. A layout has one of two sources:
 *
 *   the model's own files   up to nine parts, neighbours merged (expert_layout.c)
 *   a packed sidecar        one part with a checksum (`sluice pack`)
 *
 * Made once, by the thread that opens the model; immutable afterwards, thread-safe. The model must
 * stay open. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/arena.h"
#include "engine/base/err.h"
#include "engine/model/model.h"

#define EXPERT_ALIGN 4096u
#define EXPERT_MAX_PARTS 9
#define EXPERT_NO_PLANE UINT32_MAX

enum expert_matrix { EXPERT_GATE, EXPERT_UP, EXPERT_DOWN, EXPERT_MATRIX__N };
enum expert_plane { EXPERT_DATA, EXPERT_SCALES, EXPERT_BIASES, EXPERT_PLANE__N };

struct expert_file { /* with its identity when the layout was made: another identity means it
                        changed */
    const char *path;
    uint64_t size, device, inode;
    int64_t mtime_ns;
};

struct expert_part {
    uint64_t offset; /* in the file; multiple of EXPERT_ALIGN */
    uint32_t length; /* multiple of EXPERT_ALIGN; may reach past the end of the file, where nothing
                        is read */
    uint32_t at;     /* in the record; multiple of EXPERT_ALIGN */
    int32_t file;
};

struct expert_record {
    struct expert_part
        parts[EXPERT_MAX_PARTS]; /* parts with gate or up first; each by file, then offset */
    int32_t n_parts;
    uint32_t gate_up_bytes; /* leading bytes of the parts that complete gate and up; multiple of
                               EXPERT_ALIGN */
    uint32_t planes[EXPERT_MATRIX__N]
                   [EXPERT_PLANE__N]; /* where each begins in the record, at any address;
                                         EXPERT_NO_PLANE: the format has none */
    uint64_t checksum;                /* expert_record_checksum of the record; 0: not known yet */
};

struct expert_layer {
    int32_t layer; /* in the plan */
    int32_t n_expert;
    uint32_t record_bytes; /* of the largest record; multiple of EXPERT_ALIGN */
    /* The plan's views with the strides that rows have in a record; data, scales, biases and table
     * are NULL. */
    struct weight weights[EXPERT_MATRIX__N];
    struct expert_record *records; /* [n_expert] */
};

struct expert_layout {
    struct arena *arena;
    struct expert_file *files;
    int32_t n_files;
    struct expert_layer *layers; /* [n_layers] the plan's MoE layers, in order */
    int32_t n_layers;
    uint64_t record_bytes_max; /* of any layer */
    uint64_t expert_bytes;     /* packed bytes of all experts, without alignment */
    uint64_t read_bytes;       /* bytes of all parts: the disk reads of reading everything once */
    bool packed;               /* from a sidecar */
};

/* From the model's own files. ERR_UNSUPPORTED: the model has no routed experts, or had to repack
 * them in memory. */
bool expert_layout_open(struct expert_layout *l, const struct model *m, struct err *e);
void expert_layout_close(struct expert_layout *l); /* accepts a zeroed struct */
/* Fills size, device, inode and mtime_ns from the file at f->path. */
bool expert_file_identify(struct expert_file *f, struct err *e);
/* The layer's packed bytes of one expert, without gaps. */
uint64_t expert_layer_packed_bytes(const struct expert_layer *layer);
/* Orders the record's parts and sets gate_up_bytes; everything else must be known. `weights` have
 * the rows and strides. */
void expert_record_order_parts(struct expert_record *r,
                               const struct weight weights[EXPERT_MATRIX__N]);
/* Bytes of the record's parts: what reading it reads from the disk. */
uint64_t expert_record_read_bytes(const struct expert_record *r);
/* The addresses of one matrix in a record at `memory`. */
struct weight_planes expert_record_planes(const struct expert_record *r, enum expert_matrix matrix,
                                          const uint8_t *memory);
/* A checksum of the packed bytes alone, row by row in the order gate, up, down and data, scales,
 * biases, so that it does not depend on how they are stored. Never 0. `weights` have the rows and
 * strides, where[] the addresses. */
uint64_t expert_record_checksum(const struct weight weights[EXPERT_MATRIX__N],
                                const struct weight_planes where[EXPERT_MATRIX__N]);
