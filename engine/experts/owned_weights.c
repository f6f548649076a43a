/* Copies the dense weights in two identical walks over the plan: the first counts bytes, the
 * second copies into one mapping that is then locked and made read-only. */
#include "engine/experts/owned_weights.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct placer {
    uint8_t *memory; /* NULL: count */
    size_t at;
    uint64_t used;
};

static size_t plane_bytes(const struct weight *w, size_t stride, size_t row)
{
    return row ? (size_t)(w->rows - 1) * stride + row : 0;
}

/* Starts reading in large pieces, instead of page by page as the copy proceeds. */
static void read_ahead(const void *from, size_t bytes)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), first = (uintptr_t)from & ~(page - 1);
    madvise((void *)first, (uintptr_t)from + bytes - first, MADV_WILLNEED);
}

/* Strides are kept, so the gaps of fused tensors are copied as well. */
static const void *move(struct placer *p, const void *from, size_t bytes)
{
    uint8_t *to = p->memory + p->at;
    if (!from)
        return NULL;
    p->at += (bytes + 63) & ~(size_t)63;
    if (!p->memory)
        return from;
    read_ahead(from, bytes);
    return memcpy(to, from, bytes);
}

static void place(struct placer *p, struct weight *w)
{
    if (w->type == WEIGHT_NONE)
        return;
    size_t data = plane_bytes(w, w->row_bytes, weight_row_size(w));
    size_t scales = plane_bytes(w, w->scale_row_bytes, weight_scale_row_size(w));
    w->data = move(p, w->data, data);
    w->scales = move(p, w->scales, scales);
    w->biases = move(p, w->biases, scales);
    p->used += weight_matrix_bytes(w);
}

static void place_mlp(struct placer *p, struct mlp_plan *m)
{
    place(p, &m->gate);
    place(p, &m->up);
    place(p, &m->down);
}

static void place_layer(struct placer *p, struct layer_plan *l)
{
    struct attention_plan *a = &l->attention;
    struct delta_net_plan *d = &l->delta_net;
    struct weight *attention[] = {&a->wq, &a->wk, &a->wv, &a->wo, NULL};
    struct weight *delta_net[] = {&d->w_qkv, &d->w_z, &d->w_a, &d->w_b, &d->w_out, NULL};
    for (struct weight **w = l->mixer == MIXER_ATTENTION ? attention : delta_net; *w; w++)
        place(p, *w);
    if (l->ffn == FFN_DENSE) {
        place_mlp(p, &l->dense);
        return;
    }
    place(p, &l->moe.router);
    if (!l->moe.has_shared)
        return;
    place_mlp(p, &l->moe.shared);
    place(p, &l->moe.shared_gate);
}

/* While counting, works on a copy of each layer, so that the plan stays unchanged. */
static void place_all(struct placer *p, struct model_plan *plan)
{
    bool tied = plan->head.data == plan->embed.data;
    struct weight embed = plan->embed, head = plan->head;
    place(p, &embed);
    if (tied)
        head = embed;
    else
        place(p, &head);
    for (int32_t i = 0; i < plan->n_layer; i++) {
        struct layer_plan copy = plan->layers[i];
        place_layer(p, p->memory ? &plan->layers[i] : &copy);
    }
    if (p->memory) {
        plan->embed = embed;
        plan->head = head;
    }
}

/* Drops from the page cache what was read while the model was opened and copied. */
static void drop_mappings(const struct model *m)
{
    const void *start;
    size_t len;
    for (int i = 0; model_mapping(m, i, &start, &len); i++) {
        madvise((void *)start, len, MADV_DONTNEED);
        madvise((void *)start, len, MADV_RANDOM);
        madvise((void *)start, len, MADV_NOHUGEPAGE); /* what is still read of it are a few bytes */
        int fd = open(model_file(m, i), O_RDONLY | O_CLOEXEC);
        if (fd < 0)
            continue;
        posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
        close(fd);
    }
}

bool owned_weights_init(struct owned_weights *o, struct model_plan *plan, const struct model *m,
                        struct err *e)
{
    struct placer p = {0};
    *o = (struct owned_weights){0};
    place_all(&p, plan);
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    o->bytes = (p.at + page - 1) / page * page;
    void *memory = mmap(NULL, o->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return err_set(e, ERR_NOMEM, "no memory for %zu bytes of dense weights", o->bytes);
    madvise(memory, o->bytes, MADV_HUGEPAGE);
    o->memory = memory;
    o->locked = mlock(memory, o->bytes) == 0;
    p = (struct placer){.memory = o->memory};
    place_all(&p, plan);
    o->used = p.used;
    drop_mappings(m);
    return mprotect(memory, o->bytes, PROT_READ) == 0 ||
           err_errno(e, "mprotect of the dense weights");
}

void owned_weights_fini(struct owned_weights *o)
{
    if (o->memory)
        munmap(o->memory, o->bytes);
    *o = (struct owned_weights){0};
}
