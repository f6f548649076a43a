/* usage.h */
#define LOG_MODULE "usage"
#include "fcgi/usage.h"

#include "engine/base/log.h"
#include "fcgi/inference.h"
#include "fcgi/request.h"
#include "sql/store.h"

void usage_note(struct request *r, const struct inference *x)
{
    struct err e = {0};
    struct engine_usage u = inference_usage(x);
    if (!u.prompt_tokens) /* never got as far as an end: count what was seen */
        for (int i = 0; i < x->n; i++)
            u.completion_tokens += x->generations[i].n_tokens;
    r->prompt_tokens = u.prompt_tokens;
    r->completion_tokens = u.completion_tokens;
    struct store_usage row = {.user_id = r->who.user_id, .key_id = r->who.key_id, .requests = 1,
                              .prompt_tokens = u.prompt_tokens, .cached_tokens = u.cached_tokens,
                              .completion_tokens = u.completion_tokens};
    if (r->store && !store_usage_add(r->store, &row, &e))
        log_warn("id=%s not counted: %s", r->id, e.text);
}
