/* Activations of one byte with AVX512-VNNI. Weights lie as they do for AVX2's octets, eight blocks
 * of a row in the lanes (octet_formats.h), but vpdpbusd multiplies and adds up in int32: a block's
 * sum needs no joining, and formats of 8 bits go the same way. Many rows take sixteen weight rows,
 * one in each lane of a 512-bit vector (vnni_wide.h; K-quants: vnni_super.h); all ways give the
 * same bits.
 *
 * The code has 256-bit words of its own (kernels_octets_vnni.c); the kernels of avx512vnni call it.
 * Thread-safe: no state. */
#pragma once
#include "engine/cpu/kernels/kernels.h"

/* The forms of a panel that tile reads; 0: not for this weight. */
unsigned octets_vnni_kinds(const struct weight *w);
/* Of all weights. */
#define OCTETS_VNNI_KINDS (PANEL_PLANE_OCTETS | PANEL_NIBBLE_OCTETS | PANEL_K_OCTETS)
/* As kernels.pack and kernels.tile; weights that octets_vnni_kinds() knows. */
void octets_vnni_pack(struct panel *p, int32_t row, const float *x);
void octets_vnni_tile(const struct tile *t, float *acc);
