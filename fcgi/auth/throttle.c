/* throttle.h: an attempt counts against three subjects, and the longest wait of the three holds. */
#include "fcgi/auth/throttle.h"

#include <stdatomic.h>
#include <string.h>

#include "fcgi/http/client_address.h"
#include "fcgi/http/request.h"
#include "fcgi/process/shared.h"
#include "fcgi/process/worker.h"

enum { BY_PAIR, BY_ADDRESS, BY_SUBJECT };

/* Free attempts; -1: not counted that way. A name from anywhere has many, or strangers could lock a
 * user out; a code's account has few: only who knows the password comes there. */
static const int free_attempts[THROTTLE__N][3] = {
    [THROTTLE_LOGIN] = {5, 20, 100},
    [THROTTLE_CODE] = {-1, -1, 10},
    [THROTTLE_SIGN_UP] = {-1, 20, -1},
    [THROTTLE_PASSKEY] = {-1, 20, -1},
};

_Static_assert(THROTTLE__N == SHARED_THROTTLE_TABLES, "each kind has a table of its own");

/* What a subject is known by: which way of counting it is, the address, the lower-cased name. */
struct label {
    unsigned char bytes[512];
    size_t len;
};

static void add_bytes(struct label *l, const void *data, size_t len)
{
    const size_t room = sizeof l->bytes - l->len;
    memcpy(l->bytes + l->len, data, len < room ? len : room);
    l->len += len < room ? len : room;
}

static void add_address(struct label *l, const struct request *r)
{
    unsigned char address[CLIENT_ADDRESS_BYTES];
    add_bytes(l, address, client_address(r, address));
    add_bytes(l, "", 1); /* or an address and a name could be taken for another pair */
}

static void add_name(struct label *l, const char *name)
{
    for (size_t i = 0; name[i] && i < 256; i++)
        add_bytes(l, &(char){name[i] >= 'A' && name[i] <= 'Z' ? (char)(name[i] | 0x20) : name[i]},
                  1);
}

static void take_subjects(struct request *r, enum throttle_kind kind, const char *name,
                          struct throttle *t)
{
    for (unsigned char by = 0; by < 3; by++) {
        struct label l = {.bytes = {by}, .len = 1};
        if (by != BY_SUBJECT)
            add_address(&l, r);
        if (by != BY_ADDRESS)
            add_name(&l, name);
        const int free_failures = free_attempts[kind][by];
        t->by[by] = (struct shared_throttle_subject){
            .table = (int)kind,
            .key = free_failures < 0 ? 0 : shared_throttle_hash(r->worker->shared, l.bytes, l.len),
            .free_failures = free_failures};
    }
}

/* Counts all of them or none. */
static bool count_all(struct shared *s, const struct throttle *t)
{
    for (int i = 0; i < 3; i++) {
        if (!t->by[i].key || shared_throttle_fail(s, &t->by[i]))
            continue;
        while (i-- > 0)
            if (t->by[i].key)
                shared_throttle_undo(s, &t->by[i]);
        return false;
    }
    return true;
}

bool throttle_enter(struct request *r, enum throttle_kind kind, const char *subject,
                    struct throttle *t, struct err *e)
{
    struct shared *s = r->worker->shared;
    int64_t wait = 0;
    take_subjects(r, kind, subject, t);
    for (int i = 0; i < 3; i++) {
        int64_t one = t->by[i].key ? shared_throttle_wait(s, &t->by[i]) : 0;
        wait = one > wait ? one : wait;
    }
    if (wait <= 0 && count_all(s, t))
        return true;
    if (wait <= 0) /* guesses of others, each of whom waits, have all its places */
        wait = SHARED_THROTTLE_MAX_MS;
    atomic_fetch_add_explicit(&s->login_throttled, 1, memory_order_relaxed);
    r->error_override.status = 429;
    r->error_override.code = "too_many_attempts";
    r->error_override.retry_after_s = (int)(wait / 1000) + 1;
    err_set(e, ERR_LIMIT, "too many attempts; try again in %d s", r->error_override.retry_after_s);
    return err_param(e, "seconds", r->error_override.retry_after_s);
}

void throttle_forgive(struct request *r, const struct throttle *t)
{
    struct shared *s = r->worker->shared;
    for (int i = 0; i < 3; i++) {
        if (!t->by[i].key)
            continue;
        if (i == BY_PAIR)
            shared_throttle_clear(s, &t->by[i]);
        else
            shared_throttle_undo(s, &t->by[i]);
    }
}
