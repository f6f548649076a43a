/* log_ring.h */
#include "engine/base/log_ring.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/mapped_file.h"


struct slot {
    _Atomic uint64_t sequence; /* of the line that is whole here; 0 while one is written */
    struct log_ring_line line;
};

struct ring_file {
    struct mapped_head head;
    _Atomic uint64_t newest; /* sequence of the line that was begun last */
    struct slot slots[LOG_RING_LINES];
};

static const struct mapped_head layout = {.magic = 0x474f4c53u, .version = 1, .size = sizeof(struct ring_file)};
static struct ring_file *joined; /* of this process; NULL: none */
static char joined_as[16];

static void put(enum log_level level, const char *module, const char *text, size_t len)
{
    const uint64_t sequence = atomic_fetch_add(&joined->newest, 1) + 1;
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
    if (atomic_load(&s->sequence) != sequence)
        return false;
    memcpy(out, &s->line, sizeof *out);
    atomic_thread_fence(memory_order_acquire);
    out->program[sizeof out->program - 1] = out->module[sizeof out->module - 1] = out->text[LOG_RING_TEXT - 1] = '\0';
    return atomic_load(&s->sequence) == sequence && out->sequence == sequence;
}

int log_ring_read(const char *path, uint64_t after, enum log_level level, struct log_ring_line *out, int max, uint64_t *next)
{
    const struct ring_file *f = mapped_file_look(path, layout);
    int n = 0;
    *next = after;
    if (!f)
        return 0;
    const uint64_t head = atomic_load(&f->newest);
    if (after > head) /* another file than the caller read before */
        after = 0;
    uint64_t i = head > LOG_RING_LINES && after < head - LOG_RING_LINES ? head - LOG_RING_LINES : after;
    while (i < head && n < max) {
        i++;
        n += copy_line(&f->slots[i % LOG_RING_LINES], i, &out[n]) && out[n].level <= (int32_t)level;
    }
    *next = i;
    munmap((void *)f, sizeof *f);
    return n;
}
