/* Reads /proc/<pid>/stat; the command in parentheses may hold spaces, so fields are counted from
 * its end. */
#include "tests/unit/support/process_cpu.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

double process_cpu_seconds(pid_t pid)
{
    char path[64], text[1024] = {0};
    unsigned long user = 0, kernel = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *f = fopen(path, "r");
    if (!f)
        return -1;
    size_t n = fread(text, 1, sizeof text - 1, f);
    fclose(f);
    const char *at = n ? strrchr(text, ')') : NULL;
    if (!at ||
        sscanf(at + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &kernel) != 2)
        return -1;
    return (double)(user + kernel) / (double)sysconf(_SC_CLK_TCK);
}
