/* settings.h: one row per number; strings, seeds and biases by hand. What it says about tokens:
 * settings_tokens.c. */
#include "fcgi/inference/settings.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "engine/base/json/json.h"

#define MAX_SAFE_INTEGER 9007199254740991LL /* what a double, and so JSON, holds exactly */
#define MAX_BIAS 100.0

static const struct number_row {
    const char *name;
    size_t offset; /* of a float in struct engine_sampling */
    double min, max;
    const char *alias; /* another server's name of it, or NULL */
} numbers[] = {
    {"temperature", offsetof(struct engine_sampling, temperature), 0, 2, NULL},
    {"top_p", offsetof(struct engine_sampling, top_p), 0, 1, NULL},
    {"min_p", offsetof(struct engine_sampling, min_p), 0, 1, NULL},
    {"typical_p", offsetof(struct engine_sampling, typical_p), 0, 1, NULL},
    {"repetition_penalty", offsetof(struct engine_sampling, repetition_penalty), 0.01, 10,
     "repeat_penalty"},
    {"presence_penalty", offsetof(struct engine_sampling, presence_penalty), -2, 2, NULL},
    {"frequency_penalty", offsetof(struct engine_sampling, frequency_penalty), -2, 2, NULL},
};

const char *const settings_names[] = {
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "typical_p",
    "repetition_penalty",
    "repeat_penalty",
    "repeat_last_n",
    "presence_penalty",
    "frequency_penalty",
    "seed",
    "random_seed",
    "logit_bias",
    "experts_per_token",
    "speculate",
    "min_tokens",
    "ignore_eos",
    "stop_token_ids",
    "allowed_token_ids",
    "bad_words",
    "include_stop_str_in_output",
    "no_stop_trim",
    "skip_special_tokens",
    NULL,
};

void settings_default(struct settings *s, const struct text_model *m)
{
    *s = (struct settings){.max_tokens = -1, .least_tokens = 1};
    s->sampling = (struct engine_sampling){.temperature = m->temperature,
                                           .top_p = m->top_p,
                                           .min_p = m->min_p,
                                           .top_k = m->top_k,
                                           .repetition_penalty = m->repetition_penalty};
    uint64_t seed = 0;
    if (getrandom(&seed, sizeof seed, 0) == (ssize_t)sizeof seed)
        s->sampling.seed = seed;
}

static bool two_values(const char *name, double v, const char *other, double w, struct err *e)
{
    return err_field(e, ERR_INPUT, name, "is %.10g, but %s is %.10g; send one of them", v, other,
                     w);
}

/* The value stays where neither name is given. */
static bool read_number(const cJSON *o, const struct number_row *row, double *v, struct err *e)
{
    double other = *v;
    if (!json_get_number(o, row->name, row->min, row->max, v, e) ||
        (row->alias && !json_get_number(o, row->alias, row->min, row->max, &other, e)))
        return false;
    if (!row->alias || !json_member(o, row->alias))
        return true;
    if (json_member(o, row->name) && *v != other)
        return two_values(row->alias, other, row->name, *v, e);
    *v = other;
    return true;
}

static bool read_numbers(struct settings *s, const cJSON *o, struct err *e)
{
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        float *at = (float *)((char *)&s->sampling + numbers[i].offset);
        double v = *at;
        if (!read_number(o, &numbers[i], &v, e))
            return false;
        *at = (float)v;
    }
    if (s->sampling.top_p <= 0) /* OpenAI allows 0: only the likeliest token is left */
        s->sampling.top_p = 1e-9f;
    if (s->sampling.typical_p <= 0 && json_member(o, "typical_p")) /* likewise */
        s->sampling.typical_p = 1e-9f;
    return true;
}

static bool read_seed(struct settings *s, const cJSON *o, struct err *e)
{
    static const char *const names[] = {"seed", "random_seed"};
    int64_t seed = 0, other = 0;
    if (!json_get_int(o, names[0], -MAX_SAFE_INTEGER, MAX_SAFE_INTEGER, &seed, e) ||
        !json_get_int(o, names[1], -MAX_SAFE_INTEGER, MAX_SAFE_INTEGER, &other, e))
        return false;
    const bool first = json_member(o, names[0]), second = json_member(o, names[1]);
    if (first && second && seed != other)
        return two_values(names[1], (double)other, names[0], (double)seed, e);
    if (first || second) {
        s->sampling.seed = (uint64_t)(first ? seed : other);
        s->seed_given = true;
    }
    return true;
}

/* llama.cpp and Ollama say -1 for an answer that may fill the context. */
static bool read_max_tokens(struct settings *s, const cJSON *o, struct err *e)
{
    static const char *const names[] = {"max_tokens", "max_completion_tokens", "n_predict",
                                        "num_predict"};
    const char *given = NULL;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        int64_t n = 0;
        if (!json_get_int(o, names[i], -1, INT32_MAX, &n, e))
            return false;
        if (!json_member(o, names[i]))
            continue;
        if (n >= 0 && n < s->least_tokens)
            return err_field(e, ERR_INPUT, names[i],
                             "must be %d or more, or -1 for what the context leaves",
                             s->least_tokens);
        if (given && s->max_tokens != n)
            return two_values(given, s->max_tokens, names[i], (double)n, e);
        s->max_tokens = (int32_t)n;
        given = given ? given : names[i];
    }
    return true;
}

static bool read_integers(struct settings *s, const cJSON *o, struct err *e)
{
    int64_t top_k = s->sampling.top_k, experts = s->experts_per_token, window = -1;
    if (!json_get_int(o, "top_k", -1, INT32_MAX, &top_k, e) ||
        !json_get_int(o, "experts_per_token", 1, ENGINE_MAX_EXPERTS_PER_TOKEN, &experts, e) ||
        !json_get_int(o, "repeat_last_n", -1, INT32_MAX, &window, e))
        return false;
    s->experts_per_token = (int32_t)experts; /* the engine knows how many the model has */
    s->sampling.top_k = top_k < 0 ? 0 : (int32_t)top_k;
    s->sampling.penalty_window = window > 0 ? (int32_t)window : 0;
    if (window == 0) {
        s->sampling.repetition_penalty = 1;
        s->sampling.presence_penalty = s->sampling.frequency_penalty = 0;
    }
    return read_seed(s, o, e) && read_max_tokens(s, o, e);
}

static bool read_speculate(struct settings *s, const cJSON *o, struct err *e)
{
    const char *name = NULL;
    return json_get_string(o, "speculate", &name, e) &&
           (!name || engine_speculate_parse(name, &s->speculate, e));
}

static bool add_stop(struct settings *s, const cJSON *v, struct err *e)
{
    if (!cJSON_IsString(v))
        return err_field(e, ERR_INPUT, "stop", "must be a string or a list of strings");
    size_t len = strlen(v->valuestring);
    if (len == 0 || len > ENGINE_MAX_STOP_BYTES)
        return err_field(e, ERR_INPUT, "stop", "a stop string has 1 to %d bytes, this one %zu",
                         ENGINE_MAX_STOP_BYTES, len);
    if (s->n_stop == ENGINE_MAX_STOP)
        return err_field(e, ERR_INPUT, "stop", "at most %d stop strings are taken",
                         ENGINE_MAX_STOP);
    s->stop[s->n_stop++] = v->valuestring;
    return true;
}

static bool read_stop(struct settings *s, const cJSON *o, struct err *e)
{
    const cJSON *v = json_member(o, "stop"), *item;
    if (!v)
        return true;
    s->n_stop = 0;
    if (!cJSON_IsArray(v))
        return add_stop(s, v, e);
    cJSON_ArrayForEach (item, v)
        if (!add_stop(s, item, e))
            return false;
    return true;
}

static bool read_bias(struct settings *s, const cJSON *o, const struct text_model *m,
                      struct arena *a, struct err *e)
{
    const cJSON *map = NULL, *item;
    if (!json_get_object(o, "logit_bias", &map, e))
        return false;
    if (!map)
        return true;
    int n = cJSON_GetArraySize(map);
    if (n > ENGINE_MAX_BIAS)
        return err_field(e, ERR_INPUT, "logit_bias", "has %d entries, at most %d are taken", n,
                         ENGINE_MAX_BIAS);
    struct engine_bias *bias = arena_alloc(a, (size_t)(n ? n : 1) * sizeof *bias);
    if (!bias)
        return err_set(e, ERR_NOMEM, "no memory for logit_bias");
    n = 0;
    cJSON_ArrayForEach (item, map) {
        char *end;
        errno = 0;
        long id = strtol(item->string, &end, 10);
        if (!*item->string || *end || errno || id < 0 || id >= vocab_size(m->vocab))
            return err_field(e, ERR_INPUT, "logit_bias", "'%.20s' is not a token id from 0 to %d",
                             item->string, (int)vocab_size(m->vocab) - 1);
        if (!cJSON_IsNumber(item) ||
            !(item->valuedouble >= -MAX_BIAS && item->valuedouble <= MAX_BIAS))
            return err_field(e, ERR_INPUT, "logit_bias",
                             "the bias of token %ld must be from -100 to 100", id);
        bias[n++] = (struct engine_bias){.id = (int32_t)id, .bias = (float)item->valuedouble};
    }
    s->sampling.bias = bias;
    s->sampling.n_bias = n;
    return true;
}

bool settings_read(struct settings *s, const cJSON *o, const struct text_model *m, struct arena *a,
                   struct err *e)
{
    return read_numbers(s, o, e) && read_integers(s, o, e) && read_stop(s, o, e) &&
           read_speculate(s, o, e) &&
           (!m || (read_bias(s, o, m, a, e) && settings_read_tokens(s, o, m, a, e)));
}

void settings_apply(const struct settings *s, struct engine_job_params *job)
{
    job->sampling = s->sampling;
    job->experts_per_token = s->experts_per_token;
    job->speculate = s->speculate;
    job->max_tokens = s->max_tokens < 0 ? INT32_MAX : s->max_tokens;
    if (s->most_tokens && job->max_tokens > s->most_tokens)
        job->max_tokens = s->most_tokens;
    job->stop = s->stop;
    job->n_stop = s->n_stop;
    job->keep_stop = s->keep_stop;
    job->ignore_eos = s->ignore_eos;
    job->special_text = job->special_text || s->special_text;
    job->min_tokens = s->min_tokens;
    job->stop_ids = s->stop_ids;
    job->n_stop_ids = s->n_stop_ids;
    job->allowed_ids = s->allowed_ids;
    job->n_allowed_ids = s->n_allowed_ids;
    job->banned = s->banned;
    job->n_banned = s->n_banned;
}
