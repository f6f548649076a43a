/* packed_file.h: unpacks by the programs that everyone has. */
#include "tests/unit/support/packed_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "engine/base/file.h"

static void die(const char *path, const char *why)
{
    fprintf(stderr, "packed_file: %s: %s\n", path, why);
    abort();
}

bool packed_file_place(const char *path, char *out, size_t size)
{
    static const char *const packed[][2] = {{"gz", "gzip"}, {"xz", "xz"}};
    char command[8300], temporary[] = "/tmp/sluice-test-XXXXXX";
    snprintf(out, size, "%s", path);
    if (file_exists(path))
        return false;
    for (int i = 0; i < 2; i++) {
        snprintf(out, size, "%s.%s", path, packed[i][0]);
        if (!file_exists(out))
            continue;
        int fd = mkstemp(temporary);
        if (fd < 0)
            die(path, "no temporary file");
        close(fd);
        snprintf(command, sizeof command, "%s -dc '%s' > %s", packed[i][1], out, temporary);
        if (system(command) != 0)
            die(path, "can't unpack");
        snprintf(out, size, "%s", temporary);
        return true;
    }
    die(path, "is not there");
    return false;
}

struct buf packed_file_read(const char *path)
{
    char at[4096];
    struct buf b = {0};
    struct err e = {0};
    const bool temporary = packed_file_place(path, at, sizeof at);
    if (!file_read(at, (size_t)64 << 20, &b, &e))
        die(path, e.text);
    if (temporary)
        unlink(at);
    return b;
}
