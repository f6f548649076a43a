/* Sizes and offsets of the forms of a panel. */
#include "engine/cpu/panel/panel.h"

/* More rows are an odd number apart from block to block: with a power of two, all blocks of a row
 * would come to lie in a few sets of the caches. */
#define FEW_STRIDE 8

static size_t round_up(size_t n)
{
    return (n + 63) & ~(size_t)63;
}

/* Hands out the next part of `memory`; with NULL it only counts. */
static void *part(char *memory, size_t *at, size_t bytes)
{
    void *p = memory ? memory + *at : NULL;
    *at += round_up(bytes);
    return p;
}

static void place_halves(struct panel *p, char *memory, size_t *at)
{
    const size_t spans = (size_t)p->rows * (size_t)((p->blocks + PANEL_SPAN - 1) / PANEL_SPAN);
    if (p->kinds & PANEL_NIBBLE_HALVES)
        p->nibble_halves = part(memory, at, spans * PANEL_SPAN_HALVES);
    if (p->kinds & PANEL_BYTE_HALVES)
        p->byte_halves = part(memory, at, spans * PANEL_SPAN_HALVES);
    p->total = part(memory, at, spans * 2 * PANEL_SPAN * sizeof *p->total);
}

static size_t place(struct panel *p, int32_t rows, int32_t cols, unsigned kinds, char *memory)
{
    const int32_t stride = rows > FEW_STRIDE ? rows | 1 : rows;
    size_t at = 0, cells = (size_t)stride * (size_t)panel_blocks(cols);
    *p = (struct panel){.rows = stride, .cols = cols, .blocks = panel_blocks(cols), .kinds = kinds};
    if (kinds & PANEL_F32)
        p->f32 = part(memory, &at, cells * PANEL_BLOCK * sizeof *p->f32);
    if (kinds & PANEL_NIBBLE)
        p->nibble = part(memory, &at, cells * PANEL_BLOCK * sizeof *p->nibble);
    if (kinds & PANEL_BYTE)
        p->byte = part(memory, &at, cells * PANEL_BLOCK * sizeof *p->byte);
    const unsigned halves = PANEL_NIBBLE_HALVES | PANEL_BYTE_HALVES;
    if (kinds & (PANEL_NIBBLE | PANEL_BYTE | halves)) {
        p->scale = part(memory, &at, cells * sizeof *p->scale);
        p->sum = part(memory, &at, cells * 2 * sizeof *p->sum);
    }
    if (kinds & halves)
        place_halves(p, memory, &at);
    const size_t octets = (size_t)rows * panel_octet_row(p->blocks);
    if (kinds & PANEL_BYTE_OCTETS)
        p->byte_octets = part(memory, &at, octets);
    if (kinds & PANEL_PLANE_OCTETS)
        p->plane_octets = part(memory, &at, octets);
    if (kinds & PANEL_NIBBLE_OCTETS)
        p->nibble_octets = part(memory, &at, octets);
    if (kinds & PANEL_K_OCTETS)
        p->k_octets = part(memory, &at, octets);
    return at;
}

size_t panel_bytes(int32_t rows, int32_t cols, unsigned kinds)
{
    struct panel p;
    return place(&p, rows, cols, kinds, NULL);
}

void panel_place(struct panel *p, int32_t rows, int32_t cols, unsigned kinds, void *memory)
{
    place(p, rows, cols, kinds, memory);
}
