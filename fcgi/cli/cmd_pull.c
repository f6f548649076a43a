/* sluice pull: a model's files from a hub that speaks the Hugging Face protocol. */
#include <ctype.h>
#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "engine/base/file.h"
#include "fcgi/cli/cli_options.h"
#include "fcgi/cli/pull/hub_name.h"
#include "fcgi/cli/pull/hub_plan.h"
#include "fcgi/cli/pull/pull.h"

extern const struct command cmd_pull;

enum { TOKEN_FILE_MAX = 4096 };

struct settings {
    const char *include, *endpoint, *out, *token_file, *proxy, *progress;
    int64_t jobs, segment_bytes, timeout_s;
    bool plan, json;
};

#define AT(field) offsetof(struct settings, field)
static const struct option options[] = {
    {"include", OPTION_STRING, AT(include), NULL, 0, 0, NULL, "GLOB",
     "only files that match, such as '*.json,*Q4_K_M*.gguf'"},
    {"endpoint", OPTION_STRING, AT(endpoint), "https://huggingface.co", 0, 0, NULL, "URL",
     "the hub"},
    {"out", OPTION_STRING, AT(out), NULL, 0, 0, NULL, "DIR",
     "folder to make; else the repository's name"},
    {"token-file", OPTION_STRING, AT(token_file), NULL, 0, 0, NULL, "FILE",
     "holds the hub's access token; sent to the endpoint's host alone"},
    {"jobs", OPTION_INT, AT(jobs), "8", 1, 64, NULL, "N", "requests at once"},
    {"segment", OPTION_BYTES, AT(segment_bytes), "64MiB", 4096, 4294967296.0, NULL, "BYTES",
     "of one request"},
    {"timeout", OPTION_INT, AT(timeout_s), "60", 1, 3600, NULL, "S",
     "without a byte before a request is made again"},
    {"progress", OPTION_STRING, AT(progress), NULL, 0, 0, NULL, "FILE",
     "keep in this file how far it is, as JSON"},
    {"plan", OPTION_BOOL, AT(plan), NULL, 0, 0, NULL, NULL,
     "say what `sluice up` would run here, and load nothing"},
    {"json", OPTION_BOOL, AT(json), NULL, 0, 0, NULL, NULL,
     "print one JSON object: the plan, or what was loaded"},
    {"proxy", OPTION_STRING, AT(proxy), NULL, 0, 0, NULL, "URL",
     "HTTP proxy; the environment's is not used"},
};
enum { N_OPTIONS = sizeof options / sizeof options[0] };

/* Plain HTTP is for the same machine: on a wire the token could be read. */
static bool is_private(const char *endpoint)
{
    static const char *const loopback[] = {"http://127.0.0.1", "http://localhost", "http://[::1]"};
    if (!strncasecmp(endpoint, "https://", 8))
        return true;
    for (size_t i = 0; i < 3; i++) {
        size_t n = strlen(loopback[i]);
        if (!strncmp(endpoint, loopback[i], n) &&
            (!endpoint[n] || endpoint[n] == ':' || endpoint[n] == '/'))
            return true;
    }
    return false;
}

static bool read_token(struct pull *p, const char *path, struct err *e)
{
    struct buf b = {0};
    if (!path)
        return true;
    if (!is_private(p->endpoint))
        return err_field(e, ERR_INPUT, "token-file", "not sent over plain HTTP to another machine");
    bool ok = file_read(path, TOKEN_FILE_MAX, &b, e);
    size_t n = ok ? b.len : 0;
    while (n && isspace((unsigned char)b.data[n - 1]))
        n--;
    for (size_t i = 0; ok && i < n; i++)
        if (b.data[i] <= ' ' || b.data[i] > '~')
            ok = err_field(e, ERR_INPUT, "token-file", "holds more than one token");
    if (ok && (!n || n >= sizeof p->token))
        ok = err_field(e, ERR_INPUT, "token-file", "holds no token");
    if (ok)
        memcpy(p->token, b.data, n);
    buf_fini(&b);
    return ok;
}

/* A plain name means every file, a hub's name of a repository with GGUF files one quantization. */
static bool take_name(struct pull *p, struct hub_name *name, const char *what, struct err *e)
{
    if (!hub_name_is(what)) {
        if (!pull_repo_split(what, &name->repo, e))
            return false;
        snprintf(name->folder, sizeof name->folder, "%s", name->repo.name);
        return true;
    }
    if (!hub_name_parse(what, name, e))
        return false;
    if (name->quant[0] && p->include)
        return err_field(e, ERR_INPUT, "include", "does not go with ':%s'", name->quant);
    p->quant = p->include ? NULL : name->quant;
    return true;
}

static bool take_plan(struct pull *p, struct hub_plan *plan, const struct settings *s,
                      struct err *e)
{
    plan->say = s->json ? hub_plan_say_json : NULL;
    if (s->plan) {
        p->before = hub_plan_show;
        p->before_context = plan;
    }
    return true;
}

/* Instead of the words; what is there is OUT. */
static void print_json(const struct pull *p)
{
    struct buf b = {0};
    int64_t bytes = 0;
    for (size_t i = 0; i < p->n_files; i++)
        bytes += p->files[i].size;
    buf_puts(&b, "{\"repo\":");
    buf_json_string(&b, p->repo, strlen(p->repo));
    buf_json_member(&b, "commit", p->commit);
    buf_json_member(&b, "path", p->out);
    buf_printf(&b, ",\"files\":%zu,\"bytes\":%lld}", p->n_files, (long long)bytes);
    if (!b.failed)
        puts(b.data);
    buf_fini(&b);
}

static int run(int argc, char **argv)
{
    struct settings s;
    struct err e = {0};
    struct hub_name name = {0};
    struct hub_plan plan = {.backend = "auto", .slots = 16, .speculates = true, .only = true};
    char out[4000];
    char **rest = calloc((size_t)argc + 1, sizeof *rest);
    struct pull p = {.lock = -1, .repo = name.repo.repo, .revision = name.repo.revision};
    if (!rest)
        return 1;
    int status = cli_options(&cmd_pull, argc, argv, &s, rest);
    const char *what = status < 0 ? rest[0] : NULL;
    if (status < 0 && (!what || rest[1])) {
        fprintf(stderr, "sluice pull: name one repository; see `sluice pull --help`\n");
        status = 2;
    }
    free(rest);
    if (status >= 0)
        return status;
    p.include = s.include;
    p.endpoint = s.endpoint;
    p.out = s.out;
    p.proxy = s.proxy;
    p.progress = s.progress;
    p.jobs = s.jobs;
    p.segment_bytes = s.segment_bytes;
    p.timeout_s = s.timeout_s;
    p.quiet = s.json;
    if (!take_name(&p, &name, what, &e) || !take_plan(&p, &plan, &s, &e) ||
        !pull_check_endpoint(p.endpoint, &e) ||
        !pull_set_folders(&p, out, sizeof out, name.folder, &e)) {
        command_fail("pull", &e);
        return 2;
    }
    pull_catch_signals(&p);
    status = !read_token(&p, s.token_file, &e) || curl_global_init(CURL_GLOBAL_DEFAULT) ||
             !pull_run(&p, &e);
    if (!status && !s.plan)
        pull_progress_done(&p);
    if (!status && s.json && !s.plan)
        print_json(&p);
    if (status && !e.code)
        err_set(&e, ERR_INTERNAL, "curl can't start");
    if (status)
        command_fail("pull", &e);
    if (status && p.lock >= 0)
        fprintf(stderr, "The partial download is kept in %s; the same command resumes it.\n",
                p.stage);
    pull_disk_close(&p);
    memset(p.token, 0, sizeof p.token);
    curl_global_cleanup();
    return status;
}

const struct command cmd_pull = {
    .name = "pull",
    .usage = "REPO[@REV] | hf.co/REPO[@REV][:QUANTIZATION] [--include GLOB] [--out DIR] [--plan] "
             "[--json]",
    .help = "loads a model's files from a hub",
    .options = options,
    .n_options = N_OPTIONS,
    .run = run,
};
