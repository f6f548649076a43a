/* Sampling settings of a request or of a conversation, checked, with the model's own defaults where
 * nothing is said. The names are OpenAI's (and vLLM's where OpenAI has none), so the API and the
 * page share one reader. */
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
    int32_t max_tokens;        /* -1: what the context leaves */
    int32_t least_tokens;      /* that max_tokens may be: 1, or 0 where a prompt is read only */
    int32_t experts_per_token; /* 0: as the engine runs */
    enum engine_speculate speculate;
    int32_t most_tokens;               /* the server's limit over max_tokens; 0: none */
    const char *stop[ENGINE_MAX_STOP]; /* in the arena or in the tree that was read */
    int n_stop;
    /* As engine_job_params has them; in the arena. */
    bool keep_stop, ignore_eos, special_text;
    int32_t min_tokens, n_stop_ids, n_allowed_ids, n_banned;
    const int32_t *stop_ids, *allowed_ids, *banned;
};

/* The model's defaults. A random seed, since none was asked for. */
void settings_default(struct settings *s, const struct text_model *m);
/* The same with the server's defaults and limits (server_settings.h) over them: where a request
 * begins. */
void settings_begin(struct settings *s, const struct request *r);
/* m NULL: another server's model; what names tokens is not read. The members of settings_names,
 * stop (string or list), max_tokens and its other names (max_completion_tokens, n_predict,
 * num_predict). Two names of one thing may come together where they say the same. Absent or null
 * members leave *s alone. Strings point into `o` or the arena: both must outlive *s. */
bool settings_read(struct settings *s, const cJSON *o, const struct text_model *m, struct arena *a,
                   struct err *e);
/* What every endpoint calls by the same name; ends with NULL. */
extern const char *const settings_names[];
/* settings_tokens.c: which tokens may be drawn, which end the answer, and how much of them is
 * shown. settings_read calls it. */
bool settings_read_tokens(struct settings *s, const cJSON *o, const struct text_model *m,
                          struct arena *a, struct err *e);
/* Copies into the job's parameters (pointers are shared, not copied). */
void settings_apply(const struct settings *s, struct engine_job_params *job);
