/* throttle.h: an attempt counts against three subjects, and the longest wait of the three holds. */
#include "fcgi/auth/throttle.h"

#include <arpa/inet.h>
#include <stdatomic.h>
#include <string.h>

#include "engine/base/hash.h"
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
};

static uint64_t hash_address(const char *address, uint64_t seed)
{
    struct in6_addr six;
    if (inet_pton(AF_INET6, address, &six) == 1)
        return hash64(&six, IN6_IS_ADDR_V4MAPPED(&six) ? sizeof six : sizeof six / 2, seed);
    return hash64(address, strlen(address), seed);
}

static void make_keys(struct request *r, enum throttle_kind kind, const char *subject,
                      struct throttle *t)
{
    char lower[256];
    size_t n = 0;
    const uint64_t seed = (uint64_t)kind * 4;
    for (; subject[n] && n < sizeof lower; n++)
        lower[n] = subject[n] >= 'A' && subject[n] <= 'Z' ? (char)(subject[n] | 0x20) : subject[n];
    uint64_t address = hash_address(request_remote(r), seed + 1);
    const uint64_t all[3] = {hash64(lower, n, address), address, hash64(lower, n, seed + 2)};
    for (int i = 0; i < 3; i++)
        t->keys[i] = free_attempts[kind][i] < 0 ? 0 : all[i] ? all[i] : 1;
}

bool throttle_enter(struct request *r, enum throttle_kind kind, const char *subject,
                    struct throttle *t, struct err *e)
{
    struct shared *s = r->worker->shared;
    int64_t wait = 0;
    make_keys(r, kind, subject, t);
    for (int i = 0; i < 3; i++) {
        int64_t one = t->keys[i] ? shared_throttle_wait(s, t->keys[i], free_attempts[kind][i]) : 0;
        wait = one > wait ? one : wait;
    }
    if (wait <= 0) {
        for (int i = 0; i < 3; i++)
            if (t->keys[i])
                shared_throttle_fail(s, t->keys[i]);
        return true;
    }
    atomic_fetch_add_explicit(&s->login_throttled, 1, memory_order_relaxed);
    r->error_override.status = 429;
    r->error_override.code = "too_many_attempts";
    r->error_override.retry_after_s = (int)(wait / 1000) + 1;
    return err_set(e, ERR_LIMIT, "too many attempts; try again in %d s",
                   r->error_override.retry_after_s);
}

void throttle_forgive(struct request *r, const struct throttle *t)
{
    struct shared *s = r->worker->shared;
    for (int i = 0; i < 3; i++) {
        if (!t->keys[i])
            continue;
        if (i == BY_PAIR)
            shared_throttle_clear(s, t->keys[i]);
        else
            shared_throttle_undo(s, t->keys[i]);
    }
}
