/* Runs a model's family against a binder that records names and shapes in place of binding weights.
 */
#include "engine/model/tensor_manifest.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/arena.h"
#include "engine/model/family.h"

/* Fused tensors are asked for part by part; the same name comes again within a few items. */
static bool is_known(const struct tensor_manifest *o, const char *path)
{
    for (int32_t i = o->n - 1; i >= 0 && i > o->n - 8; i--)
        if (!strcmp(o->items[i].path, path))
            return true;
    return false;
}

bool tensor_manifest_add(struct tensor_manifest *o, const struct tensor_manifest_item *item)
{
    if (is_known(o, item->path))
        return true;
    if (o->n == o->cap) {
        int32_t cap = o->cap ? o->cap * 2 : 256;
        struct tensor_manifest_item *items = realloc(o->items, (size_t)cap * sizeof *items);
        if (!items)
            return false;
        o->items = items;
        o->cap = cap;
    }
    o->items[o->n] = *item;
    o->items[o->n].path = arena_strdup(o->arena, item->path);
    return o->items[o->n++].path != NULL;
}

static bool build(struct tensor_manifest *o, struct config *c, bool gguf, struct err *e)
{
    struct tensor_table none = {0};
    struct model_plan plan = {0};
    struct binder b;
    const struct family *f = family_find(c, e);
    if (!f)
        return false;
    bind_init(&b, &none, c, o->arena);
    b.manifest = o;
    b.gguf = gguf;
    if (!family_build(f, c, &b, &plan, e))
        return false;
    o->family = f->name;
    o->n_vocab = plan.n_vocab;
    o->n_layer = plan.n_layer;
    return true;
}

bool tensor_manifest_open(struct tensor_manifest *o, const char *config, bool gguf, struct err *e)
{
    *o = (struct tensor_manifest){.arena = arena_create(0)};
    if (!o->arena)
        return err_set(e, ERR_NOMEM, "no memory for a manifest of tensors");
    struct config c;
    bool ok = config_open(&c, config, e);
    if (ok) {
        ok = build(o, &c, gguf, e);
        config_close(&c);
    }
    if (!ok)
        tensor_manifest_close(o);
    return ok;
}

void tensor_manifest_close(struct tensor_manifest *o)
{
    free(o->items);
    arena_destroy(&o->arena);
    *o = (struct tensor_manifest){0};
}
