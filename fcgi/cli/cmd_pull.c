/* sluice pull: a model's files from a hub that speaks the Hugging Face protocol. */
#include <ctype.h>
#include <curl/curl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "engine/base/clock.h"
#include "engine/base/file.h"
#include "engine/base/size_text.h"
#include "fcgi/cli/cli_options.h"
#include "fcgi/cli/pull/pull.h"

extern const struct command cmd_pull;

enum { TOKEN_FILE_MAX = 4096 };

struct settings {
    const char *include, *endpoint, *out, *token_file, *proxy, *progress;
    int64_t jobs, segment_bytes, timeout_s;
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
    {"proxy", OPTION_STRING, AT(proxy), NULL, 0, 0, NULL, "URL",
     "HTTP proxy; the environment's is not used"},
};
enum { N_OPTIONS = sizeof options / sizeof options[0] };

static volatile int stopped;

static void on_signal(int number)
{
    stopped = 1;
}

static void catch_signals(void)
{
    struct sigaction stop = {.sa_handler = on_signal}, ignore = {.sa_handler = SIG_IGN};
    sigaction(SIGINT, &stop, NULL);
    sigaction(SIGTERM, &stop, NULL);
    sigaction(SIGHUP, &stop, NULL);
    sigaction(SIGXFSZ, &ignore, NULL); /* a limit on file sizes is an error of write, not our end */
    sigaction(SIGPIPE, &ignore, NULL);
}

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

static bool check_endpoint(const char *url, struct err *e)
{
    bool ok = (!strncasecmp(url, "http://", 7) || !strncasecmp(url, "https://", 8)) &&
              strlen(url) < 1024 && !strpbrk(url, "@?# \t\r\n");
    return ok || err_field(e, ERR_INPUT, "endpoint",
                           "an address such as https://hub.example, with no name or "
                           "password in it");
}

static bool set_folders(struct pull *p, char *out, size_t size, const char *name, struct err *e)
{
    size_t n = (size_t)snprintf(out, size, "%s", p->out ? p->out : name);
    while (n > 1 && n < size && out[n - 1] == '/')
        out[--n] = 0;
    if (!n || n >= size ||
        snprintf(p->stage, sizeof p->stage, "%s.part", out) >= (int)sizeof p->stage)
        return err_field(e, ERR_INPUT, "out", "no folder's name");
    if (file_exists(out) && !file_is_dir(out))
        return err_field(e, ERR_INPUT, "out", "%s is there and no folder", out);
    p->out = out;
    return true;
}

static bool pull(struct pull *p, struct err *e)
{
    int64_t missing = 0;
    size_t kept = 0;
    char text[32];
    double began = clock_ms();
    if (!pull_http_list(p, e) || !pull_http_ask(p, e) || !pull_disk_plan(p, &missing, e) ||
        !pull_disk_space(p, missing, e))
        return false;
    for (size_t i = 0; i < p->n_files; i++)
        kept += p->files[i].state == PULL_KEPT;
    if (kept == p->n_files) {
        if (!pull_disk_install(p, e)) /* an empty stage that was left behind */
            return false;
        printf("%s: all %zu files are there\n", p->out, p->n_files);
        return true;
    }
    size_text((double)missing, text);
    printf("%s at %s: %zu files, %s to load into %s\n", p->repo, p->commit, p->n_files, text,
           p->out);
    fflush(stdout);
    if (!pull_http_load(p, e) || !pull_disk_install(p, e))
        return false;
    printf("%s is whole: %s in %.1f s\n", p->out, text, (clock_ms() - began) / 1e3);
    return true;
}

static int run(int argc, char **argv)
{
    struct settings s;
    struct err e = {0};
    struct pull_repo repo;
    char out[4000];
    char **rest = calloc((size_t)argc + 1, sizeof *rest);
    struct pull p = {.lock = -1, .repo = repo.repo, .revision = repo.revision, .stop = &stopped};
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
    if (!pull_repo_split(what, &repo, &e) || !check_endpoint(p.endpoint, &e) ||
        !set_folders(&p, out, sizeof out, repo.name, &e)) {
        command_fail("pull", &e);
        return 2;
    }
    catch_signals();
    status =
        !read_token(&p, s.token_file, &e) || curl_global_init(CURL_GLOBAL_DEFAULT) || !pull(&p, &e);
    if (!status)
        pull_progress_done(&p);
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
    .usage = "REPO[@REV] [--include GLOB] [--out DIR]",
    .help = "loads a model's files from a hub",
    .options = options,
    .n_options = N_OPTIONS,
    .run = run,
};
