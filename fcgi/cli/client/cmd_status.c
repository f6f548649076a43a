/* sluice status: whether the server of a state folder runs, with what, and how busy it is. */
#include <inttypes.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/buf.h"
#include "engine/base/clock.h"
#include "engine/base/file.h"
#include "engine/base/json/json.h"
#include "engine/wire/status.h"
#include "fcgi/cli/cli_options.h"
#include "fcgi/cli/cli_store.h"
#include "fcgi/process/state.h"

extern const struct command cmd_status;

struct show {
    const char *state;
    bool json;
    char folder[PATH_MAX];
    struct status_page page;
    cJSON *processes; /* of `sluice up`; NULL: none */
};

static const struct option options[] = {
    {"state", OPTION_STRING, offsetof(struct show, state), NULL, 0, 0, NULL, "DIR", CLI_STATE_HELP},
    {"json", OPTION_BOOL, offsetof(struct show, json), "false", 0, 0, NULL, NULL, "as JSON"},
};

/* The engine's page lies in the state folder, or in engine/ when the engine is another user. */
static bool read_page(struct show *s, struct err *e)
{
    char path[PATH_MAX], own[PATH_MAX];
    if (access(s->folder, X_OK) != 0)
        return err_errno(e, "the state folder %s", s->folder);
    if (!file_join(path, sizeof path, s->folder, STATE_STATUS, e) ||
        !file_join(own, sizeof own, s->folder, STATE_ENGINE "/" STATE_STATUS, e))
        return false;
    return status_read(path, &s->page, NULL) || status_read(own, &s->page, NULL) ||
           err_set(e, ERR_NOTFOUND,
                   "no server runs from %s; `sluice up --state %.200s` starts one, or give another "
                   "folder by --state",
                   s->folder, s->folder);
}

static void read_processes(struct show *s)
{
    char path[PATH_MAX];
    if (file_join(path, sizeof path, s->folder, "processes.json", NULL))
        s->processes = json_parse_file(path, 1 << 16, NULL);
}

static void print_people(const struct show *s)
{
    const struct status_page *p = &s->page;
    printf("state     %s%s%s\n", engine_state_name(p->state), p->error[0] ? ": " : "", p->error);
    if (p->state == ENGINE_READY) {
        printf("model     %s (%s), %d tokens of context\n", p->model_name, p->family, p->n_ctx);
        printf("device    %s (%s, %s)\n", p->device, p->backend, p->strategy);
        printf("answers   %d running, %d waiting; %d at once\n", p->jobs_running, p->jobs_waiting,
               p->n_slots);
        printf("speed     %.1f tokens/s written, %.1f read, over the last 10 s of work\n",
               p->decode_tokens_per_s, p->prefill_tokens_per_s);
        printf("since     %.0f minutes: %" PRIu64 " answers, %" PRIu64 " tokens written\n",
               (clock_wall_ms() / 1e3 - p->started) / 60, status_jobs_succeeded(p->jobs_done),
               p->completion_tokens);
        /* Copies are in none of the model's files, but locked. */
        const uint64_t locked = status_locked_bytes(p);
        printf("memory    %.2f GB, %.2f GB of it weights\n", (double)p->resident_bytes / 1e9,
               (double)(locked > p->resident_weight_bytes ? locked : p->resident_weight_bytes) /
                   1e9);
    }
    const cJSON *c;
    cJSON_ArrayForEach (c, s->processes)
        printf("%-9s pid %d, started again %d times\n",
               json_text(c, "name") ? json_text(c, "name") : "?",
               cJSON_IsNumber(json_member(c, "pid")) ? json_member(c, "pid")->valueint : 0,
               cJSON_IsNumber(json_member(c, "restarts")) ? json_member(c, "restarts")->valueint
                                                          : 0);
}

static void print_json(struct show *s)
{
    const struct status_page *p = &s->page;
    struct buf b = {0};
    buf_printf(&b, "{\"state\":\"%s\"", engine_state_name(p->state));
    buf_json_member(&b, "folder", s->folder);
    buf_json_member(&b, "error", p->error[0] ? p->error : NULL);
    buf_json_member(&b, "model", p->model_name);
    buf_json_member(&b, "family", p->family);
    buf_json_member(&b, "device", p->device);
    buf_json_member(&b, "backend", p->backend);
    buf_json_member(&b, "strategy", p->strategy);
    buf_printf(&b,
               ",\"n_ctx\":%d,\"slots\":%d,\"running\":%d,\"waiting\":%d,\"started\":%.3f,"
               "\"decode_tokens_per_s\":%.3f,\"prefill_tokens_per_s\":%.3f,\"answers\":%" PRIu64
               ",\"completion_tokens\":%" PRIu64 ",\"resident_bytes\":%" PRIu64 ",\"processes\":",
               p->n_ctx, p->n_slots, p->jobs_running, p->jobs_waiting, p->started,
               p->decode_tokens_per_s, p->prefill_tokens_per_s, status_jobs_succeeded(p->jobs_done),
               p->completion_tokens, p->resident_bytes);
    if (!s->processes || !json_write(&b, s->processes))
        buf_puts(&b, "null");
    buf_puts(&b, "}");
    puts(b.data ? b.data : "{}");
    buf_fini(&b);
}

static int run(int argc, char **argv)
{
    static struct show s; /* the page is some 20 KiB */
    struct err e = {0};
    int status = cli_options(&cmd_status, argc, argv, &s, NULL);
    if (status >= 0)
        return status;
    if (!cli_store_folder(s.state, s.folder, &e) || !read_page(&s, &e))
        return command_fail("status", &e);
    read_processes(&s);
    if (s.json)
        print_json(&s);
    else
        print_people(&s);
    cJSON_Delete(s.processes);
    return s.page.state == ENGINE_READY ? 0 : 1;
}

const struct command cmd_status = {
    .name = "status",
    .usage = "[--state DIR] [--json]",
    .help = "say whether the server runs, with which model, and how busy it is",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .run = run,
};
