/* log_ring.h */
#include "engine/base/log_ring.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/file.h"

#define MAGIC 0x474f4c53u
#define VERSION 1

struct slot {
    _Atomic uint64_t sequence; /* of the line that is whole here; 0 while one is written */
    struct log_ring_line line;
};

struct ring_file {
    uint32_t magic, version;
    uint64_t size;
    _Atomic uint64_t head; /* sequence of the newest line that was begun */
    struct slot slots[LOG_RING_LINES];
};

static struct ring_file *joined; /* of this process; NULL: none */
static char joined_as[16];

static bool layout_matches(const struct ring_file *f)
{
    return f->magic == MAGIC && f->version == VERSION && f->size == sizeof *f;
}

/* The caller holds the lock. Another layout is replaced, never cut short: others may have it mapped. */
static bool prepare(int fd, bool *usable)
{
    struct {
        uint32_t magic, version;
        uint64_t size;
    } head = {MAGIC, VERSION, sizeof(struct ring_file)}, found = {0};
    struct stat st;
    if (fstat(fd, &st) != 0)
        return false;
    if (st.st_size == 0) {
        *usable = true;
        return file_allocate(fd, sizeof(struct ring_file), NULL) && pwrite(fd, &head, sizeof head, 0) == (ssize_t)sizeof head;
    }
    *usable = st.st_size == (off_t)sizeof(struct ring_file) && pread(fd, &found, sizeof found, 0) == (ssize_t)sizeof found &&
              !memcmp(&found, &head, sizeof head);
    return true;
}

static struct ring_file *map_file(const char *path, struct err *e)
{
    for (int attempt = 0; attempt < 3; attempt++) {
        bool usable = false;
        int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0660);
        if (fd < 0)
            break;
        bool ok = flock(fd, LOCK_EX) == 0 && prepare(fd, &usable);
        if (ok && !usable)
            unlink(path);
        flock(fd, LOCK_UN);
        struct ring_file *f = ok && usable ? mmap(NULL, sizeof *f, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : MAP_FAILED;
        close(fd);
        if (f != MAP_FAILED)
            return f;
    }
    err_errno(e, "%s", path);
    return NULL;
}

static void put(enum log_level level, const char *module, const char *text, size_t len)
{
    const uint64_t sequence = atomic_fetch_add(&joined->head, 1) + 1;
    struct slot *s = &joined->slots[sequence % LOG_RING_LINES];
    atomic_store(&s->sequence, 0);
    s->line.sequence = sequence;
    s->line.at_ms = clock_wall_ms();
    s->line.pid = getpid();
    s->line.level = (int32_t)level;
    memcpy(s->line.program, joined_as, sizeof s->line.program);
    snprintf(s->line.module, sizeof s->line.module, "%s", module);
    size_t n = len < sizeof s->line.text - 1 ? len : sizeof s->line.text - 1;
    while (n < len && n && ((unsigned char)text[n] & 0xc0) == 0x80) /* no half of a character */
        n--;
    memcpy(s->line.text, text, n);
    s->line.text[n] = '\0';
    atomic_store(&s->sequence, sequence);
}

bool log_ring_join(const char *path, const char *program, struct err *e)
{
    struct ring_file *f = map_file(path, e);
    if (!f)
        return false;
    snprintf(joined_as, sizeof joined_as, "%s", program);
    joined = f;
    log_set_sink(put);
    return true;
}

static bool copy_line(const struct slot *s, uint64_t sequence, struct log_ring_line *out)
{
    if (atomic_load(&s->sequence) != sequence)
        return false;
    memcpy(out, &s->line, sizeof *out);
    atomic_thread_fence(memory_order_acquire);
    out->program[sizeof out->program - 1] = out->module[sizeof out->module - 1] = out->text[LOG_RING_TEXT - 1] = '\0';
    return atomic_load(&s->sequence) == sequence && out->sequence == sequence;
}

int log_ring_read(const char *path, uint64_t after, enum log_level level, struct log_ring_line *out, int max, uint64_t *next)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC), n = 0;
    struct ring_file *f = MAP_FAILED;
    *next = after;
    if (fd >= 0 && fstat(fd, &st) == 0 && st.st_size == (off_t)sizeof *f)
        f = mmap(NULL, sizeof *f, PROT_READ, MAP_SHARED, fd, 0);
    if (fd >= 0)
        close(fd);
    if (f == MAP_FAILED)
        return 0;
    const uint64_t head = layout_matches(f) ? atomic_load(&f->head) : 0;
    if (after > head) /* another file than the caller read before */
        after = 0;
    uint64_t i = head > LOG_RING_LINES && after < head - LOG_RING_LINES ? head - LOG_RING_LINES : after;
    while (i < head && n < max) {
        i++;
        n += copy_line(&f->slots[i % LOG_RING_LINES], i, &out[n]) && out[n].level <= (int32_t)level;
    }
    *next = i;
    munmap(f, sizeof *f);
    return n;
}
