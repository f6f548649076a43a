/* The list of drafters, by the names under which they are asked for. */
#include "engine/draft/drafter.h"

#include "engine/draft/draft_model.h"

static const struct {
    const struct drafter *drafter;
    enum engine_speculate name;
} by_kind[] = {[DRAFT_KIND_MODEL] = {&model_drafter, ENGINE_SPECULATE_DRAFT},
               [DRAFT_KIND_LAYER] = {&layer_drafter, ENGINE_SPECULATE_MTP},
               [DRAFT_KIND_BLOCK] = {&block_drafter, ENGINE_SPECULATE_DFLASH}};

bool drafter_recalls(enum engine_speculate s)
{
    return s == ENGINE_SPECULATE_AUTO || s == ENGINE_SPECULATE_NGRAM;
}

int32_t drafter_list(enum engine_speculate s, bool grammar, const struct draft_model *m,
                     const struct drafter *out[DRAFTERS_MAX])
{
    int32_t n = 0;
    if (grammar && s == ENGINE_SPECULATE_AUTO)
        out[n++] = &forced_drafter;
    if (drafter_recalls(s)) {
        out[n++] = &lookup_drafter;
        out[n++] = &recall_drafter;
    }
    if (m && (s == ENGINE_SPECULATE_AUTO || s == by_kind[draft_model_kind(m)].name))
        out[n++] = by_kind[draft_model_kind(m)].drafter;
    return n;
}
