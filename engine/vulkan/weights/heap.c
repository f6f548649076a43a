/* Planning, allocation and upload of long-lived device memory. */
#include "engine/vulkan/weights/heap.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/thread_pool.h"

#define ALIGN 256u
#define BUFFER_BYTES (2048ull << 20) /* aim; larger parts get a buffer of their own */
#define STAGE_BYTES (32ull << 20)    /* each of two */
#define FILL_BYTES                                                                                 \
    (1 << 20) /* of rows to be turned from the file's layout into the device's: worth a share */
#define MOST_SHARES 64

bool heap_plan(struct heap *h, const struct heap_part *part, struct err *e)
{
    if (h->n_parts == h->cap_parts) {
        int cap = h->cap_parts ? h->cap_parts * 2 : 256;
        struct heap_part *more = realloc(h->parts, (size_t)cap * sizeof *more);
        if (!more)
            return err_set(e, ERR_NOMEM, "no memory for the list of weights");
        h->parts = more;
        h->cap_parts = cap;
    }
    h->parts[h->n_parts++] = *part;
    return true;
}

static uint64_t aligned(uint64_t bytes)
{
    return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

uint64_t heap_planned_bytes(const struct heap *h)
{
    uint64_t sum = 0;
    for (int i = 0; i < h->n_parts; i++)
        sum += aligned(h->parts[i].bytes);
    return sum;
}

/* Places parts in order; returns the number of buffers, their sizes in `sizes` (room for n_parts).
 */
static int place(struct heap *h, uint64_t limit, uint64_t *sizes)
{
    int n = 0;
    for (int i = 0; i < h->n_parts; i++) {
        struct heap_part *p = &h->parts[i];
        uint64_t bytes = aligned(p->bytes);
        if (n == 0 || sizes[n - 1] + bytes > limit)
            sizes[n++] = 0;
        p->buffer = n - 1;
        p->offset = sizes[n - 1];
        sizes[n - 1] += bytes;
    }
    return n;
}

struct stage { /* two halves: one is filled while the other is copied */
    struct gpu_buffer half[2];
    VkCommandBuffer command[2];
    uint64_t value[2]; /* of the timeline when the copy is done */
    int now;
    uint64_t used;
};

static bool stage_submit(struct gpu *g, struct stage *s, struct err *e)
{
    VkCommandBuffer c = s->command[s->now];
    if (!c)
        return true;
    if (!gpu_command_end(g, c, e) || !gpu_submit(g, c, e))
        return false;
    s->value[s->now] = g->submitted;
    s->now ^= 1;
    s->used = 0;
    return true;
}

/* Makes the current half writable and its command open. */
static bool stage_ready(struct gpu *g, struct stage *s, struct err *e)
{
    int i = s->now;
    if (s->value[i]) {
        VkSemaphoreWaitInfo wait = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO,
                                    .semaphoreCount = 1,
                                    .pSemaphores = &g->timeline,
                                    .pValues = &s->value[i]};
        VKTRY(vkWaitSemaphores(g->device, &wait, UINT64_MAX));
        gpu_command_free(g, &s->command[i]);
        s->value[i] = 0;
    }
    if (!s->command[i])
        s->command[i] = gpu_command_begin(g, false, e);
    return s->command[i] != VK_NULL_HANDLE;
fail:
    return false;
}

struct filling { /* rows of a part, shared out among threads */
    const struct heap_part *part;
    int source, n_shares;
    int64_t first, n;
    uint8_t *out;
};

static void fill_share(void *context, int share)
{
    const struct filling *f = context;
    const int64_t from = f->n * share / f->n_shares, to = f->n * (share + 1) / f->n_shares;
    f->part->fill(f->part, f->source, f->first + from, to - from,
                  f->out + from * f->part->row_bytes);
}

/* All workers fill, because loading is bound by unpacking and page faults, which would take one
 * core too long. */
static void fill(struct thread_pool *w, const struct heap_part *p, int source, int64_t first,
                 int64_t n, uint8_t *out)
{
    const int64_t wanted = n * p->row_bytes / FILL_BYTES;
    struct filling f = {
        p,     source, (int)(wanted < 1 ? 1 : wanted > MOST_SHARES ? MOST_SHARES : wanted),
        first, n,      out};
    thread_pool_each(w, f.n_shares, fill_share, &f);
}

static bool upload_part(struct heap *h, struct gpu *g, struct thread_pool *w, struct stage *s,
                        const struct heap_part *p, struct err *e)
{
    VkBuffer to = h->buffers[p->buffer].buffer;
    uint64_t at = p->offset;
    for (int i = 0; i < HEAP_SOURCES && p->sources[i]; i++) {
        for (int64_t row = 0; row < p->rows[i];) {
            if (!stage_ready(g, s, e))
                return false;
            int64_t room = (int64_t)((STAGE_BYTES - s->used) / p->row_bytes), n = p->rows[i] - row;
            if (room == 0) {
                if (!stage_submit(g, s, e))
                    return false;
                continue;
            }
            n = n < room ? n : room;
            struct gpu_buffer *half = &s->half[s->now];
            fill(w, p, i, row, n, (uint8_t *)half->map + s->used);
            VkBufferCopy copy = {
                .srcOffset = s->used, .dstOffset = at, .size = (uint64_t)n * p->row_bytes};
            vkCmdCopyBuffer(s->command[s->now], half->buffer, to, 1, &copy);
            s->used += (copy.size + 15) / 16 * 16;
            at += copy.size;
            row += n;
        }
    }
    return true;
}

/* Memory that the host sees is written where it lies. */
static void write_parts(struct heap *h, struct thread_pool *w)
{
    for (int i = 0; i < h->n_parts; i++) {
        const struct heap_part *p = &h->parts[i];
        uint8_t *at = (uint8_t *)h->buffers[p->buffer].map + p->offset;
        for (int k = 0; p->fill && k < HEAP_SOURCES && p->sources[k]; k++) {
            fill(w, p, k, 0, p->rows[k], at);
            at += p->rows[k] * p->row_bytes;
        }
        if (!p->fill)
            memset(at, 0, p->bytes);
    }
}

static bool upload(struct heap *h, struct gpu *g, struct thread_pool *w, struct err *e)
{
    struct stage s = {0};
    bool ok = gpu_buffer_create(g,
                                &(struct gpu_buffer_params){
                                    .where = GPU_UPLOAD, .size = STAGE_BYTES, .name = "staging 0"},
                                &s.half[0], e) &&
              gpu_buffer_create(g,
                                &(struct gpu_buffer_params){
                                    .where = GPU_UPLOAD, .size = STAGE_BYTES, .name = "staging 1"},
                                &s.half[1], e) &&
              stage_ready(g, &s, e);
    for (int i = 0; ok && i < h->n_parts; i++) {
        const struct heap_part *p = &h->parts[i];
        if (p->fill) {
            ok = p->row_bytes <= STAGE_BYTES
                     ? upload_part(h, g, w, &s, p, e)
                     : err_set(e, ERR_LIMIT, "a row of %u bytes is too long", p->row_bytes);
        } else if ((ok = stage_ready(g, &s, e))) {
            vkCmdFillBuffer(s.command[s.now], h->buffers[p->buffer].buffer, p->offset,
                            (p->bytes + 3) / 4 * 4, 0);
        }
    }
    ok = ok && stage_submit(g, &s, e);
    if (vkDeviceWaitIdle(g->device) != VK_SUCCESS) {
        g->lost = true;
        ok = err_set(e, ERR_DEVICE, "the GPU was lost while weights were uploaded");
    }
    for (int i = 0; i < 2; i++) {
        gpu_command_free(g, &s.command[i]);
        gpu_buffer_destroy(g, &s.half[i]);
    }
    return ok;
}

bool heap_commit(struct heap *h, struct gpu *g, enum gpu_memory where, const char *name,
                 struct err *e)
{
    bool ok = false;
    uint64_t limit = g->caps.max_allocation < BUFFER_BYTES ? g->caps.max_allocation / ALIGN * ALIGN
                                                           : BUFFER_BYTES;
    uint64_t *sizes = calloc((size_t)h->n_parts + 1, sizeof *sizes);
    h->buffers = calloc((size_t)h->n_parts + 1, sizeof *h->buffers);
    struct thread_pool *w = thread_pool_create_copiers(e);
    if (!w || !sizes || !h->buffers) {
        err_set(e, ERR_NOMEM, "no memory for the list of buffers");
        goto out;
    }
    int n = place(h, limit, sizes);
    for (; h->n_buffers < n; h->n_buffers++) {
        if (!gpu_buffer_create(g,
                               &(struct gpu_buffer_params){
                                   .where = where, .size = sizes[h->n_buffers], .name = name},
                               &h->buffers[h->n_buffers], e)) {
            goto out;
        }
        h->bytes += sizes[h->n_buffers];
    }
    for (int i = 0; i < h->n_parts; i++)
        *h->parts[i].address = h->buffers[h->parts[i].buffer].address + h->parts[i].offset;
    if (where == GPU_LOCAL) {
        ok = upload(h, g, w, e);
    } else {
        write_parts(h, w);
        ok = true;
    }
out:
    thread_pool_destroy(&w);
    free(sizes);
    return ok;
}

bool heap_locate(const struct heap *h, VkDeviceAddress a, VkBuffer *buffer, uint64_t *offset)
{
    for (int i = 0; i < h->n_buffers; i++) {
        const struct gpu_buffer *b = &h->buffers[i];
        if (a >= b->address && a < b->address + b->size) {
            *buffer = b->buffer;
            *offset = a - b->address;
            return true;
        }
    }
    return false;
}

void *heap_map(const struct heap *h, VkDeviceAddress a)
{
    for (int i = 0; i < h->n_buffers; i++) {
        const struct gpu_buffer *b = &h->buffers[i];
        if (b->map && a >= b->address && a < b->address + b->size)
            return (uint8_t *)b->map + (a - b->address);
    }
    return NULL;
}

void heap_fini(struct heap *h, struct gpu *g)
{
    for (int i = 0; i < h->n_buffers; i++)
        gpu_buffer_destroy(g, &h->buffers[i]);
    free(h->buffers);
    free(h->parts);
    memset(h, 0, sizeof *h);
}
