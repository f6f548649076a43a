/* shared.h: one mapped file; no locks, so that a process killed at any point leaves nothing held.
 */
#include "fcgi/process/shared.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "sql/core/secret.h"

const char *worker_pool_name(enum worker_pool p)
{
    static const char *const names[POOL__N] = {[POOL_SHORT] = "short",
                                               [POOL_STREAM] = "stream",
                                               [POOL_RECORD] = "record",
                                               [POOL_RELAY] = "relay"};
    return names[p];
}

#define SHARED_MAGIC 0x53574b31u
#define SHARED_VERSION 14
#define THROTTLE_PROBES 8
#define THROTTLE_FORGET_MS ((int64_t)15 * 60 * 1000)

const double shared_bounds[SHARED_BUCKETS - 1] = {
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1,
    0.25,   0.5,     1,      2.5,   5,      10,    30,   120,   600};

/* The statuses that the workers send; the last column takes any other. */
static const int statuses[SHARED_STATUSES] = {200, 201, 202, 204, 301, 304, 400, 401, 403,
                                              404, 405, 408, 409, 411, 413, 415, 429, 431,
                                              499, 500, 501, 503, 504, 507, 508, 0};

/* Of processes that open a new file at once the first one's words hold for all. */
static bool draw_numbers(struct shared *s, struct err *e)
{
    _Atomic uint64_t *const drawn[3] = {&s->throttle_key[0], &s->throttle_key[1], &s->via_id};
    for (int i = 0; i < 3; i++) {
        uint64_t none = 0, word;
        if (getrandom(&word, sizeof word, 0) != sizeof word)
            return err_errno(e, "random numbers");
        atomic_compare_exchange_strong(drawn[i], &none, word | 1);
    }
    return true;
}

struct shared *shared_open(const char *path, struct err *e)
{
    const struct mapped_header layout = {
        .magic = SHARED_MAGIC, .version = SHARED_VERSION, .size = sizeof(struct shared)};
    struct shared *s = mapped_file_open(path, layout, 0660, e);
    if (s && !draw_numbers(s, e))
        shared_close(&s);
    return s;
}

void shared_close(struct shared **s)
{
    if (*s)
        munmap(*s, sizeof **s);
    *s = NULL;
}

void shared_observe(struct shared_histogram *h, uint64_t ns)
{
    double seconds = (double)ns / 1e9;
    int i = 0;
    while (i < SHARED_BUCKETS - 1 && seconds > shared_bounds[i])
        i++;
    atomic_fetch_add_explicit(&h->count[i], 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&h->sum_ns, ns, memory_order_relaxed);
}

int shared_status_at(int column)
{
    return statuses[column];
}

void shared_count_request(struct shared *s, int route, int status)
{
    int row = route >= 0 && route < SHARED_ROUTES - 1 ? route : SHARED_ROUTES - 1;
    int column = 0;
    while (column < SHARED_STATUSES - 1 && statuses[column] != status)
        column++;
    atomic_fetch_add_explicit(&s->requests[row][column], 1, memory_order_relaxed);
}

uint64_t shared_throttle_hash(const struct shared *s, const void *data, size_t len)
{
    const uint64_t words[2] = {s->throttle_key[0], s->throttle_key[1]};
    unsigned char key[SECRET_HASH_KEY_BYTES];
    memcpy(key, words, sizeof key);
    uint64_t hash = secret_keyed_hash(key, data, len);
    return hash ? hash : 1;
}

/* Its guesses wait, or did a while ago. */
static bool is_over(const struct shared_throttle *t, int64_t now)
{
    return t->key && t->failures >= t->free_failures && now - t->last_ms <= THROTTLE_FORGET_MS;
}

/* The subject's row. NULL: there is none. */
static struct shared_throttle *find_row(struct shared *s, const struct shared_throttle_subject *t)
{
    for (uint64_t i = 0; i < THROTTLE_PROBES; i++) {
        struct shared_throttle *row = &s->throttle[t->table][(t->key + i) % SHARED_THROTTLES];
        if (row->key == t->key)
            return row;
    }
    return NULL;
}

/* Makes one over the stalest of its places that does not wait. Two processes may race for a place:
 * one of the two loses a count, which is harmless. */
static struct shared_throttle *make_row(struct shared *s, const struct shared_throttle_subject *t)
{
    const int64_t now = clock_wall_ms();
    struct shared_throttle *stalest = NULL;
    for (uint64_t i = 0; i < THROTTLE_PROBES; i++) {
        struct shared_throttle *row = &s->throttle[t->table][(t->key + i) % SHARED_THROTTLES];
        if (!is_over(row, now) && (!stalest || row->last_ms < stalest->last_ms))
            stalest = row;
    }
    if (stalest) {
        stalest->key = t->key;
        stalest->failures = 0;
        stalest->free_failures = (uint32_t)t->free_failures;
    }
    return stalest;
}

int64_t shared_throttle_wait(struct shared *s, const struct shared_throttle_subject *t)
{
    struct shared_throttle *row = find_row(s, t);
    if (!row)
        return 0;
    int64_t since = clock_wall_ms() - row->last_ms;
    int over = (int)row->failures - t->free_failures;
    if (over < 0 || since > THROTTLE_FORGET_MS)
        return 0;
    int64_t wait = over > 6 ? SHARED_THROTTLE_MAX_MS : (int64_t)1000 << over;
    return since >= 0 && since < wait ? wait - since : 0;
}

bool shared_throttle_fail(struct shared *s, const struct shared_throttle_subject *t)
{
    struct shared_throttle *row = find_row(s, t);
    if (!row)
        row = make_row(s, t);
    if (!row)
        return false;
    int64_t now = clock_wall_ms();
    if (now - row->last_ms > THROTTLE_FORGET_MS)
        row->failures = 0;
    row->last_ms = now;
    atomic_fetch_add_explicit(&row->failures, 1, memory_order_relaxed);
    return true;
}

void shared_throttle_undo(struct shared *s, const struct shared_throttle_subject *t)
{
    struct shared_throttle *row = find_row(s, t);
    uint32_t n = row ? atomic_load(&row->failures) : 0;
    while (n && !atomic_compare_exchange_weak(&row->failures, &n, n - 1)) {
    }
}

void shared_throttle_clear(struct shared *s, const struct shared_throttle_subject *t)
{
    struct shared_throttle *row = find_row(s, t);
    if (row)
        row->failures = 0;
}

/* The 22nd field of /proc/PID/stat; the second is a name in brackets, which may hold anything. 0:
 * there is no such process. */
int64_t shared_process_born(pid_t pid)
{
    char path[32], text[1024];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, text, sizeof text - 1) : 0;
    if (fd >= 0)
        close(fd);
    text[n > 0 ? n : 0] = '\0';
    const char *at = strrchr(text, ')');
    for (int field = 2; at && field < 22; field++)
        at = strchr(at + 1, ' ');
    return at ? strtoll(at, NULL, 10) : 0;
}

bool shared_process_gone(pid_t pid, int64_t born)
{
    return pid <= 0 || (kill(pid, 0) != 0 && errno == ESRCH) || shared_process_born(pid) != born;
}

void shared_rows_inherit(struct shared_pool *board)
{
    for (int i = 0; i < SHARED_CHILDREN; i++) {
        struct shared_child *c = &board->child[i];
        if (c->pid > 0)
            c->orphan = c->pid;
        c->pid = 0;
        c->state = CHILD_NONE;
    }
    shared_rows_settle(board);
}

void shared_rows_settle(struct shared_pool *board)
{
    for (int i = 0; i < SHARED_CHILDREN; i++) {
        struct shared_child *c = &board->child[i];
        if (c->orphan && shared_process_gone(c->orphan, c->born))
            c->orphan = 0;
        if (c->pid == 0) /* whatever such a process wrote into it just before it went */
            c->state = CHILD_NONE;
    }
}

bool shared_row_vacant(const struct shared_child *c)
{
    return c->state == CHILD_NONE && !c->orphan;
}

bool shared_row_claim(struct shared_child *c, pid_t mine)
{
    int32_t owner = 0;
    if (!atomic_compare_exchange_strong(&c->pid, &owner, (int32_t)mine) && owner != (int32_t)mine)
        return false;
    c->born = shared_process_born(mine);
    c->waits_local = 0; /* of one that was killed */
    return true;
}
