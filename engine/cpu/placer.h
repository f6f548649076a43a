/* Parts of one piece of memory, each on a boundary of 64 bytes. The same walk counts them and
 * places them, so that the two can't disagree. */
#pragma once
#include <stddef.h>

#include "engine/cpu/cpu_worker.h"

struct placer {
    char *memory; /* NULL: count */
    size_t at;    /* in the end the bytes of all */
};

static inline void *placer_take(struct placer *p, size_t bytes)
{
    void *part = p->memory ? p->memory + p->at : NULL;
    p->at += (bytes + 63) & ~(size_t)63;
    return part;
}

/* For the widest of some things, which a part must hold. */
static inline void raise_to(size_t *at_least, size_t v)
{
    if (v > *at_least)
        *at_least = v;
}

/* Of steps of up to `rows` rows, each `times` in the panel; steps of more than PART_ROWS have no
 * forms of few rows, unless activations are of one byte (see matmul.c). */
static inline void placer_take_panel(struct placer *p, void *slots[PANEL_SLOT__N],
                                     enum panel_slot slot, int32_t rows, int32_t times, size_t cols,
                                     unsigned kinds)
{
    const int32_t few = rows < PART_ROWS || kinds & PANEL_ONE_BYTE ? rows : PART_ROWS;
    size_t bytes = panel_bytes(rows * times, (int32_t)cols, kinds & ~(unsigned)PANEL_FEW_FORMS);
    raise_to(&bytes, panel_bytes(few * times, (int32_t)cols, kinds));
    slots[slot] = placer_take(p, bytes);
}
