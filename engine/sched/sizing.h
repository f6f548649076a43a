/* How large things are made: context, KV pool, rows of a step. Pure arithmetic, called before the backend is opened. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/err.h"

struct sizing_wish { /* 0: to be chosen */
    int64_t ctx, slots, prefill_chunk, kv_bytes;
};

struct sizing {
    int32_t n_ctx, n_slots, n_blocks, prefill_chunk, max_rows;
};

/* n_ctx: the model's; block_bytes: of one KV block as the backend stores it (0: the model has no KV);
 * available_bytes: memory that the KV pool may come from, 0: unknown. ERR_LIMIT: the wishes can't be met (the text has
 * numbers). */
bool sizing_choose(int32_t n_ctx, uint64_t block_bytes, const struct sizing_wish *wish, uint64_t available_bytes,
                   struct sizing *out, struct err *e);
/* After a backend could not get the memory: a smaller pool, one context at least. False: it is the smallest already. */
bool sizing_shrink(struct sizing *s);
uint64_t sizing_available_memory(void); /* MemAvailable in bytes; 0: unknown */
uint64_t sizing_total_memory(void);
