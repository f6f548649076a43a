/* Takes questions, starts the command for them, and says so where it ended without a word. */
#define LOG_MODULE "search"
#include "fcgi/cli/pull/model_search.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/buf.h"
#include "engine/base/file.h"
#include "engine/base/json/json.h"
#include "engine/base/log.h"
#include "fcgi/cli/pull/hub_search.h"
#include "fcgi/process/state.h"

enum { MAX_REQUEST = 4096, MAX_FOUND = 4 << 20 };

static const char *path_of(const struct model_search *s, const char *name, char path[PATH_MAX])
{
    return file_join(path, PATH_MAX, s->state_dir, name, NULL) ? path : "";
}

static void tell(const struct model_search *s, const char *query, const char *phase,
                 const char *error)
{
    char path[PATH_MAX];
    struct buf b = {0};
    struct err e = {0};
    hub_search_begin_json(&b, query, phase, error);
    buf_puts(&b, "[]}\n");
    if (b.failed || !file_write_atomic(path_of(s, STATE_SEARCH, path), b.data, b.len, 0640, &e))
        log_warn("%s", e.text);
    buf_fini(&b);
}

static void start(struct model_search *s, const cJSON *request)
{
    char limit[24], *argv[MODEL_SEARCH_ARGS + 5];
    const char *query = "";
    int64_t n = 8;
    int words = 0;
    struct err e = {0};
    if (!json_get_string(request, "query", &query, &e) ||
        !json_get_int(request, "limit", 1, 30, &n, &e)) {
        log_warn("%s: %s", e.field, e.text);
        return;
    }
    snprintf(limit, sizeof limit, "%lld", (long long)n);
    while (s->argv[words] && words < MODEL_SEARCH_ARGS) {
        argv[words] = s->argv[words];
        words++;
    }
    char *const more[] = {"--limit", limit, "--", (char *)query, NULL};
    memcpy(argv + words, more, sizeof more);
    tell(s, query, "searching", NULL);
    s->running = own_child_start(&s->child, argv, &e);
    if (!s->running)
        tell(s, query, "failed", e.text);
}

/* The command says its end itself, unless it died. */
static void check_end(const struct model_search *s)
{
    char path[PATH_MAX];
    const char *phase = "", *query = "";
    cJSON *found = json_parse_file(path_of(s, STATE_SEARCH, path), MAX_FOUND, NULL);
    json_get_string(found, "phase", &phase, NULL);
    json_get_string(found, "query", &query, NULL);
    if (strcmp(phase, "done") && strcmp(phase, "failed"))
        tell(s, query, "failed", s->child.said[0] ? s->child.said : "it ended before its end");
    cJSON_Delete(found);
}

void model_search_begin(struct model_search *s)
{
    char path[PATH_MAX];
    unlink(path_of(s, STATE_SEARCH, path));
    unlink(path_of(s, STATE_SEARCH_REQUEST, path));
}

void model_search_tick(struct model_search *s)
{
    char path[PATH_MAX];
    struct err e = {0};
    const bool asked = file_exists(path_of(s, STATE_SEARCH_REQUEST, path));
    if (s->running && own_child_ended(&s->child)) {
        s->running = s->stopping = false;
        if (!asked)
            check_end(s);
    }
    if (s->running && asked && !s->stopping) {
        own_child_stop(&s->child);
        s->stopping = true;
    }
    if (s->running || !asked) /* the last search may still write what it found */
        return;
    cJSON *request = json_parse_file(path, MAX_REQUEST, &e);
    if (request)
        start(s, request);
    else
        log_warn("%s: %s", path, e.text);
    unlink(path);
    cJSON_Delete(request);
}
