/* Copies KV blocks and recurrent states between the device and the host, in rounds through a
 * staging buffer that both see. The buffer exists from the first use on. */
#include "engine/vulkan/ops/device_content.h"

#include <stdio.h>
#include <string.h>

#include "engine/vulkan/ops/backend_state.h"
#include "engine/vulkan/ops/delta_net_ops.h"

#define STAGING_MOST ((uint64_t)8 << 20)

struct transfer {
    struct backend *b;
    bool save;                      /* device to host; else host to device */
    VkCommandBuffer c;              /* NULL: no round has begun */
    uint64_t staging_bytes, staged; /* of the buffer; of this round */
    struct piece {
        char *host;
        uint64_t at, bytes; /* in the staging buffer */
    } pieces[256];
    int n_pieces;
    struct err *e;
};

static size_t block_bytes(const struct backend *b)
{
    return b->kv_block_bytes * (size_t)b->plan->n_attention;
}

static uint64_t layer_state_bytes(const struct backend *b, int layer)
{
    const struct layer_plan *l = &b->plan->layers[layer];
    return l->mixer == MIXER_ATTENTION ? 0 : delta_net_state_bytes(&l->delta_net);
}

static size_t state_bytes(const struct backend *b)
{
    size_t bytes = 0;
    for (int i = 0; i < b->plan->n_layer; i++)
        bytes += layer_state_bytes(b, i);
    return bytes;
}

uint64_t device_content_staging_bytes(const struct backend *b)
{
    const uint64_t block = block_bytes(b), state = state_bytes(b),
                   most = block > state ? block : state;
    return most < STAGING_MOST ? most : STAGING_MOST;
}

static bool begin_round(struct transfer *t)
{
    struct gpu_buffer *staging = &t->b->content_staging;
    if (!staging->buffer &&
        !gpu_buffer_create(&t->b->gpu,
                           &(struct gpu_buffer_params){.where = GPU_SHARED,
                                                       .size = t->staging_bytes,
                                                       .name = "content of the cache"},
                           staging, t->e))
        return false;
    t->staged = 0;
    t->n_pieces = 0;
    t->c = gpu_command_begin(&t->b->gpu, false, t->e);
    return t->c != NULL;
}

/* Runs what was recorded; the host's side is copied before it, or after it. */
static bool end_round(struct transfer *t)
{
    struct gpu *g = &t->b->gpu;
    char *staging = t->b->content_staging.map;
    if (!t->c)
        return true;
    for (int i = 0; !t->save && i < t->n_pieces; i++)
        memcpy(staging + t->pieces[i].at, t->pieces[i].host, t->pieces[i].bytes);
    gpu_barrier(t->c);
    bool ok = gpu_command_end(g, t->c, t->e) && gpu_run(g, t->c, t->e);
    gpu_command_free(g, &t->c);
    for (int i = 0; ok && t->save && i < t->n_pieces; i++)
        memcpy(t->pieces[i].host, staging + t->pieces[i].at, t->pieces[i].bytes);
    return ok;
}

/* Copies `bytes` at offset `at` of a heap's buffer, in as many rounds as it takes. */
static bool add(struct transfer *t, VkBuffer buffer, uint64_t at, uint64_t bytes, char *host)
{
    const int most = (int)(sizeof t->pieces / sizeof t->pieces[0]);
    while (bytes) {
        if (t->c && (t->staged == t->staging_bytes || t->n_pieces == most) && !end_round(t))
            return false;
        if (!t->c && !begin_round(t))
            return false;
        uint64_t left = t->staging_bytes - t->staged, n = bytes < left ? bytes : left;
        VkBuffer staging = t->b->content_staging.buffer;
        VkBufferCopy copy = {.srcOffset = t->save ? at : t->staged,
                             .dstOffset = t->save ? t->staged : at,
                             .size = n};
        vkCmdCopyBuffer(t->c, t->save ? buffer : staging, t->save ? staging : buffer, 1, &copy);
        t->pieces[t->n_pieces++] = (struct piece){host, t->staged, n};
        t->staged += n;
        at += n;
        host += n;
        bytes -= n;
    }
    return true;
}

/* Ends the transfer; after a failure nothing may be left recording. */
static bool finish(struct transfer *t, bool ok)
{
    ok = ok && end_round(t);
    gpu_command_free(&t->b->gpu, &t->c);
    return ok;
}

static void format(const struct backend *b, char *out, size_t size)
{
    snprintf(out, size, "vulkan %s %s", kv_type_name(b->kv_type), b->gpu.caps.name);
}

static bool add_block(struct transfer *t, int32_t block, char *host)
{
    struct backend *b = t->b;
    if (block < 0 || block >= b->params.n_blocks)
        return err_set(t->e, ERR_INTERNAL, "content of block %d of %d", block, b->params.n_blocks);
    for (int i = 0; i < b->plan->n_layer; i++) {
        VkBuffer buffer;
        uint64_t at;
        if (!b->model.layers[i].kv ||
            !heap_locate(&b->kv_heap, b->model.layers[i].kv, &buffer, &at))
            continue;
        if (!add(t, buffer, at + (uint64_t)block * b->kv_block_bytes, b->kv_block_bytes, host))
            return false;
        host += b->kv_block_bytes;
    }
    return true;
}

static bool add_state(struct transfer *t, int32_t state, char *host)
{
    struct backend *b = t->b;
    if (state < 0 || state >= b->params.n_states)
        return err_set(t->e, ERR_INTERNAL, "content of state %d of %d", state, b->params.n_states);
    for (int i = 0; i < b->plan->n_layer; i++) {
        VkBuffer buffer;
        uint64_t at, bytes = layer_state_bytes(b, i);
        if (!bytes || !heap_locate(&b->state_heap, b->model.layers[i].state, &buffer, &at))
            continue;
        if (!add(t, buffer, at + (uint64_t)state * bytes, bytes, host))
            return false;
        host += bytes;
    }
    return true;
}

static struct transfer transfer_of(struct backend *b, bool save, struct err *e)
{
    return (struct transfer){
        .b = b, .save = save, .staging_bytes = device_content_staging_bytes(b), .e = e};
}

static bool save_blocks(struct backend *b, const int32_t *blocks, int32_t n, void *const *to,
                        struct err *e)
{
    struct transfer t = transfer_of(b, true, e);
    bool ok = true;
    for (int32_t i = 0; ok && i < n; i++)
        ok = add_block(&t, blocks[i], to[i]);
    return finish(&t, ok);
}

/* The host's side is only read, though a piece says nothing of that. */
static bool load_blocks(struct backend *b, const int32_t *blocks, int32_t n,
                        const void *const *from, struct err *e)
{
    struct transfer t = transfer_of(b, false, e);
    bool ok = true;
    for (int32_t i = 0; ok && i < n; i++)
        ok = add_block(&t, blocks[i], (char *)from[i]);
    return finish(&t, ok);
}

static bool save_state(struct backend *b, int32_t state, void *to, struct err *e)
{
    struct transfer t = transfer_of(b, true, e);
    return finish(&t, add_state(&t, state, to));
}

static bool load_state(struct backend *b, int32_t state, const void *from, struct err *e)
{
    struct transfer t = transfer_of(b, false, e);
    return finish(&t, add_state(&t, state, (char *)from));
}

const struct backend_content vulkan_content = {
    .format = format,
    .block_bytes = block_bytes,
    .state_bytes = state_bytes,
    .save_blocks = save_blocks,
    .load_blocks = load_blocks,
    .save_state = save_state,
    .load_state = load_state,
};
