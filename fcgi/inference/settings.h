/* Sampling settings of a request or of a conversation, checked, with the model's own defaults where nothing is said.
 * The names are OpenAI's (and vLLM's where OpenAI has none), so the API and the page share one reader. */
#pragma once
#include <cjson/cJSON.h>
#include <stdbool.h>

#include "engine/base/arena.h"
#include "engine/base/err.h"
#include "engine/engine.h"
#include "engine/text/text_model.h"

struct request;

struct settings {
    struct engine_sampling sampling;
    bool seed_given;
    int32_t max_tokens; /* -1: what the context leaves */
    int32_t least_tokens; /* that max_tokens may be: 1, or 0 where a prompt is read only */
    int32_t experts_per_token; /* 0: as the engine runs */
    int32_t most_tokens; /* the server's limit over max_tokens; 0: none */
    const char *stop[ENGINE_MAX_STOP]; /* in the arena or in the tree that was read */
    int n_stop;
};

/* The model's defaults. A random seed, since none was asked for. */
void settings_default(struct settings *s, const struct text_model *m);
/* The same with the server's defaults and limits (server_settings.h) over them: where a request begins. */
void settings_begin(struct settings *s, const struct request *r);
/* temperature, top_p, top_k, min_p, repetition_penalty, presence_penalty, frequency_penalty, seed, stop (string or
 * list), max_tokens, max_completion_tokens, logit_bias, experts_per_token. Absent or null members leave *s alone. Strings point into `o`
 * or the arena: both must outlive *s. */
bool settings_read(struct settings *s, const cJSON *o, const struct text_model *m, struct arena *a, struct err *e);
/* Copies into the job's parameters (pointers are shared, not copied). */
void settings_apply(const struct settings *s, struct engine_job_params *job);
