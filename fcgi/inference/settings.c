/* settings.h: one row per number; strings, seeds and biases by hand. */
#include "fcgi/inference/settings.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "engine/base/json.h"

#define MAX_SAFE_INTEGER 9007199254740991LL /* what a double, and so JSON, holds exactly */
#define MAX_BIAS 100.0

static const struct number_row {
    const char *name;
    size_t offset; /* of a float in struct engine_sampling */
    double min, max;
} numbers[] = {
    {"temperature", offsetof(struct engine_sampling, temperature), 0, 2},
    {"top_p", offsetof(struct engine_sampling, top_p), 0, 1},
    {"min_p", offsetof(struct engine_sampling, min_p), 0, 1},
    {"repetition_penalty", offsetof(struct engine_sampling, repetition_penalty), 0.01, 10},
    {"presence_penalty", offsetof(struct engine_sampling, presence_penalty), -2, 2},
    {"frequency_penalty", offsetof(struct engine_sampling, frequency_penalty), -2, 2},
};

void settings_default(struct settings *s, const struct text_model *m)
{
    *s = (struct settings){.max_tokens = -1, .least_tokens = 1};
    s->sampling = (struct engine_sampling){.temperature = m->temperature, .top_p = m->top_p, .min_p = m->min_p,
                                           .top_k = m->top_k, .repetition_penalty = m->repetition_penalty};
    uint64_t seed = 0;
    if (getrandom(&seed, sizeof seed, 0) == (ssize_t)sizeof seed)
        s->sampling.seed = seed;
}

static bool read_numbers(struct settings *s, const cJSON *o, struct err *e)
{
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        float *at = (float *)((char *)&s->sampling + numbers[i].offset);
        double v = *at;
        if (!json_get_number(o, numbers[i].name, numbers[i].min, numbers[i].max, &v, e))
            return false;
        *at = (float)v;
    }
    if (s->sampling.top_p <= 0) /* OpenAI allows 0: only the likeliest token is left */
        s->sampling.top_p = 1e-9f;
    return true;
}

static bool read_integers(struct settings *s, const cJSON *o, struct err *e)
{
    int64_t top_k = s->sampling.top_k, seed = 0, first = -1, second = -1, experts = s->experts_per_token;
    if (!json_get_int(o, "top_k", -1, INT32_MAX, &top_k, e) ||
        !json_get_int(o, "seed", -MAX_SAFE_INTEGER, MAX_SAFE_INTEGER, &seed, e) ||
        !json_get_int(o, "max_tokens", s->least_tokens, INT32_MAX, &first, e) ||
        !json_get_int(o, "max_completion_tokens", 1, INT32_MAX, &second, e) ||
        !json_get_int(o, "experts_per_token", 1, ENGINE_MAX_EXPERTS_PER_TOKEN, &experts, e))
        return false;
    s->experts_per_token = (int32_t)experts; /* the engine knows how many the model has */
    s->sampling.top_k = top_k < 0 ? 0 : (int32_t)top_k;
    if (json_member(o, "seed")) {
        s->sampling.seed = (uint64_t)seed;
        s->seed_given = true;
    }
    if (first >= 0 && second >= 0 && first != second)
        return err_field(e, ERR_INPUT, "max_tokens", "is %lld, but max_completion_tokens is %lld; send one of them",
                         (long long)first, (long long)second);
    if (first >= 0 || second >= 0)
        s->max_tokens = (int32_t)(second >= 0 ? second : first);
    return true;
}

static bool add_stop(struct settings *s, const cJSON *v, struct err *e)
{
    if (!cJSON_IsString(v))
        return err_field(e, ERR_INPUT, "stop", "must be a string or a list of strings");
    size_t len = strlen(v->valuestring);
    if (len == 0 || len > ENGINE_MAX_STOP_BYTES)
        return err_field(e, ERR_INPUT, "stop", "a stop string has 1 to %d bytes, this one %zu", ENGINE_MAX_STOP_BYTES,
                         len);
    if (s->n_stop == ENGINE_MAX_STOP)
        return err_field(e, ERR_INPUT, "stop", "at most %d stop strings are taken", ENGINE_MAX_STOP);
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
    cJSON_ArrayForEach(item, v) if (!add_stop(s, item, e)) return false;
    return true;
}

static bool read_bias(struct settings *s, const cJSON *o, const struct text_model *m, struct arena *a, struct err *e)
{
    const cJSON *map = NULL, *item;
    if (!json_get_object(o, "logit_bias", &map, e))
        return false;
    if (!map)
        return true;
    int n = cJSON_GetArraySize(map);
    if (n > ENGINE_MAX_BIAS)
        return err_field(e, ERR_INPUT, "logit_bias", "has %d entries, at most %d are taken", n, ENGINE_MAX_BIAS);
    struct engine_bias *bias = arena_alloc(a, (size_t)(n ? n : 1) * sizeof *bias);
    if (!bias)
        return err_set(e, ERR_NOMEM, "no memory for logit_bias");
    n = 0;
    cJSON_ArrayForEach(item, map)
    {
        char *end;
        errno = 0;
        long id = strtol(item->string, &end, 10);
        if (!*item->string || *end || errno || id < 0 || id >= vocab_size(m->vocab))
            return err_field(e, ERR_INPUT, "logit_bias", "'%.20s' is not a token id from 0 to %d", item->string,
                             (int)vocab_size(m->vocab) - 1);
        if (!cJSON_IsNumber(item) || !(item->valuedouble >= -MAX_BIAS && item->valuedouble <= MAX_BIAS))
            return err_field(e, ERR_INPUT, "logit_bias", "the bias of token %ld must be from -100 to 100", id);
        bias[n++] = (struct engine_bias){.id = (int32_t)id, .bias = (float)item->valuedouble};
    }
    s->sampling.bias = bias;
    s->sampling.n_bias = n;
    return true;
}

bool settings_read(struct settings *s, const cJSON *o, const struct text_model *m, struct arena *a, struct err *e)
{
    return read_numbers(s, o, e) && read_integers(s, o, e) && read_stop(s, o, e) && read_bias(s, o, m, a, e);
}

void settings_apply(const struct settings *s, struct engine_job_params *job)
{
    job->sampling = s->sampling;
    job->experts_per_token = s->experts_per_token;
    job->max_tokens = s->max_tokens < 0 ? INT32_MAX : s->max_tokens;
    if (s->most_tokens && job->max_tokens > s->most_tokens)
        job->max_tokens = s->most_tokens;
    job->stop = s->stop;
    job->n_stop = s->n_stop;
}
