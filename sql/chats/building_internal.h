/* A conversation that is made in several transactions, between which others write. It counts as
 * deleted, at a time to come, until the last of them shows it: nobody sees it before, and when that
 * time has come, because its maker was killed, the recorder clears it away. Inside sql/ only; all
 * but building_give_up within a write transaction of the caller. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/err.h"

struct store;

#define BUILDING_MESSAGES 300               /* that one transaction writes ... */
#define BUILDING_BYTES ((int64_t)256 << 10) /* ... with this much text, about */

struct building {
    struct store *s;
    int64_t user_id, id;
    int64_t storage_bytes; /* that the user may keep in all, this with it; 0: no limit */
};

/* Unix ms: until when the maker counts as alive, from now on. */
int64_t building_until(void);
/* Ends a transaction that is not the last one. ERR_BUSY: it was given up meanwhile. */
bool building_go_on(const struct building *b, struct err *e);
/* Ends the last one: the conversation is there from now on. leaf_id 0: it has no message. */
bool building_show(const struct building *b, int64_t leaf_id, struct err *e);
/* In a transaction of its own: the recorder may clear it away at once. */
void building_give_up(const struct building *b);
