/* settings.h: what holds where a request says nothing, with the server's own defaults over the
 * model's. */
#include "fcgi/config/server_settings.h"
#include "fcgi/http/request.h"
#include "fcgi/inference/local/local_defaults.h"
#include "fcgi/inference/settings.h"
#include "fcgi/process/worker.h"

static void overlay(const struct request *r, enum server_setting which, float *out)
{
    double v;
    if (server_setting_number(r, which, &v))
        *out = (float)v;
}

/* Another server has defaults of its own: only what is said is sent to it. */
static void begin_relayed(struct settings *s, const struct request *r)
{
    double v;
    *s =
        (struct settings){.sampling = {.temperature = 1, .top_p = 1, .repetition_penalty = 1},
                          .max_tokens = -1,
                          .least_tokens = 1,
                          .most_tokens = (int32_t)server_setting_int(r, SETTING_MAX_ANSWER_TOKENS)};
    if (server_setting_number(r, SETTING_DEFAULT_MAX_TOKENS, &v))
        s->max_tokens = (int32_t)v;
}

void settings_begin(struct settings *s, const struct request *r)
{
    double v;
    if (r->model) {
        begin_relayed(s, r);
        return;
    }
    settings_default(s, r->worker->text);
    overlay(r, SETTING_DEFAULT_TEMPERATURE, &s->sampling.temperature);
    overlay(r, SETTING_DEFAULT_TOP_P, &s->sampling.top_p);
    overlay(r, SETTING_DEFAULT_MIN_P, &s->sampling.min_p);
    overlay(r, SETTING_DEFAULT_REPETITION_PENALTY, &s->sampling.repetition_penalty);
    if (server_setting_number(r, SETTING_DEFAULT_TOP_K, &v))
        s->sampling.top_k = (int32_t)v;
    if (server_setting_number(r, SETTING_DEFAULT_MAX_TOKENS, &v))
        s->max_tokens = (int32_t)v;
    s->most_tokens = (int32_t)server_setting_int(r, SETTING_MAX_ANSWER_TOKENS);
    local_defaults_apply(s, r);
}
