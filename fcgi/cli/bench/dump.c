/* Keeps what a backend shows by name in memory, then writes it as one safetensors file. */
#include "fcgi/cli/bench/dump.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/buf.h"
#include "engine/base/file.h"
#include "engine/format/tensor_file.h"

struct item {
    char name[96];
    int32_t rows, cols;
    bool is_int;
    struct buf values;
};

struct dump {
    char path[4096];
    struct item *items;
    size_t n, cap;
    bool failed;
};

struct dump *dump_create(const char *dir, struct err *e)
{
    struct dump *d = calloc(1, sizeof *d);
    if (!d)
        err_set(e, ERR_NOMEM, "no memory for a trace");
    else if (file_mkdirs(dir, 0755, e) &&
             file_join(d->path, sizeof d->path, dir, "trace.safetensors", e))
        return d;
    free(d);
    return NULL;
}

void dump_destroy(struct dump **pd)
{
    struct dump *d = *pd;
    if (!d)
        return;
    for (size_t i = 0; i < d->n; i++)
        buf_fini(&d->items[i].values);
    free(d->items);
    free(d);
    *pd = NULL;
}

static struct item *find(struct dump *d, const char *name)
{
    for (size_t i = 0; i < d->n; i++)
        if (!strcmp(d->items[i].name, name))
            return &d->items[i];
    if (d->n == d->cap) {
        size_t cap = d->cap ? d->cap * 2 : 64;
        struct item *items = realloc(d->items, cap * sizeof *items);
        if (!items)
            return NULL;
        d->items = items;
        d->cap = cap;
    }
    struct item *one = &d->items[d->n++];
    *one = (struct item){0};
    snprintf(one->name, sizeof one->name, "%s", name);
    return one;
}

void dump_take(void *context, const char *name, const void *data, int32_t rows, int32_t cols,
               bool is_int)
{
    struct dump *d = context;
    struct item *one = find(d, name);
    if (!one || (one->rows && one->cols != cols) ||
        !buf_append(&one->values, data, (size_t)rows * (size_t)cols * 4)) {
        d->failed = true;
        return;
    }
    one->rows += rows;
    one->cols = cols;
    one->is_int = is_int;
}

bool dump_write(struct dump *d, struct err *e)
{
    if (d->failed)
        return err_set(e, ERR_NOMEM, "the trace did not fit into memory");
    struct tensor_writer w = {0};
    struct tensor_entry *entries = calloc(d->n + 1, sizeof *entries);
    if (!entries)
        return err_set(e, ERR_NOMEM, "no memory for the trace's header");
    for (size_t i = 0; i < d->n; i++)
        entries[i] = (struct tensor_entry){d->items[i].name,
                                           d->items[i].is_int ? "I32" : "F32",
                                           2,
                                           {d->items[i].rows, d->items[i].cols}};
    bool ok = tensor_writer_begin(
        &w, d->path,
        &(struct tensor_list){.entries = entries, .n = d->n, .about = "sluice logits --dump"}, e);
    for (size_t i = 0; ok && i < d->n; i++)
        ok = tensor_writer_put(&w, d->items[i].values.data, d->items[i].values.len, e);
    ok = ok && tensor_writer_end(&w, e);
    tensor_writer_abort(&w);
    free(entries);
    return ok;
}
