/* golden.h: reference logits and states read from files, and how far ours may be from them. */
#include "tests/golden/golden.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/format/weight_bits.h"

const char *golden_path(const char *name)
{
    static char paths[2][4096];
    static int turn;
    const char *root = getenv("srcdir"); /* set by automake's test driver */
    turn = !turn;
    snprintf(paths[turn], sizeof paths[turn], "%s/%s", root ? root : ".", name);
    return paths[turn];
}

bool golden_ids(const struct tensor_file *f, const char *name, struct ids *out, struct err *e)
{
    const struct tensor *t = tensor_file_get(f, name, "I32", e);
    if (!t)
        return false;
    for (uint64_t at = 0; at < t->bytes; at += 4)
        if (!ids_push(out, (int32_t)load_u32(t->data + at)))
            return err_set(e, ERR_NOMEM, "no memory for ids");
    return true;
}

void golden_rows_free(struct golden_rows *r)
{
    free(r->at);
    *r = (struct golden_rows){0};
}

static bool keep_row(void *context, int32_t position, const struct step_row *row, struct err *e)
{
    struct golden_rows *r = context;
    float *at = realloc(r->at, (size_t)(r->n + 1) * (size_t)r->n_vocab * sizeof *at);
    if (!at)
        return err_set(e, ERR_NOMEM, "no memory for row %d", position);
    r->at = at;
    memcpy(at + (size_t)r->n++ * (size_t)r->n_vocab, row->logits, (size_t)r->n_vocab * sizeof *at);
    return true;
}

bool golden_feed(struct cli_run *r, int32_t sequence, const int32_t *ids, int32_t n, int32_t start,
                 int32_t n_out, struct golden_rows *out, struct err *e)
{
    out->n_vocab = r->plan->n_vocab;
    struct cli_run_feed feed = {.sequence = sequence,
                                .tokens = ids,
                                .n = n,
                                .start = start,
                                .n_out = n_out,
                                .want_logits = true,
                                .on_row = keep_row,
                                .context = out};
    return cli_run_feed(r, &feed, e);
}

float golden_distance(const float *a, const float *b, size_t n)
{
    float worst = 0;
    for (size_t i = 0; i < n; i++) {
        float d = fabsf(a[i] - b[i]);
        if (!(d <= worst))
            worst = isnan(d) ? INFINITY : d;
    }
    return worst;
}

int32_t golden_argmax(const float *row, int32_t n)
{
    int32_t best = 0;
    for (int32_t i = 1; i < n; i++)
        if (row[i] > row[best])
            best = i;
    return best;
}

bool golden_slow_device(const char *backend)
{
    return !strcmp(backend, "vulkan") && vulkan_is_software();
}
