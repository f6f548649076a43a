/* How large things are made: context, KV pool, rows of a step. Pure arithmetic over the model's facts and the machine's
 * memory; called once, before the backend is opened. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/err.h"
#include "engine/model/model.h"

struct sizing_wish { /* 0: to be chosen */
    int64_t ctx, slots, prefill_chunk, kv_bytes;
};

struct sizing {
    int32_t n_ctx, n_slots, n_blocks, prefill_chunk, max_rows;
};

/* available_bytes: memory that the KV pool may come from. ERR_LIMIT: the wishes can't be met (the text has numbers). */
bool sizing_choose(const struct model_plan *plan, const struct model_facts *facts, const struct sizing_wish *wish,
                   uint64_t available_bytes, struct sizing *out, struct err *e);
uint64_t sizing_available_memory(void); /* MemAvailable in bytes; 0: unknown */
uint64_t sizing_total_memory(void);
