/* Derives the layout of expert records from a model's own files: the planes of an expert become
 * spans, and spans that share or adjoin a block become one part. */
#include "engine/experts/pack/expert_layout.h"

#include <string.h>
#include <sys/stat.h>

#include "engine/base/hash.h"

struct span { /* one plane of one matrix in its file */
    uint64_t from, to;
    int32_t file;
    int matrix, plane;
};

struct maker {
    struct expert_layout *layout;
    const struct model *model;
    int32_t last_file; /* where the last address was found; the next one is usually there too */
    struct span spans[EXPERT_MATRIX__N * EXPERT_PLANE__N]; /* of the record being made */
    int n_spans;
    struct err *e;
};

bool expert_file_identify(struct expert_file *f, struct err *e)
{
    struct stat st;
    if (stat(f->path, &st) != 0)
        return err_errno(e, "%s", f->path);
    f->size = (uint64_t)st.st_size;
    f->device = (uint64_t)st.st_dev;
    f->inode = (uint64_t)st.st_ino;
    f->mtime_ns = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
    return true;
}

static size_t plane_row_size(const struct weight *w, int plane)
{
    return plane == EXPERT_DATA ? weight_row_size(w) : weight_scale_row_size(w);
}

static size_t plane_stride(const struct weight *w, int plane)
{
    return plane == EXPERT_DATA ? w->row_bytes : w->scale_row_bytes;
}

static const uint8_t *plane_of(const struct weight_planes *p, int plane)
{
    return plane == EXPERT_DATA ? p->data : plane == EXPERT_SCALES ? p->scales : p->biases;
}

uint64_t expert_layer_packed_bytes(const struct expert_layer *layer)
{
    uint64_t sum = 0;
    for (int m = 0; m < EXPERT_MATRIX__N; m++)
        sum += weight_matrix_bytes(&layer->weights[m]);
    return sum;
}

uint64_t expert_record_read_bytes(const struct expert_record *r)
{
    uint64_t sum = 0;
    for (int32_t i = 0; i < r->n_parts; i++)
        sum += r->parts[i].length;
    return sum;
}

struct weight_planes expert_record_planes(const struct expert_record *r, enum expert_matrix matrix,
                                          const uint8_t *memory)
{
    const uint8_t *at[EXPERT_PLANE__N];
    for (int p = 0; p < EXPERT_PLANE__N; p++)
        at[p] = r->planes[matrix][p] == EXPERT_NO_PLANE ? NULL : memory + r->planes[matrix][p];
    return (struct weight_planes){
        .data = at[EXPERT_DATA], .scales = at[EXPERT_SCALES], .biases = at[EXPERT_BIASES]};
}

uint64_t expert_record_checksum(const struct weight weights[EXPERT_MATRIX__N],
                                const struct weight_planes where[EXPERT_MATRIX__N])
{
    uint64_t h = 0;
    for (int m = 0; m < EXPERT_MATRIX__N; m++)
        for (int p = 0; p < EXPERT_PLANE__N; p++) {
            const uint8_t *at = plane_of(&where[m], p);
            size_t row = plane_row_size(&weights[m], p), stride = plane_stride(&weights[m], p);
            for (int32_t i = 0; at && i < weights[m].rows; i++)
                h = hash64(at + (size_t)i * stride, row, h);
        }
    return h ? h : 1;
}

/* The file whose mapping holds the address, and the offset in it; -1: none. */
static int32_t find_file(struct maker *k, const uint8_t *at, uint64_t *offset)
{
    int32_t n = k->layout->n_files;
    for (int32_t i = 0; i < n; i++) {
        int32_t file = (k->last_file + i) % n;
        const void *start;
        size_t len;
        if (!model_mapping(k->model, file, &start, &len))
            continue;
        if (at < (const uint8_t *)start || at >= (const uint8_t *)start + len)
            continue;
        *offset = (uint64_t)(at - (const uint8_t *)start);
        k->last_file = file;
        return file;
    }
    return -1;
}

/* Inserts a plane into the record's spans, which are kept in order of file and offset. */
static bool add_span(struct maker *k, const struct weight *w, int matrix, int plane,
                     const uint8_t *at)
{
    struct span *spans = k->spans;
    struct span s = {.matrix = matrix, .plane = plane};
    s.file = find_file(k, at, &s.from);
    if (s.file < 0)
        return err_field(k->e, ERR_UNSUPPORTED, w->name,
                         "tensor %s had to be repacked in memory, so its experts cannot be "
                         "streamed from the file",
                         w->name);
    s.to = s.from + (uint64_t)(w->rows - 1) * plane_stride(w, plane) + plane_row_size(w, plane);
    int i = k->n_spans++;
    for (; i && (spans[i - 1].file > s.file ||
                 (spans[i - 1].file == s.file && spans[i - 1].from > s.from));
         i--)
        spans[i] = spans[i - 1];
    spans[i] = s;
    return true;
}

/* The end of the last byte of gate or up in this part, from its beginning; 0: it has none. */
static uint32_t gate_up_end(const struct expert_record *r, const struct expert_part *part,
                            const struct weight weights[EXPERT_MATRIX__N])
{
    uint32_t end = 0;
    for (int m = 0; m < EXPERT_DOWN; m++)
        for (int p = 0; p < EXPERT_PLANE__N; p++) {
            const uint32_t at = r->planes[m][p];
            if (at == EXPERT_NO_PLANE || at < part->at || at - part->at >= part->length)
                continue;
            const size_t extent = (size_t)(weights[m].rows - 1) * plane_stride(&weights[m], p) +
                                  plane_row_size(&weights[m], p);
            const uint32_t to = at - part->at + (uint32_t)extent;
            end = to > end ? to : end;
        }
    return end;
}

void expert_record_order_parts(struct expert_record *r,
                               const struct weight weights[EXPERT_MATRIX__N])
{
    struct expert_part parts[EXPERT_MAX_PARTS];
    uint32_t before = 0;
    int32_t n = 0;
    r->gate_up_bytes = 0;
    for (int with_gate_up = 1; with_gate_up >= 0; with_gate_up--)
        for (int32_t i = 0; i < r->n_parts; i++) {
            const uint32_t end = gate_up_end(r, &r->parts[i], weights);
            if ((end > 0) != with_gate_up)
                continue;
            if (end)
                r->gate_up_bytes = before + (end + EXPERT_ALIGN - 1) / EXPERT_ALIGN * EXPERT_ALIGN;
            before += r->parts[i].length;
            parts[n++] = r->parts[i];
        }
    memcpy(r->parts, parts, (size_t)n * sizeof *parts);
}

/* Merges spans, in order of file and offset, into parts: spans that share or adjoin a block are
 * read in one piece. */
static bool make_parts(struct expert_record *r, const struct span *spans, int n)
{
    uint64_t at = 0;
    for (int i = 0; i < n; i++) {
        uint64_t from = spans[i].from / EXPERT_ALIGN * EXPERT_ALIGN;
        uint64_t to = (spans[i].to + EXPERT_ALIGN - 1) / EXPERT_ALIGN * EXPERT_ALIGN;
        struct expert_part *p = r->n_parts ? &r->parts[r->n_parts - 1] : NULL;
        if (p && p->file == spans[i].file && from <= p->offset + p->length) {
            at -= p->length;
            if (to > p->offset + p->length) {
                if (to - p->offset > UINT32_MAX / 2)
                    return false;
                p->length = (uint32_t)(to - p->offset);
            }
        } else {
            if (at + (to - from) > UINT32_MAX / 2)
                return false;
            p = &r->parts[r->n_parts++];
            *p = (struct expert_part){.offset = from,
                                      .length = (uint32_t)(to - from),
                                      .at = (uint32_t)at,
                                      .file = spans[i].file};
        }
        at += p->length;
        r->planes[spans[i].matrix][spans[i].plane] = p->at + (uint32_t)(spans[i].from - p->offset);
    }
    return at <= UINT32_MAX / 2;
}

static bool make_record(struct maker *k, struct expert_layer *layer,
                        const struct weight *const plan[], int32_t expert)
{
    struct expert_record *r = &layer->records[expert];
    k->n_spans = 0;
    for (int m = 0; m < EXPERT_MATRIX__N; m++) {
        struct weight_planes where = weight_planes(plan[m], expert);
        for (int p = 0; p < EXPERT_PLANE__N; p++) {
            const uint8_t *at = plane_of(&where, p);
            r->planes[m][p] = EXPERT_NO_PLANE;
            if (at && !add_span(k, plan[m], m, p, at))
                return false;
        }
    }
    if (!make_parts(r, k->spans, k->n_spans))
        return err_set(k->e, ERR_LIMIT, "layer %d, expert %d: larger than 2 GiB", layer->layer,
                       expert);
    expert_record_order_parts(r, layer->weights);
    uint64_t bytes = expert_record_read_bytes(r);
    k->layout->read_bytes += bytes;
    if (bytes > layer->record_bytes)
        layer->record_bytes = (uint32_t)bytes;
    return true;
}

static bool make_layer(struct maker *k, struct expert_layer *layer, const struct moe_plan *m)
{
    struct expert_layout *l = k->layout;
    const struct weight *const plan[] = {&m->gate, &m->up, &m->down};
    layer->n_expert = m->n_expert;
    layer->records = arena_alloc(l->arena, (size_t)m->n_expert * sizeof *layer->records);
    if (!layer->records)
        return err_set(k->e, ERR_NOMEM, "no memory for the layout of %d experts", m->n_expert);
    for (int i = 0; i < EXPERT_MATRIX__N; i++) {
        layer->weights[i] = *plan[i];
        layer->weights[i].data = layer->weights[i].scales = layer->weights[i].biases = NULL;
        layer->weights[i].table = NULL;
    }
    for (int32_t x = 0; x < m->n_expert; x++)
        if (!make_record(k, layer, plan, x))
            return false;
    l->expert_bytes += expert_layer_packed_bytes(layer) * (uint64_t)m->n_expert;
    if (layer->record_bytes > l->record_bytes_max)
        l->record_bytes_max = layer->record_bytes;
    return true;
}

static bool list_files(struct maker *k)
{
    struct expert_layout *l = k->layout;
    l->n_files = model_stats(k->model)->n_files;
    l->files = arena_alloc(l->arena, (size_t)l->n_files * sizeof *l->files);
    if (!l->files)
        return err_set(k->e, ERR_NOMEM, "no memory for %d files", l->n_files);
    for (int32_t i = 0; i < l->n_files; i++) {
        const void *start;
        size_t len = 0;
        l->files[i].path = model_file(k->model, i);
        if (!expert_file_identify(&l->files[i], k->e))
            return false;
        model_mapping(k->model, i, &start, &len);
        if (l->files[i].size != len)
            return err_set(k->e, ERR_CONFLICT, "%s changed while the model was being opened",
                           l->files[i].path);
    }
    return true;
}

static bool make_layers(struct maker *k)
{
    struct expert_layout *l = k->layout;
    const struct model_plan *plan = model_plan(k->model);
    for (int32_t i = 0; i < plan->n_layer; i++)
        l->n_layers += plan->layers[i].ffn == FFN_MOE;
    if (!l->n_layers)
        return err_set(k->e, ERR_UNSUPPORTED, "the model has no routed experts to stream");
    l->layers = arena_alloc(l->arena, (size_t)l->n_layers * sizeof *l->layers);
    if (!l->layers)
        return err_set(k->e, ERR_NOMEM, "no memory for the layout of %d layers", l->n_layers);
    for (int32_t i = 0, at = 0; i < plan->n_layer; i++) {
        if (plan->layers[i].ffn != FFN_MOE)
            continue;
        l->layers[at].layer = i;
        if (!make_layer(k, &l->layers[at++], &plan->layers[i].moe))
            return false;
    }
    return true;
}

bool expert_layout_open(struct expert_layout *l, const struct model *m, struct err *e)
{
    struct maker k = {.layout = l, .model = m, .e = e};
    *l = (struct expert_layout){.arena = arena_create(0)};
    if (!l->arena)
        return err_set(e, ERR_NOMEM, "no memory for the layout of the experts");
    if (list_files(&k) && make_layers(&k))
        return true;
    expert_layout_close(l);
    return false;
}

void expert_layout_close(struct expert_layout *l)
{
    arena_destroy(&l->arena);
    *l = (struct expert_layout){0};
}
