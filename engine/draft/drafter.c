/* The list of drafters, by the names under which they are asked for. */
#include "engine/draft/drafter.h"

int32_t drafter_list(enum engine_speculate s, bool grammar, const struct draft_model *m,
                     const struct drafter *out[DRAFTERS_MAX])
{
    int32_t n = 0;
    if (grammar && s == ENGINE_SPECULATE_AUTO)
        out[n++] = &forced_drafter;
    if (s == ENGINE_SPECULATE_AUTO || s == ENGINE_SPECULATE_NGRAM)
        out[n++] = &lookup_drafter;
    if (m && (s == ENGINE_SPECULATE_AUTO || s == ENGINE_SPECULATE_DRAFT))
        out[n++] = &model_drafter;
    return n;
}
