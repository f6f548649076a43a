/* A tiny random qwen3_moe folder, written in whatever way a test wants it: the tensors come from
 * the family's own tensor manifest, so that no list of names stands here. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

enum tiny_experts { TINY_STACKED, TINY_SEPARATE, TINY_FUSED };

struct tiny {
    char dir[64]; /* a folder of its own under /tmp */
    enum tiny_experts experts;
    const char *config_more; /* members put at the end of config.json, such as ",\"x\": 1" */
    const char *without;     /* tensors whose name holds this are left out */
    const char *
        spoil; /* in the first tensor whose name holds this, value `spoil_at` becomes spoil_value */
    int64_t spoil_at;
    float spoil_value;
    const char *widen; /* the first tensor whose name holds this gets one row more */
};

void tiny_make(struct tiny *t); /* creates the folder with config.json */
/* Writes the tensors number part, part + parts, ... to dir/name. */
void tiny_write(const struct tiny *t, const char *name, int part, int parts);
/* Writes dir/name with this text. */
void tiny_text(const struct tiny *t, const char *name, const char *text);
/* An index that gives tensor i of `parts` to names[i % parts]. */
void tiny_index(const struct tiny *t, const char *const *names, int parts);
void tiny_remove(struct tiny *t); /* the folder and all in it */
