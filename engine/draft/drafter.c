/* The list of drafters, by the names under which they are asked for. */
#include "engine/draft/drafter.h"

static const struct drafter *const drafters[ENGINE_SPECULATE__N] = {
    [ENGINE_SPECULATE_AUTO] = &lookup_drafter,
    [ENGINE_SPECULATE_NGRAM] = &lookup_drafter,
};

const struct drafter *drafter_for(enum engine_speculate s)
{
    return drafters[s];
}
