/* Reads token ids from JSON, plain numbers or safetensors, and refuses what is no id. */
#include "fcgi/cli/cli_ids.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/buf.h"
#include "engine/base/file.h"
#include "engine/format/tensor_file.h"
#include "engine/format/weight_bits.h"

static bool push(struct ids *out, int64_t id, struct err *e)
{
    if (id < 0 || id > INT32_MAX)
        return err_set(e, ERR_INPUT, "id %lld is out of range", (long long)id);
    if (out->n == CLI_MAX_IDS)
        return err_set(e, ERR_LIMIT, "over %d ids", CLI_MAX_IDS);
    return ids_push(out, (int32_t)id) || err_set(e, ERR_NOMEM, "no memory for ids");
}

bool cli_ids_text(const char *text, size_t len, struct ids *out, struct err *e)
{
    const char *at = text, *end = text + len;
    while (at < end) {
        if (strchr(" \t\r\n,[]", *at)) {
            at++;
            continue;
        }
        char *after;
        long long id = strtoll(at, &after, 10);
        if (after == at || (after < end && !strchr(" \t\r\n,]", *after)))
            return err_set(e, ERR_INPUT, "not a list of ids, at byte %zu", (size_t)(at - text));
        if (!push(out, id, e))
            return false;
        at = after;
    }
    return true;
}

static bool from_tensor(const char *path, struct ids *out, struct err *e)
{
    struct tensor_file f;
    if (!tensor_file_open(&f, path, e))
        return false;
    const struct tensor *t = tensor_table_find(&f.tensors, "input_ids");
    int size = t && !strcmp(t->type_name, "I32") ? 4 : t && !strcmp(t->type_name, "I64") ? 8 : 0;
    bool ok = size || err_set(e, ERR_FORMAT, "%s has no I32 or I64 input_ids", path);
    for (uint64_t at = 0; ok && at < t->bytes; at += (uint64_t)size) {
        int64_t high =
            size == 8 ? (int32_t)load_u32(t->data + at + 4) : (int32_t)load_u32(t->data + at) >> 31;
        ok = push(out, (int64_t)((uint64_t)high << 32 | load_u32(t->data + at)), e);
    }
    tensor_file_close(&f);
    return ok;
}

bool cli_ids_file(const char *path, struct ids *out, struct err *e)
{
    size_t n = strlen(path);
    if (n > 12 && !strcmp(path + n - 12, ".safetensors"))
        return from_tensor(path, out, e);
    struct buf b = {0};
    bool ok =
        strcmp(path, "-") ? file_read(path, 256u << 20, &b, e) : file_read_fd(0, 256u << 20, &b, e);
    ok = ok && cli_ids_text(b.data ? b.data : "", b.len, out, e);
    buf_fini(&b);
    return ok;
}
