/* sluice pack: writes a model's experts once more, each in one piece, for models that are streamed
 * from disk. */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/file.h"
#include "engine/experts/pack/expert_pack.h"
#include "fcgi/cli/bench/expert_report.h"
#include "fcgi/cli/cli_options.h"

extern const struct command cmd_pack;

struct options {
    const char *output;
    bool json;
};

#define AT(field) offsetof(struct options, field)
static const struct option options[] = {
    {"output", OPTION_STRING, AT(output), NULL, 0, 0, NULL, "DIR",
     "folder of the packed file, with a link to it beside the model (default: the model's own "
     "folder)"},
    {"json", OPTION_BOOL, AT(json), NULL, 0, 0, NULL, NULL, "print one JSON object"},
};

static volatile sig_atomic_t stop;

static void on_signal(int signal_number)
{
    stop = 1;
}

struct shown {
    bool terminal, drawn, quiet;
    double began, last; /* clock_ms */
    struct pack_progress p;
};

static void draw(struct shown *s, double now)
{
    const struct pack_progress *p = &s->p;
    uint64_t left = p->bytes_total - p->bytes;
    double rate = (double)p->bytes / (now - s->began) * 1000;
    printf("%s%.2f of %.2f GB  %3d %%  %.0f MB/s  %.0f s left%s", s->terminal ? "\r" : "",
           (double)p->bytes / 1e9, (double)p->bytes_total / 1e9,
           (int)(100 * (double)p->bytes / (double)p->bytes_total), rate / 1e6,
           rate > 0 ? (double)left / rate : 0, s->terminal ? "\033[K" : "\n");
    fflush(stdout);
    s->drawn = s->terminal;
}

static void on_progress(void *context, const struct pack_progress *p)
{
    struct shown *s = context;
    double now = clock_ms();
    s->p = *p;
    if (s->quiet || now - s->last < (s->terminal ? 250 : 10000))
        return;
    s->last = now;
    draw(s, now);
}

static void end_line(struct shown *s)
{
    if (s->drawn)
        printf("\r\033[K");
    s->drawn = false;
}

/* The engine looks beside the model: a link there leads it to another folder. A file there is not
 * touched. */
static void link_beside(const struct model *m, const char *path, FILE *to)
{
    char beside[4096], fresh[4110], *real = realpath(path, NULL);
    struct stat st;
    struct err ignored;
    bool ok = real && expert_pack_path(beside, sizeof beside, m, NULL, &ignored);
    if (ok && lstat(beside, &st) == 0 && !S_ISLNK(st.st_mode)) {
        struct stat other;
        if (stat(path, &other) != 0 || other.st_ino != st.st_ino || other.st_dev != st.st_dev)
            fprintf(to, "%s is there as well: the engine takes that one\n", beside);
        ok = false;
    }
    if (ok) {
        snprintf(fresh, sizeof fresh, "%s.link", beside);
        unlink(fresh);
        if (symlink(real, fresh) != 0 || rename(fresh, beside) != 0)
            fprintf(to, "no link at %s: %s; put one there, the engine looks for it\n", beside,
                    strerror(errno));
        else
            fprintf(to, "%s leads to it\n", beside);
    }
    free(real);
}

static void say_json(const struct shown *s, const char *path, bool there)
{
    struct buf b = {0};
    buf_puts(&b, "{\"path\":");
    buf_json_string(&b, path, strlen(path));
    buf_printf(&b, ",\"was_there\":%s", there ? "true" : "false");
    if (!there)
        buf_printf(&b,
                   ",\"bytes\":%" PRIu64 ",\"experts\":%" PRIu64 ",\"experts_kept\":%" PRIu64
                   ",\"ms\":%.0f",
                   s->p.bytes_total, s->p.records_total, s->p.records_kept, clock_ms() - s->began);
    buf_putc(&b, '}');
    if (!b.failed)
        puts(b.data);
    buf_fini(&b);
}

static void say(const struct shown *s, const char *path, bool there)
{
    if (there) {
        printf("%s is there already\n", path);
        return;
    }
    if (s->p.records_kept)
        printf("%" PRIu64 " of %" PRIu64 " experts were there from an earlier run\n",
               s->p.records_kept, s->p.records_total);
    printf("%s: %.2f GB in %.1f s\n", path, (double)s->p.bytes_total / 1e9,
           (clock_ms() - s->began) / 1000);
}

static bool write_file(const struct options *o, const struct model *m, struct err *e)
{
    struct shown s = {.terminal = isatty(STDOUT_FILENO),
                      .quiet = o->json,
                      .began = clock_ms(),
                      .last = clock_ms()};
    char path[4096];
    bool there, ok = expert_pack_path(path, sizeof path, m, o->output, e);
    ok = ok && expert_pack_write(&(struct pack_params){.model = m,
                                                       .folder = o->output,
                                                       .stop = &stop,
                                                       .progress = on_progress,
                                                       .context = &s},
                                 &there, e);
    end_line(&s);
    if (!ok)
        return false;
    (o->json ? say_json : say)(&s, path, there);
    if (o->output)
        link_beside(m, path, o->json ? stderr : stdout);
    return true;
}

static bool pack(const struct options *o, const char *path, struct err *e)
{
    struct model *m = NULL;
    bool ok = (!o->output || file_mkdirs(o->output, 0755, e)) && (m = model_open(path, e)) != NULL;
    if (ok) {
        struct expert_report f;
        expert_report_make(&f, m, o->output);
        if (!o->json) {
            expert_report_print(&f); /* what there is to gain */
            putchar('\n');
        }
        ok = write_file(o, m, e);
    }
    model_close(&m);
    return ok;
}

static int run_pack(int argc, char **argv)
{
    struct options o = {0};
    struct err e = {0};
    char **rest = calloc((size_t)argc + 1, sizeof *rest);
    int status = rest ? cli_options(&cmd_pack, argc, argv, &o, rest) : 1;
    if (status < 0 && (!rest[0] || rest[1]))
        status = cli_misused(&cmd_pack, "one model is needed");
    if (status < 0) {
        struct sigaction act = {.sa_handler = on_signal};
        sigaction(SIGINT, &act, NULL);
        sigaction(SIGTERM, &act, NULL);
        signal(SIGXFSZ, SIG_IGN); /* a limit on file sizes is an error like a full disk */
        status = pack(&o, rest[0], &e) ? 0 : command_fail("pack", &e);
    }
    free(rest);
    return status;
}

const struct command cmd_pack = {
    .name = "pack",
    .usage = "MODEL [--output DIR] [--json]",
    .help = "write a model's experts once more, each in one piece, for streaming from disk",
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .run = run_pack,
};
