/* Reads and writes single safetensors files. Writing goes to a temporary name that becomes the
 * file's own when all data were written. */
#include "engine/format/tensor_file.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/buf.h"
#include "engine/format/safetensors.h"

bool tensor_file_open(struct tensor_file *f, const char *path, struct err *e)
{
    *f = (struct tensor_file){0};
    f->arena = arena_create(0);
    if (!f->arena)
        return err_set(e, ERR_NOMEM, "no memory to read a file");
    tensor_table_init(&f->tensors, f->arena);
    if (file_map(path, &f->map, e) &&
        safetensors_read(&(struct safetensors_source){.data = f->map.data, .size = f->map.size},
                         &f->tensors, e))
        return true;
    tensor_file_close(f);
    return err_prefix(e, "%s", path);
}

void tensor_file_close(struct tensor_file *f)
{
    tensor_table_fini(&f->tensors);
    file_unmap(&f->map);
    arena_destroy(&f->arena);
}

const struct tensor *tensor_file_get(const struct tensor_file *f, const char *name,
                                     const char *dtype, struct err *e)
{
    const struct tensor *t = tensor_table_find(&f->tensors, name);
    if (!t)
        err_field(e, ERR_NOTFOUND, name, "no tensor %s", name);
    else if (strcmp(t->type_name, dtype))
        err_field(e, ERR_FORMAT, name, "tensor %s is %s, want %s", name, t->type_name, dtype);
    else
        return t;
    return NULL;
}

uint64_t tensor_entry_bytes(const struct tensor_entry *t)
{
    uint64_t size = !strcmp(t->dtype, "U8")                                 ? 1
                    : !strcmp(t->dtype, "BF16") || !strcmp(t->dtype, "F16") ? 2
                                                                            : 4;
    return size * (uint64_t)tensor_count(t->dims, t->n_dims);
}

static void put_entry(struct buf *b, const struct tensor_entry *t, uint64_t at)
{
    buf_json_string(b, t->name, strlen(t->name));
    buf_printf(b, ":{\"dtype\":\"%s\",\"shape\":[", t->dtype);
    for (int i = 0; i < t->n_dims; i++)
        buf_printf(b, "%s%" PRId64, i ? "," : "", t->dims[i]);
    buf_printf(b, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", at, at + tensor_entry_bytes(t));
}

static bool write_header(struct tensor_writer *w, const struct tensor_list *l, struct err *e)
{
    struct buf b = {0};
    buf_puts(&b, "{");
    if (l->about) {
        buf_puts(&b, "\"__metadata__\":{\"about\":");
        buf_json_string(&b, l->about, strlen(l->about));
        buf_puts(&b, "}");
    }
    for (size_t i = 0; i < l->n; i++) {
        if (i || l->about)
            buf_putc(&b, ',');
        put_entry(&b, &l->entries[i], w->expected);
        w->expected += tensor_entry_bytes(&l->entries[i]);
    }
    buf_putc(&b, '}');
    while ((b.len + 8) % 64)
        buf_putc(&b, ' ');
    uint8_t length[8];
    for (int i = 0; i < 8; i++)
        length[i] = (uint8_t)((uint64_t)b.len >> (8 * i));
    bool ok = !b.failed || err_set(e, ERR_NOMEM, "no memory for a header of %zu tensors", l->n);
    ok = ok && ((fwrite(length, 8, 1, w->out) == 1 && fwrite(b.data, b.len, 1, w->out) == 1) ||
                err_errno(e, "writing %s", w->path));
    buf_fini(&b);
    return ok;
}

static bool create(struct tensor_writer *w, const char *path, struct err *e)
{
    *w = (struct tensor_writer){0};
    if (strlen(path) >= sizeof w->path)
        return err_set(e, ERR_LIMIT, "path of over %zu bytes", sizeof w->path - 1);
    strcpy(w->path, path);
    snprintf(w->part, sizeof w->part, "%s.part", path);
    w->out = fopen(w->part, "wb");
    return w->out || err_errno(e, "creating %s", w->part);
}

bool tensor_writer_begin(struct tensor_writer *w, const char *path, const struct tensor_list *list,
                         struct err *e)
{
    if (create(w, path, e) && write_header(w, list, e))
        return true;
    tensor_writer_abort(w);
    return false;
}

bool tensor_writer_begin_raw(struct tensor_writer *w, const char *path,
                             const struct tensor_raw_header *header, struct err *e)
{
    bool ok = create(w, path, e) && (fwrite(header->data, 1, header->len, w->out) == header->len ||
                                     err_errno(e, "writing %s", w->path));
    w->expected = header->data_bytes;
    if (!ok)
        tensor_writer_abort(w);
    return ok;
}

bool tensor_writer_put(struct tensor_writer *w, const void *data, size_t len, struct err *e)
{
    w->written += len;
    return fwrite(data, 1, len, w->out) == len || err_errno(e, "writing %s", w->path);
}

bool tensor_writer_end(struct tensor_writer *w, struct err *e)
{
    if (w->written != w->expected) {
        err_set(e, ERR_INTERNAL, "%s: %" PRIu64 " bytes written, %" PRIu64 " promised", w->path,
                w->written, w->expected);
        tensor_writer_abort(w);
        return false;
    }
    bool ok = fclose(w->out) == 0;
    w->out = NULL;
    ok = ok && rename(w->part, w->path) == 0;
    if (!ok) {
        err_errno(e, "writing %s", w->path);
        unlink(w->part);
    }
    return ok;
}

void tensor_writer_abort(struct tensor_writer *w)
{
    if (!w->out)
        return;
    fclose(w->out);
    w->out = NULL;
    unlink(w->part);
}
