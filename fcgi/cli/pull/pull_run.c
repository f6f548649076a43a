/* A pull from its first question to the folder that is whole, for `sluice pull` and `sluice up`. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "engine/base/clock.h"
#include "engine/base/file.h"
#include "engine/base/size_text.h"
#include "fcgi/cli/pull/pull.h"

static volatile int stopped;

static void on_signal(int number)
{
    stopped = 1;
}

void pull_catch_signals(struct pull *p)
{
    struct sigaction stop = {.sa_handler = on_signal}, ignore = {.sa_handler = SIG_IGN};
    p->stop = &stopped;
    sigaction(SIGINT, &stop, NULL);
    sigaction(SIGTERM, &stop, NULL);
    sigaction(SIGHUP, &stop, NULL);
    sigaction(SIGXFSZ, &ignore, NULL); /* a limit on file sizes is an error of write, not our end */
    sigaction(SIGPIPE, &ignore, NULL);
}

bool pull_check_endpoint(const char *url, struct err *e)
{
    bool ok = (!strncasecmp(url, "http://", 7) || !strncasecmp(url, "https://", 8)) &&
              strlen(url) < 1024 && !strpbrk(url, "@?# \t\r\n");
    return ok || err_field(e, ERR_INPUT, "endpoint",
                           "an address such as https://hub.example, with no name or "
                           "password in it");
}

bool pull_set_folders(struct pull *p, char *out, size_t size, const char *name, struct err *e)
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

static bool load(struct pull *p, struct err *e)
{
    int64_t missing = 0;
    size_t kept = 0;
    char text[32];
    double began = clock_ms();
    if (!pull_disk_plan(p, &missing, e) || !pull_disk_space(p, missing, e))
        return false;
    for (size_t i = 0; i < p->n_files; i++)
        kept += p->files[i].state == PULL_KEPT;
    if (kept == p->n_files) {
        if (!pull_disk_install(p, e)) /* an empty stage that was left behind */
            return false;
        if (!p->quiet)
            printf("%s: all %zu files are there\n", p->out, p->n_files);
        return true;
    }
    size_text((double)missing, text);
    if (!p->quiet)
        printf("%s at %s: %zu files, %s to load into %s\n", p->repo, p->commit, p->n_files, text,
               p->out);
    fflush(stdout);
    if (!pull_http_load(p, e) || !pull_disk_install(p, e))
        return false;
    if (!p->quiet)
        printf("%s is whole: %s in %.1f s\n", p->out, text, (clock_ms() - began) / 1e3);
    fflush(stdout);
    return true;
}

bool pull_run(struct pull *p, struct err *e)
{
    bool more = true;
    return pull_http_list(p, e) && (!p->quant || pull_choose(p, p->quant, e)) &&
           pull_http_ask(p, e) && (!p->before || p->before(p->before_context, p, &more, e)) &&
           (!more || load(p, e));
}
