/* sluice doctor: each thing that the server needs, whether it is there, and what mends it. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "engine/backend/backend.h"
#include "engine/base/buf.h"
#include "engine/base/file.h"
#include "engine/wire/status.h"
#include "fcgi/admin/diagnostics.h"
#include "fcgi/cli/cli_options.h"
#include "fcgi/cli/up/nginx_conf.h"
#include "fcgi/process/state.h"

extern const struct command cmd_doctor;

struct doctor {
    const char *state, *share_dir;
    bool json;
    struct buf out;
    int n, warnings, failures;
};

static const struct option options[] = {
    {"state", OPTION_STRING, offsetof(struct doctor, state), NULL, 0, 0, NULL, "DIR",
     "also look at this state folder"},
    {"share-dir", OPTION_STRING, offsetof(struct doctor, share_dir), SLUICE_DATADIR, 0, 0, NULL,
     "DIR", "where the page and nginx's templates are"},
    {"json", OPTION_BOOL, offsetof(struct doctor, json), "false", 0, 0, NULL, NULL, "as JSON"},
};

/* diagnostics_report_fn */
static void report(void *context, const struct diagnostics_finding *f)
{
    struct doctor *d = context;
    d->warnings += f->verdict == DIAGNOSTICS_WARNING;
    d->failures += f->verdict == DIAGNOSTICS_FAILURE;
    if (!d->json) {
        printf("%-8s %-18s %s\n", diagnostics_verdict_name(f->verdict), f->what, f->found);
        if (f->fix)
            printf("%-8s %-18s   fix: %s\n", "", "", f->fix);
        return;
    }
    buf_printf(&d->out, "%s{\"check\":", d->n++ ? "," : "");
    buf_json_string(&d->out, f->what, strlen(f->what));
    buf_printf(&d->out, ",\"verdict\":\"%s\",\"found\":", diagnostics_verdict_name(f->verdict));
    buf_json_string(&d->out, f->found, strlen(f->found));
    if (f->fix) {
        buf_puts(&d->out, ",\"fix\":");
        buf_json_string(&d->out, f->fix, strlen(f->fix));
    }
    buf_puts(&d->out, "}");
}

/* What only a program at the command line looks at. */
static void say(const struct diagnostics *c, enum diagnostics_verdict v, const char *what,
                const char *found, const char *fix)
{
    diagnostics_say(
        c, (struct diagnostics_finding){.verdict = v, .what = what, .found = found, .fix = fix});
}

static void check_vulkan(const struct diagnostics *c)
{
    struct err e = {0};
    if (!vulkan_backend.probe->usable(&e))
        say(c, DIAGNOSTICS_WARNING, "GPU (Vulkan)", e.text,
            "models run on the CPU; for a GPU install its Vulkan driver (mesa-vulkan-drivers, "
            "or the vendor's)");
    else if (vulkan_is_software())
        say(c, DIAGNOSTICS_WARNING, "GPU (Vulkan)", "only a software rasteriser answers",
            "models run on the CPU; for a GPU install its Vulkan driver");
    else
        say(c, DIAGNOSTICS_OK, "GPU (Vulkan)", "a device answers; --backend auto takes it", NULL);
}

static void check_programs(const struct diagnostics *c, const char *share_dir)
{
    const char *nginx = nginx_program();
    say(c, nginx ? DIAGNOSTICS_OK : DIAGNOSTICS_FAILURE, "nginx", nginx ? nginx : "not found",
        "apt install nginx-light");
    char path[4096];
    const char *const shares[] = {"web/index.html", "web/vendor/markdown-it.min.js",
                                  "nginx/up.conf.in"};
    bool all = true;
    for (size_t i = 0; i < sizeof shares / sizeof shares[0]; i++)
        all = file_join(path, sizeof path, share_dir, shares[i], NULL) && file_exists(path) && all;
    say(c, all ? DIAGNOSTICS_OK : DIAGNOSTICS_FAILURE, "page", share_dir,
        "make install (it needs npm once, for three libraries)");
}

static void check_state(struct doctor *d, const struct diagnostics *c)
{
    char path[4096];
    struct err e = {0};
    if (!d->state || !diagnostics_state_folder(c, d->state))
        return;
    if (file_join(path, sizeof path, d->state, STATE_DATABASE, &e) && file_exists(path))
        diagnostics_database(c, path);
    static struct status_page page;
    bool started = file_join(path, sizeof path, d->state, STATE_ENGINE "/" STATE_STATUS, &e) &&
                   status_read(path, &page, &e) && page.state != ENGINE_DOWN;
    started = started || (file_join(path, sizeof path, d->state, STATE_STATUS, &e) &&
                          status_read(path, &page, &e));
    diagnostics_engine(c, started ? &page : NULL);
}

static int run_doctor(int argc, char **argv)
{
    struct doctor d = {0};
    int status = cli_options(&cmd_doctor, argc, argv, &d, NULL);
    if (status >= 0)
        return status;
    const struct diagnostics c = {.report = report, .context = &d};
    diagnostics_system(&c);
    diagnostics_instructions(&c);
    check_vulkan(&c);
    check_programs(&c, d.share_dir);
    diagnostics_sqlite(&c);
    check_state(&d, &c);
    if (d.json)
        printf("{\"checks\":[%s],\"warnings\":%d,\"failures\":%d}\n", d.out.data, d.warnings,
               d.failures);
    else
        printf("\n%d failures, %d warnings\n", d.failures, d.warnings);
    buf_fini(&d.out);
    return d.failures ? 1 : 0;
}

const struct command cmd_doctor = {
    .name = "doctor",
    .usage = "[--state DIR] [--json]",
    .help = "look at each thing the server needs, and say what mends it",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .run = run_doctor,
};
