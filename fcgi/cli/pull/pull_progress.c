/* What a pull shows: a bar on a terminal, a line now and then elsewhere. Bytes are those on the
 * disk. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/file.h"
#include "engine/base/size_text.h"
#include "fcgi/cli/pull/pull.h"

#define SECOND 1000000000ull

void pull_progress_begin(struct pull_progress *g, const struct pull *p)
{
    *g = (struct pull_progress){.to = p->quiet ? stderr : stdout, .shown = clock_ns()};
    g->terminal = isatty(fileno(g->to));
    for (size_t i = 0; i < p->n_files; i++)
        g->n_files += p->files[i].state != PULL_KEPT;
}

static void count(struct pull_progress *g, const struct pull *p)
{
    g->got = g->total = 0;
    g->n_done = 0;
    for (size_t i = 0; i < p->n_files; i++) {
        const struct pull_file *f = &p->files[i];
        if (f->state != PULL_KEPT &&
            f->size > 0) /* which may be another one when a file is asked for anew */
            g->total += f->size;
        if (f->state == PULL_READY) {
            g->got += f->size;
            g->n_done++;
        }
        for (size_t k = 0; f->state < PULL_READY && k < f->n_segments; k++)
            g->got += f->segments[k].got;
    }
}

/* Bytes a second over the last samples; 0 until there are two. */
static double rate(struct pull_progress *g, uint64_t now)
{
    enum { N = sizeof g->past / sizeof g->past[0] };
    if (g->n_past == N)
        memmove(g->past, g->past + 1, (N - 1) * sizeof g->past[0]);
    else
        g->n_past++;
    g->past[g->n_past - 1].ns = now;
    g->past[g->n_past - 1].got = g->fresh;
    double s = (double)(now - g->past[0].ns) / 1e9;
    return s > 0 ? (double)(g->fresh - g->past[0].got) / s : 0;
}

static void time_text(double s, char *out, size_t size)
{
    if (s < 100)
        snprintf(out, size, "%.0f s left", s);
    else if (s < 6000)
        snprintf(out, size, "%.0f min left", s / 60);
    else if (s < 360000)
        snprintf(out, size, "%.1f h left", s / 3600);
    else
        snprintf(out, size, "days left");
}

/* {"got", "total" (bytes), "rate" (bytes a second), "files_done", "files", "done"}: for a program
 * that watches from outside. */
static void tell(const struct pull *p, const struct pull_progress *g, double bytes_s, bool done)
{
    char text[256];
    struct err ignored; /* The pull itself continues. */
    int n = snprintf(text, sizeof text,
                     "{\"got\":%lld,\"total\":%lld,\"rate\":%.0f,\"files_done\":%zu,\"files\":%zu,"
                     "\"done\":%s}\n",
                     (long long)g->got, (long long)g->total, bytes_s, g->n_done, g->n_files,
                     done ? "true" : "false");
    file_write_atomic(p->progress, text, (size_t)n, 0640, &ignored);
}

void pull_progress_done(const struct pull *p)
{
    int64_t all = 0;
    for (size_t i = 0; i < p->n_files; i++)
        all += p->files[i].size > 0 ? p->files[i].size : 0;
    if (p->progress)
        tell(p,
             &(struct pull_progress){
                 .got = all, .total = all, .n_done = p->n_files, .n_files = p->n_files},
             0, true);
}

static void tell_outside(struct pull_progress *g, const struct pull *p)
{
    uint64_t ns = clock_ns();
    if (!p->progress || ns - g->told < SECOND / 2)
        return;
    g->told = ns;
    count(g, p);
    double bytes_s = rate(g, ns);
    tell(p, g, bytes_s, false);
}

void pull_progress_show(struct pull_progress *g, const struct pull *p, bool now)
{
    tell_outside(g, p);
    char got[SIZE_TEXT], total[SIZE_TEXT], speed[SIZE_TEXT], left[32] = "";
    uint64_t ns = clock_ns(), every = g->terminal ? SECOND / 4 : 10 * SECOND;
    if (!g->n_files || (!now && ns - g->shown < every))
        return;
    g->shown = ns;
    count(g, p);
    double bytes_s = rate(g, ns);
    size_text((double)g->got, got);
    size_text((double)g->total, total);
    size_text(bytes_s, speed);
    if (g->got == g->total)
        snprintf(left, sizeof left, "checking");
    else if (bytes_s > 0)
        time_text((double)(g->total - g->got) / bytes_s, left, sizeof left);
    fprintf(g->to, "%s%s of %s  %3d %%  %s/s  %s  %zu of %zu files%s", g->terminal ? "\r" : "", got,
            total, g->total ? (int)(100.0 * (double)g->got / (double)g->total) : 100, speed, left,
            g->n_done, g->n_files, g->terminal ? "\033[K" : "\n");
    fflush(g->to);
    g->drawn = g->terminal;
}

void pull_progress_end(struct pull_progress *g)
{
    if (g->drawn)
        fputs("\r\033[K", g->to);
    g->drawn = false;
    fflush(g->to);
}

void pull_progress_say(struct pull_progress *g, const char *fmt, ...)
{
    va_list args;
    pull_progress_end(g);
    va_start(args, fmt);
    vfprintf(g->to, fmt, args);
    va_end(args);
    putc('\n', g->to);
    fflush(g->to);
}
