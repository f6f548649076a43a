/* Keeps three exponentially decaying use counts per expert in logarithmic form, so that only the
 * experts of a step are updated, and saves them with the checksums. */
#include "engine/experts/policy/expert_history.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/buf.h"
#include "engine/base/file.h"
#include "engine/base/hash.h"

#define MAGIC 0x31707865u /* "exp1" */
#define MAX_FILE (64u << 20)
#define MAX_LONG_TERM 64.0 /* log2 of the largest plausible count of rows */

struct header { /* of the file; then n long-term scores as doubles, n checksums, and a hash64 of all
                   before it */
    uint32_t magic, n;
    uint64_t key, files;
};

static uint64_t identity(const struct expert_layout *l)
{
    uint64_t h = 0;
    for (int32_t i = 0; i < l->n_files; i++) {
        const struct expert_file *f = &l->files[i];
        uint64_t facts[] = {f->size, f->device, f->inode, (uint64_t)f->mtime_ns};
        h = hash64(facts, sizeof facts, h);
    }
    return h;
}

bool expert_history_init(struct expert_history *h, const struct expert_layout *l, uint64_t model,
                         struct err *e)
{
    int32_t n = 0;
    *h = (struct expert_history){.n_layers = l->n_layers, .files = identity(l)};
    h->first = calloc((size_t)l->n_layers + 1, sizeof *h->first);
    h->clock = calloc((size_t)l->n_layers, sizeof *h->clock);
    for (int32_t i = 0; h->first && i < l->n_layers; i++) {
        n += l->layers[i].n_expert;
        h->first[i + 1] = n;
    }
    h->n = n;
    h->key = h->first ? hash64(h->first, ((size_t)l->n_layers + 1) * sizeof *h->first, model) : 0;
    h->recency = calloc((size_t)n + 1, sizeof *h->recency);
    h->frequency = calloc((size_t)n + 1, sizeof *h->frequency);
    h->long_term = calloc((size_t)n + 1, sizeof *h->long_term);
    h->sums = calloc((size_t)n + 1, sizeof *h->sums);
    h->checked = calloc((size_t)n + 1, sizeof *h->checked);
    if (!h->first || !h->clock || !h->recency || !h->frequency || !h->long_term || !h->sums ||
        !h->checked) {
        expert_history_fini(h);
        return err_set(e, ERR_NOMEM, "no memory for the history of the experts");
    }
    for (int32_t i = 0; i < n; i++)
        h->recency[i] = h->frequency[i] = h->long_term[i] = -INFINITY;
    for (int32_t i = 0; i < l->n_layers; i++)
        for (int32_t x = 0; x < l->layers[i].n_expert; x++)
            h->sums[h->first[i] + x] = l->layers[i].records[x].checksum;
    return true;
}

void expert_history_fini(struct expert_history *h)
{
    free(h->first);
    free(h->clock);
    free(h->recency);
    free(h->frequency);
    free(h->long_term);
    free(h->sums);
    free(h->checked);
    *h = (struct expert_history){0};
}

void expert_history_advance(struct expert_history *h, int32_t layer, int32_t rows)
{
    h->clock[layer] += rows;
}

static void add(double *score, double now, double half_life, int32_t rows, int32_t of_rows)
{
    /* Where the rows lie among the step's is unknown, so each counts as an average row of the step.
     */
    double each = 1;
    if (of_rows > 1)
        each = (1 - exp2(-of_rows / half_life)) / (of_rows * (1 - exp2(-1 / half_life)));
    *score = log2(exp2(*score - now / half_life) + each * rows) + now / half_life;
}

void expert_history_touch(struct expert_history *h, int32_t layer, int32_t expert, int32_t rows,
                          int32_t of_rows)
{
    int32_t i = h->first[layer] + expert;
    add(&h->recency[i], h->clock[layer], EXPERT_RECENCY_HALF_LIFE, rows, of_rows);
    add(&h->frequency[i], h->clock[layer], EXPERT_FREQUENCY_HALF_LIFE, rows, of_rows);
    add(&h->long_term[i], h->clock[layer], EXPERT_LONG_TERM_HALF_LIFE, rows, of_rows);
}

double expert_history_recency(const struct expert_history *h, int32_t layer, int32_t expert)
{
    return h->recency[h->first[layer] + expert] - h->clock[layer] / EXPERT_RECENCY_HALF_LIFE;
}

double expert_history_frequency(const struct expert_history *h, int32_t layer, int32_t expert)
{
    return h->frequency[h->first[layer] + expert] - h->clock[layer] / EXPERT_FREQUENCY_HALF_LIFE;
}

double expert_history_long_term(const struct expert_history *h, int32_t layer, int32_t expert)
{
    return h->long_term[h->first[layer] + expert] - h->clock[layer] / EXPERT_LONG_TERM_HALF_LIFE;
}

/* --- file --- */

static bool path_of(const struct expert_history *h, const char *folder, char *path, size_t size,
                    struct err *e)
{
    char name[64];
    snprintf(name, sizeof name, "experts-%016" PRIx64, h->key);
    return file_join(path, size, folder, name, e);
}

bool expert_history_save(const struct expert_history *h, const char *folder, struct err *e)
{
    char path[4096];
    struct buf b = {0};
    struct header head = {.magic = MAGIC, .n = (uint32_t)h->n, .key = h->key, .files = h->files};
    buf_append(&b, &head, sizeof head);
    for (int32_t i = 0; i < h->n_layers; i++)
        for (int32_t x = 0; x < h->first[i + 1] - h->first[i]; x++) {
            double rank = expert_history_long_term(h, i, x);
            buf_append(&b, &rank, sizeof rank);
        }
    buf_append(&b, h->sums, (size_t)h->n * sizeof *h->sums);
    uint64_t sum = b.failed ? 0 : hash64(b.data, b.len, MAGIC);
    buf_append(&b, &sum, sizeof sum);
    bool ok = b.failed ? err_set(e, ERR_NOMEM, "no memory to save the history of the experts")
                       : file_mkdirs(folder, 0700, e) && path_of(h, folder, path, sizeof path, e) &&
                             file_write_atomic(path, b.data, b.len, 0600, e);
    buf_fini(&b);
    return ok;
}

static bool decode(struct expert_history *h, const struct buf *b, struct err *e)
{
    struct header head;
    size_t n = (size_t)h->n,
           size = sizeof head + n * (sizeof(double) + sizeof(uint64_t)) + sizeof(uint64_t);
    uint64_t sum;
    if (b->len != size)
        return err_set(e, ERR_FORMAT, "%zu bytes, want %zu", b->len, size);
    memcpy(&head, b->data, sizeof head);
    memcpy(&sum, b->data + size - sizeof sum, sizeof sum);
    if (head.magic != MAGIC || head.n != (uint32_t)h->n || head.key != h->key ||
        sum != hash64(b->data, size - sizeof sum, MAGIC))
        return err_set(e, ERR_FORMAT, "the file is damaged or belongs to another model");
    const char *at = b->data + sizeof head;
    for (int32_t i = 0; i < h->n_layers; i++)
        for (int32_t x = h->first[i]; x < h->first[i + 1]; x++) {
            memcpy(&h->long_term[x], at + (size_t)x * sizeof(double), sizeof(double));
            if (isnan(h->long_term[x]) || h->long_term[x] > MAX_LONG_TERM)
                h->long_term[x] = -INFINITY;
            h->recency[x] = h->long_term[x] - MAX_LONG_TERM; /* any use from now on counts more */
            h->frequency[x] = h->long_term[x] +
                              log2(EXPERT_FREQUENCY_HALF_LIFE /
                                   EXPERT_LONG_TERM_HALF_LIFE); /* assumes a constant rate of use */
        }
    for (size_t x = 0; x < n && head.files == h->files; x++)
        if (!h->sums[x]) /* checksums from a sidecar take precedence */
            memcpy(&h->sums[x], at + n * sizeof(double) + x * sizeof(uint64_t), sizeof(uint64_t));
    return true;
}

bool expert_history_load(struct expert_history *h, const char *folder, struct err *e)
{
    char path[4096];
    struct buf b = {0};
    bool ok = path_of(h, folder, path, sizeof path, e) && file_read(path, MAX_FILE, &b, e) &&
              (decode(h, &b, e) || err_prefix(e, "%s", path));
    buf_fini(&b);
    return ok;
}
