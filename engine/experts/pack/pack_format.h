/* The file format of the sidecar, little-endian. Private to engine/experts.
 *
 *   0             struct pack_header, zeros up to EXPERT_ALIGN
 *   EXPERT_ALIGN  uint64_t checksums[n_records], layer by layer as the plan has them; in a file
 * that is not whole, 0 where the record is not there yet; zeros up to EXPERT_ALIGN data_offset the
 * records: layer by layer, expert by expert, each a multiple of EXPERT_ALIGN long
 *
 * A record holds gate, up, down, each as data, scales, biases, without gaps between rows; a plane
 * begins at a multiple of PACK_PLANE_ALIGN, and zeros fill up. Where planes lie follows from the
 * model, so the file says nothing about it; data_offset and file_bytes must come out the same. */
#pragma once
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "engine/experts/pack/expert_layout.h"

#define PACK_MAGIC "SLUICEXP"
#define PACK_VERSION 1u
#define PACK_PLANE_ALIGN 64u

struct pack_header {
    char magic[8];
    uint32_t version;
    uint32_t n_layers;
    uint64_t fingerprint; /* of the model: configuration, tensor table, rows of every tensor */
    uint64_t n_records;
    uint64_t data_offset, file_bytes;
    uint64_t table_hash;  /* hash64 of the checksums; 0 while the file is not whole */
    uint64_t header_hash; /* hash64 of all fields before it */
};

struct pack_file { /* open for reading */
    int fd;
    const char *path; /* for error texts */
};
/* Bytes read, fewer only at the end of the file; -1: *e. */
ssize_t pack_file_read(const struct pack_file *f, void *into, size_t len, uint64_t at,
                       struct err *e);

/* The layout of the file that belongs to this model: every field but files and checksums. The arena
 * of *l must be there. */
bool pack_layout(struct expert_layout *l, const struct model *m, struct err *e);
/* The header that belongs to it, table_hash 0. */
struct pack_header pack_header_of(const struct expert_layout *l, const struct model *m);
void pack_header_seal(struct pack_header *h); /* sets header_hash */
/* The header is one of this format, undamaged, and says what `want` does; table_hash is not
 * compared. */
bool pack_header_check(const struct pack_header *h, const struct pack_header *want,
                       const char *path, struct err *e);
