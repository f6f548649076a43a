/* sealed_prompt.h: the key, and its name, from the store. */
#define LOG_MODULE "inference"
#include "fcgi/inference/sealed_prompt.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/log.h"
#include "engine/engine.h"
#include "fcgi/config/server_settings.h"
#include "fcgi/http/request.h"
#include "sql/prompts/store_prompt_seal.h"

_Static_assert(STORE_PROMPT_SEAL_BYTES == sizeof(((struct prompt_seal *)0)->key), "a key");

void sealed_prompt_key(struct request *r, struct engine_job_params *job)
{
    struct err e = {0};
    struct store_prompt_seal seal;
    const size_t len = strlen(job->scope);
    if (!job->user || !server_setting_bool(r, SETTING_PROMPT_CACHE_SEAL))
        return;
    if (!r->store || !store_prompt_seal(r->store, (int64_t)job->user, &seal, &e)) {
        log_warn("id=%s the prompt is not kept on disk, there is no key to seal it with: %s", r->id,
                 e.text);
        job->cache_keep_seconds = -1;
        return;
    }
    memcpy(job->cache_seal.key, seal.key, sizeof job->cache_seal.key);
    job->cache_seal.on = true;
    snprintf(job->scope + len, sizeof job->scope - len, "+%s", seal.name);
    explicit_bzero(&seal, sizeof seal);
}
