#include "engine/sched/sizing.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "engine/model/backend.h"

#define DEFAULT_CTX 32768
#define DEFAULT_PREFILL_CHUNK 512

static int64_t round_up(int64_t v, int64_t unit)
{
    return (v + unit - 1) / unit * unit;
}

bool sizing_choose(const struct model_plan *plan, const struct model_facts *facts, const struct sizing_wish *wish,
                   uint64_t available_bytes, struct sizing *out, struct err *e)
{
    int64_t ctx = wish->ctx ? wish->ctx : plan->n_ctx < DEFAULT_CTX ? plan->n_ctx : DEFAULT_CTX;
    if (ctx > plan->n_ctx)
        return err_field(e, ERR_LIMIT, "ctx", "%" PRId64 " positions, the model was made for %d", ctx, plan->n_ctx);
    int64_t block_bytes = (int64_t)facts->kv_bytes_per_token * BACKEND_BLOCK_TOKENS;
    int64_t one = round_up(ctx, BACKEND_BLOCK_TOKENS) / BACKEND_BLOCK_TOKENS;
    int64_t blocks;
    if (wish->kv_bytes) {
        blocks = block_bytes ? wish->kv_bytes / block_bytes : one;
        if (blocks < one)
            return err_field(e, ERR_LIMIT, "kv-memory",
                             "%" PRId64 " bytes hold %" PRId64 " tokens, one context of %" PRId64 " needs %" PRId64
                             " bytes",
                             wish->kv_bytes, blocks * BACKEND_BLOCK_TOKENS, ctx, one * block_bytes);
    } else {
        /* few conversations fill their context: half of what all slots could hold, and a quarter of memory at most */
        int64_t most = block_bytes ? (int64_t)(available_bytes / 4) / block_bytes : INT32_MAX;
        blocks = one * wish->slots / 2;
        blocks = available_bytes && blocks > most ? most : blocks;
        blocks = blocks < one ? one : blocks;
        if (available_bytes && (uint64_t)(blocks * block_bytes) > available_bytes)
            return err_field(e, ERR_LIMIT, "ctx",
                             "KV for one context of %" PRId64 " needs %" PRId64 " bytes, %" PRIu64 " are available", ctx,
                             blocks * block_bytes, available_bytes);
    }
    int64_t chunk = wish->prefill_chunk ? wish->prefill_chunk : DEFAULT_PREFILL_CHUNK;
    chunk = round_up(chunk, BACKEND_BLOCK_TOKENS);
    *out = (struct sizing){
        .n_ctx = (int32_t)ctx,
        .n_slots = (int32_t)wish->slots,
        .n_blocks = (int32_t)(blocks > INT32_MAX / BACKEND_BLOCK_TOKENS ? INT32_MAX / BACKEND_BLOCK_TOKENS : blocks),
        .prefill_chunk = (int32_t)chunk,
        .max_rows = (int32_t)round_up(chunk + wish->slots, BACKEND_BLOCK_TOKENS),
    };
    return true;
}

uint64_t sizing_available_memory(void)
{
    char line[256];
    unsigned long long kib = 0;
    FILE *f = fopen("/proc/meminfo", "re");
    if (!f)
        return 0;
    while (fgets(line, sizeof line, f))
        if (sscanf(line, "MemAvailable: %llu kB", &kib) == 1)
            break;
    fclose(f);
    return kib * 1024;
}

uint64_t sizing_total_memory(void)
{
    return (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
}
