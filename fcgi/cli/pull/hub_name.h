/* Names of models on a hub as people write them: hf.co/USER/REPO:Q4_K_M, hf:USER/REPO. */
#pragma once
#include <stdbool.h>

#include "engine/base/err.h"
#include "fcgi/cli/pull/pull.h"

struct hub_name {
    struct pull_repo repo;
    char quant[64];   /* "": the repository's own choice (pull_choose) */
    char folder[200]; /* what its folder is called: REPO or REPO-QUANT */
};

/* Whether the text means a hub: it begins with hf.co/, hf:, https://hf.co/ or
 * https://huggingface.co/. */
bool hub_name_is(const char *text);
bool hub_name_parse(const char *text, struct hub_name *out, struct err *e);
