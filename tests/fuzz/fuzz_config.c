/* Any text as config.json: every family reads it and asks for its tensors, as far as the numbers
 * allow. The layers are held to a few, since a valid configuration may have a thousand. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/json/json.h"
#include "engine/model/family.h"
#include "engine/model/tensor_manifest.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct err e = {0};
    struct config c = {0};
    if (size > 65536)
        return 0;
    c.root = json_parse((const char *)data, size, NULL, &e);
    if (!cJSON_IsObject(c.root)) {
        cJSON_Delete(c.root);
        return 0;
    }
    const cJSON *text = json_member(c.root, "text_config");
    c.text = cJSON_IsObject(text) ? text : c.root;
    const struct family *f = family_find(&c, &e);
    struct tensor_manifest o = {.arena = arena_create(64u << 20)};
    struct model_plan plan = {0};
    struct tensor_table none = {0};
    struct binder b;
    struct quantization q;
    if (f) {
        bind_init(&b, &none, &c, o.arena);
        b.manifest = &o;
        family_build(f, &c, &b, &plan, &e);
        config_quantization(&c, "model.layers.0.mlp.gate", &q, &e);
    }
    tensor_manifest_close(&o);
    config_close(&c);
    return 0;
}
