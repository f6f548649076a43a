/* Throttles guessing: attempts are counted in memory that all workers share and that outlives them,
 * per name and address, per address and per name. After a number of free attempts the wait doubles
 * with each attempt, up to a minute.
 *
 * An attempt is counted before it is checked and forgiven when it was right, so a hundred
 * simultaneous guesses count as a hundred. Unknown names are counted like known ones. IPv6
 * addresses count by their /64, which one client owns. Each kind has a table of its own, under
 * hashes that strangers can't compute; a row that must wait is never pushed out. Thread: the
 * request's. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/err.h"
#include "fcgi/process/shared.h"

struct request;

enum throttle_kind {
    THROTTLE_LOGIN,   /* name and password */
    THROTTLE_CODE,    /* second factors of an account; its password was right */
    THROTTLE_SIGN_UP, /* invitations and new accounts */
    THROTTLE_PASSKEY, /* answers of authenticators; what is guessed at is nothing that anyone could
                         guess */
    THROTTLE__N
};

struct throttle {
    struct shared_throttle_subject by[3]; /* key 0: not counted that way */
};

/* Counts an attempt. subject: what is guessed at (a login's name, an account's id), or "" for the
 * address alone. False: 429 with Retry-After; then nothing was counted. */
bool throttle_enter(struct request *r, enum throttle_kind kind, const char *subject,
                    struct throttle *t, struct err *e);
/* It was right: the subject's attempts from here are forgotten, the others' counts lose this one.
 */
void throttle_forgive(struct request *r, const struct throttle *t);
