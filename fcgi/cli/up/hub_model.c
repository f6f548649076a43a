/* `sluice up --model hf.co/USER/REPO:Q4_K_M`: what would run is shown, then it is loaded into the
 * folder of models, once; from then on it is a model there. */
#include <curl/curl.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/file.h"
#include "fcgi/cli/pull/hub_name.h"
#include "fcgi/cli/pull/hub_plan.h"
#include "fcgi/cli/up/up.h"

static bool load(struct up *u, const struct hub_name *name, char *out, struct err *e)
{
    struct hub_plan plan = {.backend = u->backend,
                            .slots = u->slots,
                            .ctx = u->ctx,
                            .prefill_chunk = u->prefill_chunk,
                            .kv_memory = u->kv_memory,
                            .threads = u->threads,
                            .exact = u->exact,
                            .speculates = strcmp(u->speculate, "off") != 0,
                            .cache_dir = u->cache,
                            .memory = u->memory};
    struct pull p = {.lock = -1,
                     .repo = name->repo.repo,
                     .revision = name->repo.revision,
                     .endpoint = u->hub,
                     .quant = name->quant,
                     .out = out,
                     .jobs = 8,
                     .segment_bytes = (int64_t)64 << 20,
                     .timeout_s = 60,
                     .before = hub_plan_show,
                     .before_context = &plan};
    char path[4000];
    pull_catch_signals(&p);
    bool ok = pull_check_endpoint(u->hub, e) &&
              pull_set_folders(&p, path, sizeof path, name->folder, e) &&
              (curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK ||
               err_set(e, ERR_INTERNAL, "curl can't start")) &&
              pull_run(&p, e);
    if (!ok && p.lock >= 0)
        fprintf(stderr, "The partial download is kept in %s; the same command resumes it.\n",
                p.stage);
    pull_disk_close(&p);
    curl_global_cleanup();
    return ok;
}

bool up_hub_model(struct up *u, const char **model, struct err *e)
{
    struct hub_name name;
    if (!*model || !hub_name_is(*model) || file_exists(*model))
        return true;
    if (!hub_name_parse(*model, &name, e))
        return false;
    char *out = up_in_dir(u, u->models, name.folder);
    if (!out)
        return err_set(e, ERR_NOMEM, "out of memory");
    if (!pull_disk_is_of(out, name.repo.repo, e))
        return false;
    if (!file_is_dir(out) && (!file_mkdirs(u->models, 0750, e) || !load(u, &name, out, e)))
        return false;
    *model = out;
    return true;
}
