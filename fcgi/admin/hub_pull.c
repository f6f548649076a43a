/* hub_pull.h: a request is a file in the state folder, which `sluice up` reads; its progress comes
 * back in another. */
#include "fcgi/admin/hub_pull.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "engine/base/file.h"
#include "engine/base/json/json.h"
#include "fcgi/admin/local_models.h"
#include "fcgi/auth/confirmation.h"
#include "fcgi/http/audit.h"
#include "fcgi/http/request.h"
#include "fcgi/process/state.h"
#include "fcgi/process/worker.h"

#define MAX_PROGRESS 4096
#define MAX_NAME 400
#define MAX_INCLUDE 200

/* Only such a name has a quantization behind it. */
static bool names_the_hub(const char *repo)
{
    static const char *const prefixes[] = {"hf.co/", "hf:", "huggingface.co/", "https://"};
    bool any = false;
    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++)
        any = any || !strncasecmp(repo, prefixes[i], strlen(prefixes[i]));
    return any;
}

/* Whether the hub knows the name is found out by the pull itself. */
static bool check_repo(const char *repo, struct err *e)
{
    const char *slash = strchr(repo, '/');
    size_t n = strspn(repo, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-/@:");
    return (strlen(repo) < MAX_NAME && !repo[n] && slash && slash != repo && slash[1] &&
            repo[0] != '-' && repo[0] != '.' && !strstr(repo, "..") &&
            (!strchr(repo, ':') || names_the_hub(repo))) ||
           err_field(e, ERR_INPUT, "repo",
                     "is written OWNER/NAME[@REVISION], or hf.co/OWNER/NAME:Q4_K_M") ||
           err_reason(e, "repo_form");
}

bool hub_pull_ask(struct request *r, const char *repo, const char *include, struct err *e)
{
    const char *phase = "";
    if (!check_repo(repo, e))
        return false;
    if (include && *include && strchr(repo, ':') && strrchr(repo, ':') > strrchr(repo, '/'))
        return err_field(e, ERR_INPUT, "include", "does not go with '%s'", strrchr(repo, ':'));
    if (include && strlen(include) > MAX_INCLUDE)
        return err_field(e, ERR_INPUT, "include", "is longer than %d bytes", MAX_INCLUDE);
    if (!confirmation_check(r, e))
        return false;
    cJSON *state = local_models_state(r->worker->state_dir, e), *o = cJSON_CreateObject();
    json_get_string(cJSON_GetObjectItem(state, "pull"), "phase", &phase, NULL);
    bool ok = state && (strcmp(phase, "running") ||
                        err_set(e, ERR_CONFLICT, "another model is being downloaded already") ||
                        err_reason(e, "pull_running"));
    cJSON_AddStringToObject(o, "action", "pull");
    cJSON_AddStringToObject(o, "repo", repo);
    if (include && *include)
        cJSON_AddStringToObject(o, "include", include);
    ok = ok && local_models_ask(r->worker->state_dir, o, e);
    cJSON_Delete(o);
    cJSON_Delete(state);
    if (ok)
        audit_record(r, r->who.user_id, r->who.name, "model.pull", repo);
    return ok;
}

void hub_pull_progress(const struct request *r, cJSON *pull)
{
    static const char *const told[] = {"got", "total", "rate", "files_done", "files"};
    char path[PATH_MAX];
    if (!cJSON_IsObject(pull) ||
        !file_join(path, sizeof path, r->worker->state_dir, STATE_PULL, NULL))
        return;
    cJSON *v = json_parse_file(path, MAX_PROGRESS, NULL);
    for (size_t i = 0; i < sizeof told / sizeof told[0]; i++) {
        cJSON *n = cJSON_DetachItemFromObject(v, told[i]);
        cJSON_AddItemToObject(pull, told[i], n ? n : cJSON_CreateNull());
    }
    cJSON_Delete(v);
}
