/* A step op by op, for tests: every intermediate is fetched and handed to params.dump. */
#include "engine/vulkan/ops/forward.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/vulkan/ops/delta_net_ops.h"
#include "engine/vulkan/ops/host_sync.h"

struct dumping {
    struct forward *f;
    struct gpu_buffer copy;
    float *before, *now; /* [rows, d] residual stream */
    struct err *e;
};

/* Copies rows of `width` words, `stride` words apart on the device, to out without gaps. */
static bool fetch(struct dumping *d, VkDeviceAddress from, uint32_t width, uint32_t stride,
                  void *out)
{
    VkBuffer buffer;
    uint64_t offset;
    uint32_t rows = d->f->r.n_rows;
    if (!record_locate(&d->f->r, from, &buffer, &offset))
        return false;
    vkCmdCopyBuffer(d->f->r.c, buffer, d->copy.buffer, 1,
                    &(VkBufferCopy){.srcOffset = offset, .size = (uint64_t)rows * stride * 4});
    host_sync_wait(&d->f->r);
    for (uint32_t i = 0; d->f->r.ok && i < rows; i++) {
        memcpy((uint8_t *)out + (size_t)i * width * 4,
               (uint8_t *)d->copy.map + (size_t)i * stride * 4, (size_t)width * 4);
    }
    return d->f->r.ok;
}

static void give(struct dumping *d, const char *what, int layer, const void *data, uint32_t cols,
                 bool is_int)
{
    const struct backend_params *p = &d->f->r.b->params;
    char name[64];
    if (layer < 0)
        snprintf(name, sizeof name, "%s", what);
    else
        snprintf(name, sizeof name, "layers.%d.%s", layer, what);
    p->dump(p->dump_context, name, data, (int32_t)d->f->r.n_rows, (int32_t)cols, is_int);
}

static void give_stream(struct dumping *d, const char *what, const char *part, int layer)
{
    struct backend *b = d->f->r.b;
    uint32_t width = (uint32_t)b->plan->d_model;
    if (!fetch(d, b->workspace.x, width, b->sizes.d, d->now))
        return;
    if (part) { /* what this half of the layer added */
        for (size_t i = 0; i < (size_t)width * d->f->r.n_rows; i++)
            d->before[i] = d->now[i] - d->before[i];
        give(d, part, layer, d->before, width, false);
    }
    give(d, what, layer, d->now, width, false);
    memcpy(d->before, d->now, (size_t)width * d->f->r.n_rows * 4);
}

/* States after the step, one sequence after the other. */
static void give_states(struct dumping *d, int layer)
{
    struct backend *b = d->f->r.b;
    const struct backend_params *params = &b->params;
    const struct delta_net_plan *p = &b->plan->layers[layer].delta_net;
    int32_t n = d->f->shape->n_sequences ? d->f->shape->n_sequences : d->f->shape->n_rows;
    int32_t channels = delta_net_channels(p), taps = p->n_conv - 1;
    uint64_t bytes = delta_net_state_bytes(p), offset;
    float *shown = malloc(bytes);
    VkBuffer buffer;
    char name[64];
    if (!shown || !heap_locate(&b->state_heap, b->model.layers[layer].state, &buffer, &offset))
        d->f->r.ok = err_set(d->e, ERR_NOMEM, "no memory for the dump of a state");
    for (int32_t i = 0; d->f->r.ok && i < n; i++) {
        const int32_t *q = b->step.sequences[i];
        vkCmdCopyBuffer(
            d->f->r.c, buffer, d->copy.buffer, 1,
            &(VkBufferCopy){.srcOffset = offset + (uint64_t)q[2] * bytes, .size = bytes});
        host_sync_wait(&d->f->r);
        if (!d->f->r.ok)
            break;
        delta_net_show_state(p, d->copy.map, q[3] + q[1], shown, shown + channels * taps);
        snprintf(name, sizeof name, "layers.%d.conv", layer);
        params->dump(params->dump_context, name, shown, channels, taps, false);
        snprintf(name, sizeof name, "layers.%d.recurrent", layer);
        params->dump(params->dump_context, name, shown + channels * taps, p->n_v_head * p->d_k,
                     p->d_v, false);
    }
    free(shown);
}

static void on_intermediate(void *context, const char *what, int layer)
{
    struct dumping *d = context;
    struct backend *b = d->f->r.b;
    if (!strcmp(what, "embed")) {
        give_stream(d, what, NULL, layer);
    } else if (!strcmp(what, "after_mixer") || !strcmp(what, "after_ffn")) {
        give_stream(d, what, what[6] == 'm' ? "mixer" : "ffn", layer);
        if (what[6] == 'm' && b->plan->layers[layer].mixer == MIXER_DELTA_NET)
            give_states(d, layer);
    } else if (!strcmp(what, "router_logits")) {
        uint32_t n = (uint32_t)b->plan->layers[layer].moe.n_expert;
        const float *bias = b->plan->layers[layer].moe.router_bias.at;
        if (fetch(d, b->workspace.router, n, b->sizes.expert, d->now)) {
            for (size_t i = 0; bias && i < (size_t)n * d->f->r.n_rows; i++)
                d->now[i] -= bias[i % n]; /* the reference shows them before the bias */
            give(d, what, layer, d->now, n, false);
        }
    } else {
        uint32_t n = (uint32_t)b->plan->layers[layer].moe.n_used;
        if (fetch(d, b->workspace.ids, n, n, d->now))
            give(d, "expert_ids", layer, d->now, n, true);
        if (fetch(d, b->workspace.weights, n, n, d->now))
            give(d, "expert_weights", layer, d->now, n, false);
    }
}

bool forward_dump(struct backend *b, const struct step_shape *s, struct err *e)
{
    struct forward f = {.r = {.b = b, .n_rows = (uint32_t)s->n_rows, .ok = true, .e = e},
                        .shape = s};
    struct dumping d = {.f = &f, .e = e};
    size_t widest = b->sizes.d > b->sizes.expert ? b->sizes.d : b->sizes.expert;
    size_t bytes = widest * (size_t)s->n_rows * 4;
    d.before = calloc(1, bytes);
    d.now = calloc(1, bytes);
    for (int i = 0; i < b->plan->n_layer; i++) {
        size_t state = b->model.layers[i].state
                           ? (size_t)delta_net_state_bytes(&b->plan->layers[i].delta_net)
                           : 0;
        bytes = state > bytes ? state : bytes;
    }
    f.observer = on_intermediate;
    f.observer_context = &d;
    bool ok = d.before && d.now
                  ? gpu_buffer_create(&b->gpu,
                                      &(struct gpu_buffer_params){
                                          .where = GPU_READBACK, .size = bytes, .name = "dump"},
                                      &d.copy, e)
                  : err_set(e, ERR_NOMEM, "no memory for the dump");
    if (ok && (f.r.c = gpu_command_begin(&b->gpu, false, e))) {
        forward_record_ops(&f);
        host_sync_wait(&f.r);
    }
    ok = ok && f.r.ok && f.r.c;
    gpu_command_free(&b->gpu, &f.r.c);
    gpu_buffer_destroy(&b->gpu, &d.copy);
    free(d.before);
    free(d.now);
    return ok;
}
