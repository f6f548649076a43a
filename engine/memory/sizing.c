/* Chooses the context, the KV pool and the rows of a step from what was requested and what
 * memory allows. */
#include "engine/memory/sizing.h"

#include <inttypes.h>

#include "engine/backend/backend.h"

#define DEFAULT_PREFILL_CHUNK 512
/* Positions are counted in 32 bits, and twice as many places of texts (draft/recall.c). */
#define MAX_BLOCKS (INT32_MAX / BACKEND_BLOCK_TOKENS / 2)

static int64_t round_up(int64_t v, int64_t unit)
{
    return (v + unit - 1) / unit * unit;
}

static int64_t blocks_of(int64_t tokens)
{
    return (tokens + BACKEND_BLOCK_TOKENS - 1) / BACKEND_BLOCK_TOKENS;
}

/* Few conversations fill their context, so the pool has half of what all slots could hold, and at
 * most a quarter of free memory. */
static int64_t wanted_blocks(int64_t one, int64_t slots)
{
    const int64_t blocks = one * slots / 2;
    return blocks < one ? one : blocks > MAX_BLOCKS ? MAX_BLOCKS : blocks;
}

static int64_t chosen_blocks(int64_t one, int64_t slots, int64_t block_bytes,
                             uint64_t available_bytes)
{
    int64_t blocks = wanted_blocks(one, slots);
    if (available_bytes && block_bytes && blocks > (int64_t)(available_bytes / 4) / block_bytes)
        blocks = (int64_t)(available_bytes / 4) / block_bytes;
    return blocks < one ? one : blocks;
}

/* Two checkpoints per slot (the end of the prompt and of the answer), and as many again for idle
 * conversations; at most an eighth of free memory. */
static int32_t chosen_checkpoints(int64_t slots, uint64_t state_bytes, uint64_t available_bytes)
{
    int64_t n = slots * 4;
    if (!state_bytes)
        return 0;
    if (available_bytes && n > (int64_t)(available_bytes / 8 / state_bytes))
        n = (int64_t)(available_bytes / 8 / state_bytes);
    return (int32_t)n;
}

bool sizing_choose(const struct sizing_model *m, const struct sizing_request *request,
                   uint64_t available_bytes, struct sizing *out, struct err *e)
{
    int32_t n_ctx = m->n_ctx;
    int64_t ctx = request->ctx                 ? request->ctx
                  : n_ctx < SIZING_DEFAULT_CTX ? n_ctx
                                               : SIZING_DEFAULT_CTX;
    int64_t each = (int64_t)m->block_bytes, one = blocks_of(ctx);
    if (ctx > n_ctx)
        return err_field(e, ERR_LIMIT, "ctx", "%" PRId64 " positions, the model was made for %d",
                         ctx, n_ctx);
    int64_t blocks = chosen_blocks(one, request->slots, each, available_bytes);
    if (request->kv_bytes) {
        blocks = each ? request->kv_bytes / each : one;
        if (blocks < one)
            return err_field(e, ERR_LIMIT, "kv-memory",
                             "%" PRId64 " bytes hold %" PRId64 " tokens, one context of %" PRId64
                             " needs %" PRId64 " bytes",
                             request->kv_bytes, blocks * BACKEND_BLOCK_TOKENS, ctx, one * each);
    } else if (available_bytes && (uint64_t)(blocks * each) > available_bytes) {
        return err_field(e, ERR_LIMIT, "ctx",
                         "KV for one context of %" PRId64 " needs %" PRId64 " bytes, %" PRIu64
                         " are available",
                         ctx, blocks * each, available_bytes);
    }
    int64_t chunk =
        round_up(request->prefill_chunk ? request->prefill_chunk : DEFAULT_PREFILL_CHUNK,
                 BACKEND_BLOCK_TOKENS);
    *out = (struct sizing){
        .n_ctx = (int32_t)ctx,
        .n_slots = (int32_t)request->slots,
        .n_blocks = (int32_t)(blocks > MAX_BLOCKS ? MAX_BLOCKS : blocks),
        .prefill_chunk = (int32_t)chunk,
        .max_rows = (int32_t)round_up(chunk + request->slots, BACKEND_BLOCK_TOKENS),
    };
    out->n_checkpoints = chosen_checkpoints(request->slots, m->state_bytes, available_bytes);
    out->n_states = m->state_bytes ? out->n_slots + out->n_checkpoints : 0;
    return true;
}

int32_t sizing_chosen_blocks(int32_t one, int32_t n_slots)
{
    return (int32_t)wanted_blocks(one, n_slots);
}

int32_t sizing_one_context(const struct sizing *s)
{
    return (int32_t)blocks_of(s->n_ctx);
}

bool sizing_shrink(struct sizing *s)
{
    int32_t one = sizing_one_context(s);
    if (s->n_blocks <= one && !s->n_checkpoints)
        return false;
    s->n_states -= s->n_checkpoints - s->n_checkpoints / 2;
    s->n_checkpoints /= 2;
    s->n_blocks = s->n_blocks / 2 < one ? one : s->n_blocks / 2;
    return true;
}
