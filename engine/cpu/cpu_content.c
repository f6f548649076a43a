/* Gathers a KV block, which lies in parts (one in each layer's array), into one run of bytes, and
 * scatters it back. */
#include "engine/cpu/cpu_content.h"

#include <stdio.h>
#include <string.h>

#include "engine/cpu/cpu_worker.h"

/* Counted up when kernels add in another order than before: what they store is not the same then.
 */
#define ORDER_OF_SUMS 2

static void format(const struct backend *b, char *out, size_t size)
{
    snprintf(out, size, "cpu %s.%d %s%s%s", b->kernels->name, ORDER_OF_SUMS,
             kv_type_name(b->plan->n_attention ? b->views[0].type : KV_F32),
             b->params.exact ? " exact" : "", b->params.one_byte ? " one-byte" : "");
}

static size_t block_bytes(const struct backend *b)
{
    size_t bytes = 0;
    for (int32_t i = 0; i < b->plan->n_attention; i++)
        bytes += b->views[i].block_bytes;
    return bytes;
}

static size_t state_bytes(const struct backend *b)
{
    return b->state_values * sizeof *b->state;
}

static bool known_block(const struct backend *b, int32_t block, struct err *e)
{
    return (block >= 0 && block < b->params.n_blocks) ||
           err_set(e, ERR_INTERNAL, "content of block %d of %d", block, b->params.n_blocks);
}

static bool save_blocks(struct backend *b, const int32_t *blocks, int32_t n, void *const *to,
                        struct err *e)
{
    for (int32_t k = 0; k < n; k++) {
        char *at = to[k];
        if (!known_block(b, blocks[k], e))
            return false;
        for (int32_t i = 0; i < b->plan->n_attention; i++) {
            size_t bytes = b->views[i].block_bytes;
            memcpy(at, (const char *)b->views[i].data + (size_t)blocks[k] * bytes, bytes);
            at += bytes;
        }
    }
    return true;
}

static bool load_blocks(struct backend *b, const int32_t *blocks, int32_t n,
                        const void *const *from, struct err *e)
{
    for (int32_t k = 0; k < n; k++) {
        const char *at = from[k];
        if (!known_block(b, blocks[k], e))
            return false;
        for (int32_t i = 0; i < b->plan->n_attention; i++) {
            size_t bytes = b->views[i].block_bytes;
            memcpy((char *)b->views[i].data + (size_t)blocks[k] * bytes, at, bytes);
            at += bytes;
        }
    }
    return true;
}

static bool known_state(const struct backend *b, int32_t state, struct err *e)
{
    return (state >= 0 && state < b->params.n_states) ||
           err_set(e, ERR_INTERNAL, "content of state %d of %d", state, b->params.n_states);
}

static bool save_state(struct backend *b, int32_t state, void *to, struct err *e)
{
    if (!known_state(b, state, e))
        return false;
    memcpy(to, b->state + (size_t)state * b->state_values, state_bytes(b));
    return true;
}

static bool load_state(struct backend *b, int32_t state, const void *from, struct err *e)
{
    if (!known_state(b, state, e))
        return false;
    memcpy(b->state + (size_t)state * b->state_values, from, state_bytes(b));
    return true;
}

const struct backend_content cpu_content = {
    .format = format,
    .block_bytes = block_bytes,
    .state_bytes = state_bytes,
    .save_blocks = save_blocks,
    .load_blocks = load_blocks,
    .save_state = save_state,
    .load_state = load_state,
};
