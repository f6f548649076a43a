/* Writes log lines, each by one write(2), so that the lines of several processes never mix. */
#include "engine/base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char *const level_names[] = {"error", "warn", "info", "debug"};
static enum log_level max_level = LOG_INFO;
static void (*sink)(enum log_level level, const char *module, const char *text, size_t len);

void log_set_level(enum log_level level)
{
    max_level = level;
}

void log_set_sink(void (*to)(enum log_level level, const char *module, const char *text,
                             size_t len))
{
    sink = to;
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
    ssize_t written = write(STDERR_FILENO, line, n);
    (void)written;
}
