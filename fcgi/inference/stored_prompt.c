/* stored_prompt.h: the chain's keys, then one look-up. */
#define LOG_MODULE "inference"
#include "fcgi/inference/stored_prompt.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/hash.h"
#include "engine/base/log.h"
#include "fcgi/http/request.h"
#include "fcgi/process/worker.h"
#include "sql/prompts/store_prompt_blocks.h"

_Static_assert(STORE_PROMPT_KEY_BYTES == ENGINE_PROMPT_KEY_BYTES &&
                   STORE_BLOCK_TOKENS == ENGINE_STORED_TOKENS,
               "the rows are those of the engine's blocks");

/* A job with as many experts per token as the engine runs with is no variant. */
static int32_t variant_of(const struct engine_job_params *job, const struct status_page *page)
{
    return job->experts_per_token < page->experts_per_token ? job->experts_per_token : 0;
}

static void make_keys(const struct engine_job_params *job, const struct status_page *page,
                      unsigned char *keys, int32_t n)
{
    struct prompt_key key;
    prompt_key_begin(&key, page->cache_identity, job->scope, variant_of(job, page));
    for (int32_t i = 0; i < n; i++) {
        prompt_key_next(&key, &job->cache_seal, job->prompt + (size_t)i * ENGINE_STORED_TOKENS);
        memcpy(keys + (size_t)i * sizeof key.bytes, key.bytes, sizeof key.bytes);
    }
}

static bool look_up(struct request *r, const struct store_chain *chain, struct stored_prompt *out,
                    struct err *e)
{
    struct store_block_place *places = malloc((size_t)chain->n * sizeof *places);
    out->refs = malloc((size_t)chain->n * sizeof *out->refs);
    if (!places || !out->refs) {
        free(places);
        return err_set(e, ERR_NOMEM, "no memory for %d blocks", (int)chain->n);
    }
    const int32_t n = store_chain_find(r->store, chain, places, e);
    for (int32_t i = 0; i < n; i++) {
        out->refs[i] =
            (struct stored_ref){.place = {places[i].segment, places[i].bytes, places[i].offset}};
        memcpy(out->refs[i].key.bytes, chain->keys + (size_t)i * STORE_PROMPT_KEY_BYTES,
               STORE_PROMPT_KEY_BYTES);
    }
    free(places);
    out->n = n < 0 ? 0 : n;
    return n >= 0;
}

void stored_prompt_find(struct request *r, const struct status_page *page,
                        const struct engine_job_params *job, struct stored_prompt *out)
{
    struct err e = {0};
    int32_t n = job->n_prompt / ENGINE_STORED_TOKENS;
    *out = (struct stored_prompt){0};
    if (!page->cache_identity || !r->store || n == 0 || job->prompt_scores || !job->user)
        return;
    n = n < ENGINE_MAX_STORED ? n : ENGINE_MAX_STORED;
    unsigned char *keys = malloc((size_t)n * ENGINE_PROMPT_KEY_BYTES);
    if (keys)
        make_keys(job, page, keys, n);
    const struct store_chain chain = {.user_id = (int64_t)job->user,
                                      .model_id = r->worker->local_id,
                                      .identity = page->cache_identity,
                                      .keys = keys,
                                      .n = n};
    bool ok = keys ? look_up(r, &chain, out, &e)
                   : err_set(&e, ERR_NOMEM, "no memory for %d keys", (int)n);
    if (!ok)
        log_warn("id=%s the prompt cache's rows can't be read: %s", r->id, e.text);
    free(keys);
}

void stored_prompt_fini(struct stored_prompt *p)
{
    free(p->refs);
    *p = (struct stored_prompt){0};
}

void stored_prompt_owner(char out[ENGINE_CACHE_OWNER_SIZE], int64_t conversation_id)
{
    snprintf(out, ENGINE_CACHE_OWNER_SIZE, "%lld", (long long)conversation_id);
}

void stored_prompt_label(char out[ENGINE_CACHE_OWNER_SIZE], const char *name)
{
    snprintf(out, ENGINE_CACHE_OWNER_SIZE, "k:%016llx",
             (unsigned long long)hash64(name, strlen(name), 0));
}

void stored_prompt_own(char owner[ENGINE_CACHE_OWNER_SIZE], const char *id)
{
    char name[ENGINE_CACHE_OWNER_SIZE];
    snprintf(name, sizeof name, "%s", *owner ? owner + strlen("k:") : "");
    snprintf(owner, ENGINE_CACHE_OWNER_SIZE, "%s%s%.16s", id, *name ? ":" : "", name);
}

int64_t stored_prompt_conversation(const char *owner)
{
    char *end = NULL;
    const long long id = strtoll(owner, &end, 10);
    return *owner && !*end && id > 0 ? id : 0;
}
