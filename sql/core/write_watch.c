/* write_watch.h: clocks at the begin, the steps and the end of a transaction. */
#define LOG_MODULE "database"
#include "sql/core/write_watch.h"

#include "engine/base/clock.h"
#include "engine/base/log.h"

/* Of this thread. */
static double processor_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static const char *name_of(const struct store *s, const sqlite3_stmt *q)
{
    for (int i = 0; q && i < QUERY__N; i++)
        if (s->statements[i] == q)
            return query_name[i];
    return "none";
}

/* A warning now and then, all others at level debug. */
static enum log_level level_of(struct store *s, double ms, double now)
{
    if (ms < WRITE_LONG_MS || (s->watch.warned && now - s->watch.warned < WRITE_EVERY_MS))
        return LOG_DEBUG;
    s->watch.warned = now;
    return LOG_WARN;
}

void write_watch_ask(struct store *s)
{
    s->watch.asked = clock_ms();
}

void write_watch_begin(struct store *s, bool got)
{
    struct write_watch *w = &s->watch;
    const double now = clock_ms(), waited = now - w->asked;
    w->begun = got ? now : 0;
    w->computed = processor_ms();
    w->longest = NULL;
    w->longest_ms = 0;
    w->waited = waited;
    if (!got && waited >= WRITE_SOME_MS)
        log_write(level_of(s, waited, now), LOG_MODULE,
                  "a write waited %.0f ms for others and was given up", waited);
}

void write_watch_step(struct store *s, const sqlite3_stmt *q, double from)
{
    const double ms = clock_ms() - from;
    if (ms <= s->watch.longest_ms)
        return;
    s->watch.longest_ms = ms;
    s->watch.longest = q;
}

void write_watch_end(struct store *s)
{
    struct write_watch *w = &s->watch;
    const double now = clock_ms(), held = now - w->begun;
    if (!w->begun)
        return;
    w->begun = 0;
    if (held >= WRITE_SOME_MS || w->waited >= WRITE_SOME_MS)
        log_write(level_of(s, held > w->waited ? held : w->waited, now), LOG_MODULE,
                  "a write held the database for %.0f ms, of which %s took %.0f and the processor "
                  "worked %.0f, and had waited %.0f ms for others",
                  held, name_of(s, w->longest), w->longest_ms, processor_ms() - w->computed,
                  w->waited);
}
