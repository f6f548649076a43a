/* Opens a golden folder and looks its tensors up by name. */
#include "tests/golden/golden_truth.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/file.h"
#include "engine/base/json/json.h"

void golden_must(bool ok, const struct err *e)
{
    if (!ok)
        fail_msg("%s", e->text);
}

void golden_truth_open(struct golden_truth *l, const struct golden_case *c)
{
    struct err e = {0};
    char path[2048];
    *l = (struct golden_truth){0};
    golden_must(file_join(path, sizeof path, c->dir, "golden.json", &e) &&
                    (l->json = json_parse_file(path, 1 << 22, &e)),
                &e);
    l->form = json_member(json_member(l->json, "forms"), c->form);
    assert_non_null(l->form);
    golden_must(file_join(path, sizeof path, c->dir, "logits.safetensors", &e) &&
                    tensor_file_open(&l->file, path, &e),
                &e);
    golden_must(file_join(path, sizeof path, c->dir, "states.safetensors", &e), &e);
    if (file_exists(path))
        golden_must(tensor_file_open(&l->states, path, &e), &e);
}

void golden_truth_close(struct golden_truth *l)
{
    tensor_file_close(&l->file);
    tensor_file_close(&l->states);
    cJSON_Delete(l->json);
}

struct ids golden_prompt(const struct golden_truth *l, const char *prompt)
{
    struct ids out = {0};
    const cJSON *v;
    cJSON_ArrayForEach (v, json_member(json_member(l->json, "prompts"), prompt))
        ids_push(&out, (int32_t)v->valuedouble);
    return out;
}

float *golden_truth_values(const struct golden_truth *l, size_t *n, const char *fmt, ...)
{
    char name[256];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(name, sizeof name, fmt, ap);
    va_end(ap);
    const struct tensor *t = tensor_table_find(&l->file.tensors, name);
    if (!t)
        t = tensor_table_find(&l->states.tensors, name);
    if (!t)
        return NULL;
    float *copy = malloc(t->bytes);
    memcpy(copy, t->data, t->bytes);
    *n = t->bytes / 4;
    return copy;
}
