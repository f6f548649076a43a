/* Starts `sluice pull`, reads its progress file, and reports its end. */
#define LOG_MODULE "pull"
#include "fcgi/cli/pull/model_pull.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/file.h"
#include "engine/base/json/json.h"
#include "engine/base/log.h"
#include "fcgi/cli/pull/hub_name.h"
#include "fcgi/cli/pull/pull.h"

#define INCLUDE_MAX 256

/* What the folder of the model is called. */
static bool folder_of(const char *repo, char *out, size_t size, const char *folder, struct err *e)
{
    struct hub_name name = {0};
    if (hub_name_is(repo))
        return hub_name_parse(repo, &name, e) && file_join(out, size, folder, name.folder, e);
    return pull_repo_split(repo, &name.repo, e) && file_join(out, size, folder, name.repo.name, e);
}

static bool begin(struct model_pull *p, const char *repo, const char *include, struct err *e)
{
    char out[4096], with[INCLUDE_MAX + 16];
    if (!folder_of(repo, out, sizeof out, p->folder, e) || !file_mkdirs(p->folder, 0750, e))
        return false;
    if (strlen(repo) >= sizeof p->repo || (include && strlen(include) > INCLUDE_MAX))
        return err_set(e, ERR_INPUT, "the name is too long");
    snprintf(with, sizeof with, "--include=%s", include ? include : "");
    char *argv[16] = {"sluice",     "pull",         "--out",      out,
                      "--endpoint", (char *)p->hub, "--progress", (char *)p->progress_path};
    int n = 8;
    if (include)
        argv[n++] = with;
    argv[n++] = "--";
    argv[n++] = (char *)repo;
    unlink(p->progress_path);
    return own_child_start(&p->child, argv, e);
}

bool model_pull_start(struct model_pull *p, const char *repo, const char *include, struct err *e)
{
    if (p->phase == MODEL_PULL_RUNNING)
        return err_set(e, ERR_CONFLICT, "%s is being loaded", p->repo);
    const bool ok = begin(p, repo, include, e);
    snprintf(p->repo, sizeof p->repo, "%s", repo);
    snprintf(p->error, sizeof p->error, "%s", ok ? "" : e->text);
    p->phase = ok ? MODEL_PULL_RUNNING : MODEL_PULL_FAILED;
    if (ok)
        log_info("repository=%s pid=%d", p->repo, (int)p->child.pid);
    return ok;
}

void model_pull_stop(struct model_pull *p)
{
    if (p->phase == MODEL_PULL_RUNNING)
        own_child_stop(&p->child);
}

/* Did it say so itself? Its exit status goes to the supervisor's own wait. */
static bool said_done(const struct model_pull *p)
{
    bool done = false;
    cJSON *v = json_parse_file(p->progress_path, 65536, NULL);
    json_get_bool(v, "done", &done, NULL);
    cJSON_Delete(v);
    return done;
}

bool model_pull_tick(struct model_pull *p)
{
    if (p->phase != MODEL_PULL_RUNNING || !own_child_ended(&p->child))
        return false;
    p->phase = said_done(p) ? MODEL_PULL_DONE : MODEL_PULL_FAILED;
    if (p->phase == MODEL_PULL_FAILED)
        snprintf(p->error, sizeof p->error, "%s",
                 p->child.said[0] ? p->child.said : "it ended before all was there");
    log_info("repository=%s %s", p->repo, p->phase == MODEL_PULL_DONE ? "is whole" : p->error);
    return true;
}

void model_pull_tell(const struct model_pull *p, struct buf *b)
{
    static const char *const names[] = {"none", "running", "done", "failed"};
    if (p->phase == MODEL_PULL_NONE) {
        buf_puts(b, ",\"pull\":null");
        return;
    }
    buf_printf(b, ",\"pull\":{\"phase\":\"%s\",\"repo\":", names[p->phase]);
    buf_json_string(b, p->repo, strlen(p->repo));
    buf_puts(b, ",\"error\":");
    if (p->error[0] && p->phase == MODEL_PULL_FAILED)
        buf_json_string(b, p->error, strlen(p->error));
    else
        buf_puts(b, "null");
    buf_puts(b, "}");
}
