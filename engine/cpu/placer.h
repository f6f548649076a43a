/* Parts of one piece of memory, each on a boundary of 64 bytes. The same walk counts them and places them, so that the two can't
 * disagree. */
#pragma once
#include <stddef.h>

#include "engine/cpu/worker.h"

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

static inline void placer_take_panel(struct placer *p, void *slots[PANEL_SLOT__N], enum panel_slot slot, int32_t rows, size_t cols,
                                     unsigned kinds)
{
    slots[slot] = placer_take(p, panel_bytes(rows, (int32_t)cols, kinds));
}

/* For the widest of some things, which a part must hold. */
static inline void raise_to(size_t *at_least, size_t v)
{
    if (v > *at_least)
        *at_least = v;
}
