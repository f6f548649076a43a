/* POST /api/pull, in Ollama's form. What is served is there already. Anything else is a repository
 * of the hub, which an admin may have loaded to the server's disk: the answer follows that until it
 * ends, and it continues when the client leaves. */
#include <stdio.h>
#include <string.h>

#include "engine/base/json/json.h"
#include "fcgi/admin/hub_pull.h"
#include "fcgi/admin/local_models.h"
#include "fcgi/http/reply.h"
#include "fcgi/http/request.h"
#include "fcgi/http/sse.h"
#include "fcgi/inference/model_name.h"
#include "fcgi/inference/watch.h"
#include "fcgi/ollama/ollama.h"
#include "fcgi/openai/chat_request.h"
#include "fcgi/process/worker.h"

#define LOOK_MS 250

static const struct field_row fields[] = {
    {"model", FIELD_READ},
    {"name", FIELD_READ},
    {"stream", FIELD_READ},
    {"insecure", FIELD_INERT},
    {0},
};

struct pull {
    struct request *r;
    const char *name; /* as it was asked for */
    bool stream;
    char repo[208], include[208];
    struct sse sse;
    double got; /* as it was last told */
    bool begun; /* a line was written: the first one names what was ignored */
};

/* A line of a stream; what is whole has the last one alone. completed < 0: no figures. */
static void say(struct pull *p, const char *status, double completed, double total)
{
    struct buf b = {0};
    buf_puts(&b, "{\"status\":");
    buf_json_string(&b, status, strlen(status));
    if (completed >=
        0) { /* of all files together: what is named in a digest's place is the repository */
        buf_puts(&b, ",\"digest\":");
        buf_json_string(&b, p->repo, strlen(p->repo));
        buf_printf(&b, ",\"total\":%.0f,\"completed\":%.0f", total, completed);
    }
    if (!p->begun)
        ignored_write(&b, p->r);
    buf_putc(&b, '}');
    p->begun = p->begun || p->stream;
    if (p->stream && !b.failed)
        sse_line(&p->sse, b.data, b.len);
    else if (!strcmp(status, "success"))
        reply_json_buf(p->r, 200, &b);
    buf_fini(&b);
}

static void begin(struct pull *p)
{
    if (!p->stream)
        return;
    sse_begin(&p->sse, p->r, SSE_LINES_TYPE);
    sse_wait(&p->sse);
    sse_enable_abort(&p->sse);
}

/* Ollama's names for repositories of the hub: hf.co/OWNER/NAME:TAG, of which the tag is part of the
 * files' names. */
static bool take_name(struct pull *p, struct err *e)
{
    static const char *const hosts[] = {"https://", "hf.co/", "huggingface.co/"};
    const char *name = p->name;
    for (size_t i = 0; i < sizeof hosts / sizeof hosts[0]; i++)
        if (!strncmp(name, hosts[i], strlen(hosts[i])))
            name += strlen(hosts[i]);
    const size_t len = strcspn(name, ":");
    const char *tag = name[len] ? name + len + 1 : "";
    if (!memchr(name, '/', len) || len >= sizeof p->repo || strlen(tag) >= sizeof p->include - 3)
        return err_set(e, ERR_NOTFOUND,
                       "model '%.100s' not found: it is not served here, and models of the hub are "
                       "named OWNER/NAME",
                       p->name);
    snprintf(p->repo, sizeof p->repo, "%.*s", (int)len, name);
    if (*tag && strcmp(tag, "latest"))
        snprintf(p->include, sizeof p->include, "*%s*", tag);
    return true;
}

static bool may_pull(const struct pull *p, struct err *e)
{
    const struct identity *who = &p->r->who;
    if (who->admin && (who->by == AUTH_SESSION || who->terms.scopes & SCOPE_ADMIN))
        return true;
    return err_set(e, ERR_FORBIDDEN,
                   "model '%.100s' is not served here; loading it takes a key of an admin with the "
                   "scope admin, "
                   "the admin page, or `sluice pull` on the server",
                   p->name);
}

/* True while it runs. *e is set where it failed. */
static bool look(struct pull *p, struct err *e)
{
    char status[240];
    const char *phase = "", *why = NULL;
    double got = -1, total = 0;
    const char *dir = p->r->worker->state_dir;
    if (local_models_pending(dir)) /* not begun: what is told is of the one before */
        return true;
    cJSON *state = local_models_state(dir, e), *pull = cJSON_GetObjectItem(state, "pull");
    hub_pull_progress(p->r, pull);
    json_get_string(pull, "phase", &phase, NULL);
    json_get_string(pull, "error", &why, NULL);
    json_get_number(pull, "got", 0, 1e18, &got, NULL);
    json_get_number(pull, "total", 0, 1e18, &total, NULL);
    const bool runs = !strcmp(phase, "running");
    snprintf(status, sizeof status, "pulling %s", p->repo);
    if (got >= 0 && got != p->got)
        say(p, status, got, total);
    p->got = got;
    if (state && !runs && strcmp(phase, "done"))
        err_set(e, why && strstr(why, "404") ? ERR_NOTFOUND : ERR_UNAVAILABLE,
                "%.100s was not loaded: %.180s", p->repo, why ? why : "it was stopped");
    cJSON_Delete(state);
    return runs;
}

/* Until the pull has ended, the client has gone, or this worker is told to leave. */
static bool follow(struct pull *p, struct err *e)
{
    int which;
    p->got = -1;
    while (look(p, e)) {
        if (p->stream && sse_idle_ms(&p->sse) == 0)
            say(p, "pulling", -1, 0);
        if (p->stream)
            sse_wait(&p->sse);
        switch (watch_jobs(p->r, NULL, 0, LOOK_MS, &which)) {
        case WATCH_GONE:
            return err_set(e, ERR_CANCELLED, "the client closed the connection");
        case WATCH_SHUTDOWN:
            return err_set(e, ERR_UNAVAILABLE, "the server is restarting; the model is loaded on");
        default:
            break;
        }
    }
    return e->code == ERR_NONE;
}

static bool from_hub(struct pull *p, struct err *e)
{
    if (!take_name(p, e) || !may_pull(p, e))
        return false;
    if (!hub_pull_ask(p->r, p->repo, p->include, e))
        return strcmp(e->field, "repo") ? false : err_field(e, ERR_INPUT, "model", "%s", e->text);
    begin(p);
    struct err why = {0};
    bool ok = follow(p, &why);
    if (!ok && !p->stream) {
        *e = why;
        return false;
    }
    if (ok) {
        say(p, "on the server's disk; an admin can now choose it", -1, 0);
        say(p, "success", -1, 0);
        return true;
    }
    struct buf b = {0};
    ollama_error(&b, p->r, &why);
    sse_line(&p->sse, b.data, b.len);
    buf_fini(&b);
    return true;
}

static bool pull_model(struct request *r, struct err *e)
{
    struct pull p = {.r = r, .stream = true};
    const cJSON *body = field_body(r, e);
    if (!body || !fields_take(r, body, fields, e) || !json_get_bool(body, "stream", &p.stream, e) ||
        !ollama_name(body, &p.name, e))
        return false;
    if (!p.name || !*p.name)
        return err_field(e, ERR_INPUT, "model", "is needed");
    bool ok = true;
    if (model_name_is_served(r, p.name)) {
        begin(&p);
        say(&p, "already loaded", -1, 0);
        say(&p, "success", -1, 0);
    } else {
        ok = from_hub(&p, e);
    }
    sse_end(&p.sse);
    return ok;
}

const struct route api_ollama_pull_routes[] = {
    {.method = HTTP_POST,
     .path = "/api/pull",
     .auth = ROUTE_USER,
     .pool = POOL_STREAM,
     .body_limit = ROUTE_JSON_BODY,
     .handler = pull_model,
     .scope = SCOPE_INFERENCE,
     .doc = {.summary = "Have a model loaded to the server's disk, in Ollama's form",
             .body = "OllamaPullRequest",
             .reply = "OllamaPulled",
             .media = SSE_LINES_TYPE,
             OLLAMA_FORM,
             .statuses = "200 403 409"},
     .dialect = &ollama_dialect},
    {0},
};
