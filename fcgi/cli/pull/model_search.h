/* `sluice search` as a child of `sluice up`, for the admin's page: the newest question ends the one
 * before. The page asks in one file of the state folder and reads what is found in another, while
 * it is found. One thread: the supervisor's. */
#pragma once
#include <stdbool.h>

#include "fcgi/cli/pull/own_child.h"

enum { MODEL_SEARCH_ARGS = 64 };

struct model_search {
    /* set by the caller */
    const char *state_dir;
    char *argv[MODEL_SEARCH_ARGS]; /* of `sluice search`, without the limit and the text; NULL after
                                      the last */
    /* its own */
    struct own_child child;
    bool running, stopping;
};

void model_search_begin(struct model_search *s); /* forgets what was found in another run */
void model_search_tick(struct model_search *s);
