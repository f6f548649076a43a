/* Which servers of this kind a request for another server's answer came through, so that upstreams
 * that ask each other in a circle are found out at the first round. Each is known by a number that
 * it drew itself and that says nothing of it; on the way it is HTTP's header Via, "1.1
 * sluice-0123456789abcdef", of which other proxies' entries are left out. Workers read it, the
 * relay adds its own. */
#pragma once
#include <stdbool.h>

#include "engine/base/err.h"
#include "engine/engine.h"

struct shared;

#define RELAY_VIA_MOST 16 /* servers: a longer way is taken for a circle */

/* header: of the request, NULL: none. Out: its entries of this kind. ERR_UNAVAILABLE with the
 * reason "upstream_loop": we are one of them, or they are too many. */
bool relay_via_read(char out[ENGINE_VIA_SIZE], const char *header, const struct shared *s,
                    struct err *e);
/* The value to send: what it came through, and this server. */
void relay_via_put(char out[ENGINE_VIA_SIZE], const char *via, const struct shared *s);
