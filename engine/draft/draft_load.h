/* Loads a draft model, or the model's own next-token layer in its place: checks that its vocabulary
 * is that of the model that it drafts for, plans its memory, and opens it on a backend of its own.
 * In three parts, so that the other model's plan knows what this one takes. One thread. */
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
    const struct model *target_model;
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
    char name[128];     /* the folder's or file's; a layer has none */
    bool layer;         /* the target's own next-token layer: `model` is a part of it */
    bool found;         /* in the model's folder or files, and not asked for: the engine runs
                           without, too */
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
/* The same for the target's own next-token layer; field "speculate", ERR_NOTFOUND: it has none. */
bool draft_load_plan_layer(struct draft_load *l, const struct draft_load_params *p, struct err *e);
/* It goes on from the model's hidden states, with the model's embedding and head, which
 * model_next_share has to give it before it is opened. */
bool draft_load_shares(const struct draft_load *l);
/* Which kind of drafter it is; SERVER: there is none. */
enum engine_speculate draft_load_by(const struct draft_load *l);
/* Host memory that it takes: by its plan, and what its seats keep beside. */
uint64_t draft_load_host_bytes(const struct draft_load *l);
/* The request of the other model's plan leaves room for this one. */
void draft_load_reserve(const struct draft_load *l, struct memory_request *other);
/* Both, for an engine that runs with these options; p.path is found by them. The model's own layer
 * is taken where it is asked for, and with "auto" where no draft model is. l->model stays NULL
 * where there is to be neither: none was asked for, or the one that was found is left out. */
bool draft_load_begin(struct draft_load *l, enum engine_speculate speculate, const char *option,
                      struct draft_load_params p, struct memory_request *other, struct err *e);
/* One that was found and cannot run: gone, but for `left_out`, and logged. False, with *e: it was
 * asked for. */
bool draft_load_leave_out(struct draft_load *l, const struct err *why, struct err *e);
/* team: backend_params.team, of the model's backend. Where the memory is gone by now, one that was
 * found is left out. */
bool draft_load_open(struct draft_load *l, struct thread_pool *team, struct err *e);
void draft_load_close(struct draft_load *l); /* accepts a zeroed struct */
