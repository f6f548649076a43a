/* Computes where records lie in a sidecar file, and decides whether a file is a valid sidecar of
 * a model. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/file.h"
#include "engine/base/hash.h"
#include "engine/base/log.h"
#include "engine/experts/pack/expert_pack.h"
#include "engine/experts/pack/pack_format.h"

#define LOG_MODULE "experts"

static uint64_t round_up(uint64_t n, uint64_t to)
{
    return (n + to - 1) / to * to;
}

/* Planes of one record, the same for all of the layer; false where it passes what a record may
 * have. */
static bool place_planes(struct expert_layer *layer, const struct moe_plan *m,
                         uint32_t planes[][EXPERT_PLANE__N])
{
    const struct weight *const plan[] = {&m->gate, &m->up, &m->down};
    uint64_t at = 0;
    for (int i = 0; i < EXPERT_MATRIX__N; i++) {
        struct weight *w = &layer->weights[i];
        struct weight_planes has = weight_planes(plan[i], 0);
        *w = *plan[i];
        w->data = w->scales = w->biases = NULL;
        w->table = NULL;
        w->row_bytes = weight_row_size(w);
        w->scale_row_bytes = weight_scale_row_size(w);
        w->matrix_bytes = w->row_bytes * (size_t)w->rows;
        w->scale_matrix_bytes = w->scale_row_bytes * (size_t)w->rows;
        const struct {
            bool there;
            size_t bytes;
        } parts[] = {{true, w->matrix_bytes},
                     {has.scales, w->scale_matrix_bytes},
                     {has.biases, w->scale_matrix_bytes}};
        for (int p = 0; p < EXPERT_PLANE__N; p++) {
            planes[i][p] = parts[p].there ? (uint32_t)at : EXPERT_NO_PLANE;
            at = parts[p].there ? round_up(at + parts[p].bytes, PACK_PLANE_ALIGN) : at;
            if (at > UINT32_MAX / 2)
                return false;
        }
    }
    layer->record_bytes = (uint32_t)round_up(at, EXPERT_ALIGN);
    return true;
}

static bool place_layer(struct expert_layout *l, struct expert_layer *layer,
                        const struct moe_plan *m, uint64_t *offset, struct err *e)
{
    uint32_t planes[EXPERT_MATRIX__N][EXPERT_PLANE__N];
    layer->n_expert = m->n_expert;
    layer->records = arena_alloc(l->arena, (size_t)m->n_expert * sizeof *layer->records);
    if (!layer->records)
        return err_set(e, ERR_NOMEM, "no memory for the layout of %d experts", m->n_expert);
    if (!place_planes(layer, m, planes))
        return err_set(e, ERR_LIMIT, "layer %d: experts of over 2 GiB", layer->layer);
    for (int32_t i = 0; i < m->n_expert; i++) {
        struct expert_record *r = &layer->records[i];
        r->n_parts = 1;
        r->parts[0] = (struct expert_part){.offset = *offset, .length = layer->record_bytes};
        memcpy(r->planes, planes, sizeof planes);
        expert_record_order_parts(r, layer->weights);
        *offset += layer->record_bytes;
    }
    l->expert_bytes += expert_layer_packed_bytes(layer) * (uint64_t)m->n_expert;
    l->read_bytes += (uint64_t)layer->record_bytes * (uint64_t)m->n_expert;
    if (layer->record_bytes > l->record_bytes_max)
        l->record_bytes_max = layer->record_bytes;
    return true;
}

static uint64_t data_offset(const struct expert_layout *l)
{
    uint64_t n = 0;
    for (int32_t i = 0; i < l->n_layers; i++)
        n += (uint64_t)l->layers[i].n_expert;
    return EXPERT_ALIGN + round_up(n * sizeof(uint64_t), EXPERT_ALIGN);
}

bool pack_layout(struct expert_layout *l, const struct model *m, struct err *e)
{
    const struct model_plan *plan = model_plan(m);
    l->packed = true;
    l->n_layers = 0;
    for (int32_t i = 0; i < plan->n_layer; i++)
        l->n_layers += plan->layers[i].ffn == FFN_MOE;
    if (!l->n_layers)
        return err_set(e, ERR_UNSUPPORTED, "the model has no routed experts");
    l->layers = arena_alloc(l->arena, (size_t)l->n_layers * sizeof *l->layers);
    if (!l->layers)
        return err_set(e, ERR_NOMEM, "no memory for the layout of %d layers", l->n_layers);
    for (int32_t i = 0, at = 0; i < plan->n_layer; i++)
        if (plan->layers[i].ffn == FFN_MOE) {
            l->layers[at].layer = i;
            l->layers[at++].n_expert = plan->layers[i].moe.n_expert;
        }
    uint64_t offset = data_offset(l);
    for (int32_t i = 0; i < l->n_layers; i++)
        if (!place_layer(l, &l->layers[i], &plan->layers[l->layers[i].layer].moe, &offset, e))
            return false;
    return true;
}

struct pack_header pack_header_of(const struct expert_layout *l, const struct model *m)
{
    struct pack_header h = {.magic = PACK_MAGIC,
                            .version = PACK_VERSION,
                            .n_layers = (uint32_t)l->n_layers,
                            .fingerprint = model_plan(m)->fingerprint,
                            .data_offset = data_offset(l)};
    h.file_bytes = h.data_offset;
    for (int32_t i = 0; i < l->n_layers; i++) {
        h.n_records += (uint64_t)l->layers[i].n_expert;
        h.file_bytes += (uint64_t)l->layers[i].n_expert * l->layers[i].record_bytes;
    }
    return h;
}

static uint64_t header_hash(const struct pack_header *h)
{
    return hash64(h, offsetof(struct pack_header, header_hash), 0);
}

void pack_header_seal(struct pack_header *h)
{
    h->header_hash = header_hash(h);
}

bool pack_header_check(const struct pack_header *h, const struct pack_header *want,
                       const char *path, struct err *e)
{
    if (memcmp(h->magic, want->magic, sizeof h->magic))
        return err_set(e, ERR_FORMAT, "%s is not a file of packed experts", path);
    if (h->version != want->version)
        return err_set(e, ERR_FORMAT, "%s has version %u, this program reads %u", path, h->version,
                       want->version);
    if (h->header_hash != header_hash(h))
        return err_set(e, ERR_FORMAT, "%s: the header is damaged", path);
    if (h->fingerprint != want->fingerprint)
        return err_set(e, ERR_CONFLICT,
                       "%s belongs to another model, or to this one before it changed", path);
    if (h->n_layers != want->n_layers || h->n_records != want->n_records ||
        h->data_offset != want->data_offset || h->file_bytes != want->file_bytes)
        return err_set(e, ERR_FORMAT, "%s: the header does not fit the model", path);
    return true;
}

bool expert_pack_path(char *out, size_t size, const struct model *m, const char *folder,
                      struct err *e)
{
    const char *first = model_file(m, 0), *name = file_base_name(first);
    int n = folder ? snprintf(out, size, "%s/%s.experts", folder, name)
                   : snprintf(out, size, "%s.experts", first);
    return (n > 0 && (size_t)n < size) || err_set(e, ERR_LIMIT, "%s.experts: path too long", name);
}

uint64_t expert_pack_bytes(const struct expert_layout *l, uint64_t *records)
{
    uint64_t sum = 0;
    for (int32_t i = 0; i < l->n_layers; i++) {
        uint64_t record = 0;
        for (int w = 0; w < EXPERT_MATRIX__N; w++)
            for (int p = 0; p < EXPERT_PLANE__N; p++) {
                const struct weight *matrix = &l->layers[i].weights[w];
                size_t row =
                    p == EXPERT_DATA ? weight_row_size(matrix) : weight_scale_row_size(matrix);
                if (l->layers[i].records[0].planes[w][p] != EXPERT_NO_PLANE)
                    record += round_up(row * (size_t)matrix->rows, PACK_PLANE_ALIGN);
            }
        sum += round_up(record, EXPERT_ALIGN) * (uint64_t)l->layers[i].n_expert;
    }
    if (records)
        *records = sum;
    return data_offset(l) + sum;
}

ssize_t pack_file_read(const struct pack_file *f, void *into, size_t len, uint64_t at,
                       struct err *e)
{
    size_t got = 0;
    while (got < len) {
        ssize_t n = pread(f->fd, (char *)into + got, len - got, (off_t)(at + got));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            err_errno(e, "%s", f->path);
            return -1;
        }
        if (n == 0)
            break;
        got += (size_t)n;
    }
    return (ssize_t)got;
}

/* Reads all of the range; a file that ends within it is an error. */
static bool read_whole(const struct pack_file *f, void *into, size_t len, uint64_t at,
                       struct err *e)
{
    ssize_t got = pack_file_read(f, into, len, at, e);
    if (got < 0)
        return false;
    return (size_t)got == len || err_set(e, ERR_FORMAT, "%s ends after %llu bytes", f->path,
                                         (unsigned long long)(at + (uint64_t)got));
}

static bool read_checksums(struct expert_layout *l, const struct pack_file *f,
                           const struct pack_header *h, struct err *e)
{
    uint64_t *sums = malloc(h->n_records * sizeof *sums), i = 0;
    if (!sums)
        return err_set(e, ERR_NOMEM, "no memory for %llu checksums",
                       (unsigned long long)h->n_records);
    bool ok = read_whole(f, sums, h->n_records * sizeof *sums, EXPERT_ALIGN, e);
    if (ok && (!h->table_hash || hash64(sums, h->n_records * sizeof *sums, 0) != h->table_hash))
        ok = err_set(e, ERR_FORMAT, "%s: the table of checksums is damaged", f->path);
    for (int32_t k = 0; ok && k < l->n_layers; k++)
        for (int32_t x = 0; x < l->layers[k].n_expert; x++)
            l->layers[k].records[x].checksum = sums[i++];
    free(sums);
    return ok;
}

static bool open_file(struct expert_layout *l, const struct model *m, const struct pack_file *f,
                      struct err *e)
{
    struct pack_header h = {0}, want;
    if (!read_whole(f, &h, sizeof h, 0, e) || !pack_layout(l, m, e))
        return false;
    want = pack_header_of(l, m);
    l->files = arena_alloc(l->arena, sizeof *l->files);
    char *name = arena_strdup(l->arena, f->path);
    if (!l->files || !name)
        return err_set(e, ERR_NOMEM, "no memory for the layout of the experts");
    l->n_files = 1;
    l->files[0].path = name;
    if (!pack_header_check(&h, &want, f->path, e) || !expert_file_identify(&l->files[0], e))
        return false;
    if (l->files[0].size != h.file_bytes)
        return err_set(e, ERR_FORMAT, "%s has %llu bytes, want %llu", f->path,
                       (unsigned long long)l->files[0].size, (unsigned long long)h.file_bytes);
    return read_checksums(l, f, &h, e);
}

bool expert_pack_open(struct expert_layout *l, const struct model *m, const char *path,
                      struct err *e)
{
    *l = (struct expert_layout){0};
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return err_errno(e, "%s", path);
    l->arena = arena_create(0);
    bool ok = l->arena ? open_file(l, m, &(struct pack_file){.fd = fd, .path = path}, e)
                       : err_set(e, ERR_NOMEM, "no memory for the layout of the experts");
    close(fd);
    if (!ok)
        expert_layout_close(l);
    return ok;
}

bool expert_layout_pick(struct expert_layout *l, const struct model *m, const char *folder,
                        struct err *e)
{
    char path[4096];
    struct err why = {0};
    if (expert_pack_path(path, sizeof path, m, folder, &why) &&
        expert_pack_open(l, m, path, &why)) {
        log_debug("packed=\"%s\" records_mb=%.1f", path, (double)l->read_bytes / 1e6);
        return true;
    }
    if (why.code != ERR_NOTFOUND)
        log_warn("packed experts not used: %s", why.text);
    return expert_layout_open(l, m, e);
}
