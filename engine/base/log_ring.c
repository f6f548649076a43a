/* The shared ring of log lines: each writer claims a place by an atomic counter and marks it as
 * complete when its line is whole, so that no lock is held if a process is killed. */
#include "engine/base/log_ring.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/hash.h"
#include "engine/base/mapped_file.h"

/* A line is whole when its hash says so: a writer that the others overtook by a whole ring while it
 * copied its line here can still spoil a newer one. */
struct slot {
    _Atomic uint64_t state; /* twice the sequence of the line here, one more while it is being
                               copied; 0: none yet */
    uint64_t hash;          /* of `line` */
    struct log_ring_line line;
};

struct ring_file {
    struct mapped_header head;
    _Atomic uint64_t newest; /* sequence of the line that was begun last */
    struct slot slots[LOG_RING_LINES];
};

static const struct mapped_header layout = {
    .magic = 0x474f4c53u, .version = 2, .size = sizeof(struct ring_file)};
static struct ring_file *joined; /* of this process; NULL: none */
static char joined_as[16];

static void compose(struct log_ring_line *line, enum log_level level, const char *module,
                    const char *text, size_t len)
{
    *line =
        (struct log_ring_line){.at_ms = clock_wall_ms(), .pid = getpid(), .level = (int32_t)level};
    memcpy(line->program, joined_as, sizeof line->program);
    snprintf(line->module, sizeof line->module, "%s", module);
    size_t n = len < sizeof line->text - 1 ? len : sizeof line->text - 1;
    while (n < len && n && ((unsigned char)text[n] & 0xc0) == 0x80) /* no half of a character */
        n--;
    memcpy(line->text, text, n);
}

static void put(enum log_level level, const char *module, const char *text, size_t len)
{
    struct log_ring_line line;
    compose(&line, level, module, text, len);
    line.sequence = atomic_fetch_add(&joined->newest, 1) + 1;
    struct slot *s = &joined->slots[line.sequence % LOG_RING_LINES];
    uint64_t copying = 2 * line.sequence + 1, found = atomic_load(&s->state);
    do
        if (found > copying) /* overtaken: this line is among those that make room */
            return;
    while (!atomic_compare_exchange_weak(&s->state, &found, copying));
    s->hash = hash64(&line, sizeof line, 0);
    s->line = line;
    atomic_compare_exchange_strong(&s->state, &copying, 2 * line.sequence);
}

bool log_ring_attach(const char *path, const char *program, struct err *e)
{
    struct ring_file *f = mapped_file_open(path, layout, 0660, e);
    if (!f)
        return false;
    snprintf(joined_as, sizeof joined_as, "%s", program);
    joined = f;
    log_set_sink(put);
    return true;
}

static bool copy_line(const struct slot *s, uint64_t sequence, struct log_ring_line *out)
{
    if (atomic_load(&s->state) != 2 * sequence)
        return false;
    const uint64_t hash = s->hash;
    memcpy(out, &s->line, sizeof *out);
    return out->sequence == sequence && hash64(out, sizeof *out, 0) == hash;
}

int log_ring_read(const struct log_ring_query *q, struct log_ring_line *out, uint64_t *next)
{
    uint64_t after = q->after;
    const struct ring_file *f = mapped_file_open_readonly(q->path, layout);
    int n = 0;
    *next = after;
    if (!f)
        return 0;
    const uint64_t head = atomic_load(&f->newest);
    if (after > head) /* another file than the caller read before */
        after = 0;
    uint64_t i =
        head > LOG_RING_LINES && after < head - LOG_RING_LINES ? head - LOG_RING_LINES : after;
    while (i < head && n < q->max) {
        i++;
        n += copy_line(&f->slots[i % LOG_RING_LINES], i, &out[n]) &&
             out[n].level <= (int32_t)q->level;
    }
    *next = i;
    munmap((void *)f, sizeof *f);
    return n;
}
