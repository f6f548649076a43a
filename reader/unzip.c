/* unzip.h: answers orders about an archive, in a process that can do nothing else. */
#include "reader/unzip.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/zip_reader.h"
#include "reader/sandbox.h"

bool unzip_lock_in(const char **why)
{
    const struct sandbox_limits limits = {.cpu_s = UNZIP_CPU_S,
                                          .memory_bytes = UNZIP_MEMORY_BYTES,
                                          .without_landlock = true}; /* no file is opened at all */
    bool hidden;
    if (!sandbox_enter(&limits, &hidden, why))
        return false;
    *why = "seccomp";
    return sandbox_forbid_files();
}

static bool put(int fd, const void *data, size_t len)
{
    for (const char *at = data; len;) {
        ssize_t n = write(fd, at, len);
        if (n < 0 && errno != EINTR)
            return false;
        at += n > 0 ? n : 0;
        len -= n > 0 ? (size_t)n : 0;
    }
    return true;
}

struct serving {
    struct zip_reader *zip;
    int socket;
    struct err opening; /* why there is no reader */
    char block[UNZIP_BLOCK];
};

static bool reply(struct serving *s, struct unzip_frame f, const void *data)
{
    f.at = s->zip ? zip_reader_at(s->zip) : 0;
    return put(s->socket, &f, sizeof f) && put(s->socket, data, f.len);
}

static bool reply_damaged(struct serving *s, const struct err *e, bool whole)
{
    return reply(s,
                 (struct unzip_frame){.reply = UNZIP_DAMAGED,
                                      .flags = whole ? UNZIP_WHOLE : 0,
                                      .len = (uint32_t)strlen(e->text)},
                 e->text);
}

static bool take_next(struct serving *s)
{
    struct zip_reader_entry entry;
    struct err e = {0};
    if (!s->zip)
        return reply_damaged(s, &s->opening, true);
    const int rc = zip_reader_next(s->zip, &entry, &e);
    if (rc < 0)
        return reply_damaged(s, &e, true);
    if (rc == 0)
        return reply(s, (struct unzip_frame){.reply = UNZIP_END}, "");
    const char *name = entry.name ? entry.name : "";
    const size_t len = strnlen(name, UNZIP_NAME);
    return reply(s,
                 (struct unzip_frame){.reply = UNZIP_ENTRY,
                                      .flags = (entry.regular ? UNZIP_REGULAR : 0) |
                                               (entry.name ? 0 : UNZIP_NAMELESS),
                                      .len = (uint32_t)len,
                                      .size = entry.bytes},
                 name);
}

static bool read_block(struct serving *s)
{
    struct err e = {0};
    if (!s->zip)
        return reply_damaged(s, &s->opening, true);
    const int64_t n = zip_reader_read(s->zip, s->block, sizeof s->block, &e);
    if (n < 0)
        return reply_damaged(s, &e, false);
    return reply(s, (struct unzip_frame){.reply = UNZIP_DATA, .len = (uint32_t)n}, s->block);
}

int unzip_serve(int archive, int socket)
{
    static struct serving s; /* a process serves once */
    char order;
    ssize_t n;
    s = (struct serving){.socket = socket};
    s.zip = zip_reader_open_fd(archive, &s.opening);
    bool ok = true;
    while (ok && (n = read(socket, &order, 1)) != 0)
        if (n == 1)
            ok = order == UNZIP_NEXT ? take_next(&s) : order == UNZIP_READ ? read_block(&s) : false;
        else
            ok = errno == EINTR;
    zip_reader_close(&s.zip);
    return ok ? 0 : 1;
}
