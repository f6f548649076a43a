/* Writes log lines whole, by one write(2) of at most PIPE_BUF bytes, so that the lines of several
 * processes never mix. */
#include "engine/base/log.h"

#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char *const level_names[] = {"error", "warn", "info", "debug"};
static enum log_level max_level = LOG_INFO;
static void (*sink)(enum log_level level, const char *module, const char *text, size_t len);

/* Lines that wait, guarded by the lock. */
static bool gathers;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char held[PIPE_BUF];
static _Atomic size_t n_held;

void log_set_level(enum log_level level)
{
    max_level = level;
}

void log_set_sink(void (*to)(enum log_level level, const char *module, const char *text,
                             size_t len))
{
    sink = to;
}

void log_gather(void)
{
    gathers = true;
}

bool log_gathered(void)
{
    return n_held > 0;
}

/* With the lock. */
static void write_held(void)
{
    const ssize_t written = n_held ? write(STDERR_FILENO, held, n_held) : 0;
    (void)written;
    n_held = 0;
}

void log_flush(void)
{
    if (!n_held)
        return;
    pthread_mutex_lock(&lock);
    write_held();
    pthread_mutex_unlock(&lock);
}

static void gather(enum log_level level, const char *line, size_t n)
{
    pthread_mutex_lock(&lock);
    if (n_held + n > sizeof held)
        write_held();
    memcpy(held + n_held, line, n);
    n_held += n;
    if (level < LOG_INFO)
        write_held();
    pthread_mutex_unlock(&lock);
}

int log_level_from_name(const char *name)
{
    for (int i = 0; i <= LOG_DEBUG; i++)
        if (!strcmp(name, level_names[i]))
            return i;
    return -1;
}

void log_write(enum log_level level, const char *module, const char *fmt, ...)
{
    if (level > max_level)
        return;
    char line[1024];
    struct timespec now;
    struct tm tm;
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &tm);
    size_t n = strftime(line, sizeof line, "%Y-%m-%dT%H:%M:%S", &tm);
    n += (size_t)snprintf(line + n, sizeof line - n, ".%03ldZ %-5s %s: ", now.tv_nsec / 1000000,
                          level_names[level], module);
    const size_t head = n;
    va_list ap;
    va_start(ap, fmt);
    int m = vsnprintf(line + n, sizeof line - n - 1, fmt, ap);
    va_end(ap);
    n += m < 0 ? 0 : (size_t)m;
    if (n > sizeof line - 2)
        n = sizeof line - 2;
    for (size_t i = 0; i < n; i++) /* one event, one line, whatever the text holds */
        if ((unsigned char)line[i] < ' ')
            line[i] = ' ';
    if (sink)
        sink(level, module, line + head, n - head);
    line[n++] = '\n';
    if (gathers) {
        gather(level, line, n);
        return;
    }
    ssize_t written = write(STDERR_FILENO, line, n);
    (void)written;
}
