/* Loads a draft model: checks that its vocabulary is that of the model that it drafts for, plans
 * its memory, and opens it on a backend of its own. In three parts, so that the other model's plan
 * knows what this one takes. One thread. */
#pragma once
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/err.h"
#include "engine/draft/draft_model.h"
#include "engine/engine.h"
#include "engine/memory/memory_load.h"
#include "engine/model/model.h"
#include "engine/tokenizer/vocab.h"

struct draft_load_params {
    const char *path;   /* model folder or GGUF file */
    const char *target; /* of the model that it drafts for */
    const struct vocab *vocab;
    int32_t n_vocab;     /* both the target's */
    int32_t slots;       /* of the engine */
    const char *backend; /* as asked for */
    const char *cache_dir;
    struct memory_request memory; /* the engine's budgets, threads and precision */
};

struct draft_load {
    struct model *model;
    struct memory_load memory;
    struct draft_model *draft; /* after draft_load_open */
    struct draft_model_params sizes;
    const char *cache_dir;
    char name[128];     /* the folder's or file's */
    bool found;         /* in the model's folder, and not asked for: the engine runs without, too */
    char left_out[128]; /* why one that was found is not used; else empty */
};

/* The folder `draft` in a model's folder, if it has one: written for that model, so it needs no
 * tokenizer of its own. False: there is none. */
bool draft_load_find(const char *model, char *path, size_t size);
/* What --draft-model means for this model: "auto" the folder above, "off" none, or itself. NULL:
 * none. `found` has room for the path. */
const char *draft_load_path(const char *option, const char *model, char found[PATH_MAX]);
/* ERR_UNSUPPORTED, field "draft-model": another vocabulary, or a model that cannot draft, and why.
 * *l must not move afterwards. */
bool draft_load_plan(struct draft_load *l, const struct draft_load_params *p, struct err *e);
/* The request of the other model's plan leaves room for this one. */
void draft_load_reserve(const struct draft_load *l, struct memory_request *other);
/* Both, for an engine that runs with these options; p.path is found by them. l->model stays NULL
 * where there is to be no draft model: none was asked for, or the one that was found is left out.
 */
bool draft_load_begin(struct draft_load *l, enum engine_speculate speculate, const char *option,
                      struct draft_load_params p, struct memory_request *other, struct err *e);
/* One that was found and cannot run: gone, but for `left_out`, and logged. False, with *e: it was
 * asked for. */
bool draft_load_leave_out(struct draft_load *l, const struct err *why, struct err *e);
/* team: backend_params.team, of the model's backend. Where the memory is gone by now, one that was
 * found is left out. */
bool draft_load_open(struct draft_load *l, struct thread_pool *team, struct err *e);
void draft_load_close(struct draft_load *l); /* accepts a zeroed struct */
