/* The engines beside the one that answers: a model that embeds, one that scores documents. Which
 * socket serves which of them is known here alone. Filled before the children are forked and
 * constant afterwards. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/err.h"
#include "engine/engine.h"
#include "engine/text/text_model.h"

#define SIDE_MODELS 2

struct side_model { /* path NULL: there is no such engine */
    const char *path, *engine_socket, *status_path;
    enum engine_task task;
    struct text_model text;
    char id[128];
    char fingerprint[17]; /* of what decides its vectors: the files' names, sizes and times */
    int64_t created;      /* Unix seconds */
};

struct worker;

/* Opens the text side of a model that runs in engine_run. */
bool side_model_open(struct worker *w, enum engine_task task, const char *path, struct err *e);
void side_models_close(struct worker *w);
/* The engine that does this; NULL: there is none. */
const struct side_model *side_model_of(const struct worker *w, enum engine_task task);
/* Names in the folder of the engine's socket. */
const char *side_model_socket_name(enum engine_task task);
const char *side_model_status_name(enum engine_task task);
