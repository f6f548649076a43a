/* relay_via.h: a list of names, separated by commas. */
#include "fcgi/process/relay_via.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "fcgi/process/shared.h"

#define ENTRY "1.1 sluice-"
#define ENTRY_BYTES (sizeof ENTRY - 1 + 16) /* with the number's digits */

static bool is_entry(const char *at, size_t len)
{
    return len == ENTRY_BYTES && !memcmp(at, ENTRY, sizeof ENTRY - 1) &&
           strspn(at + sizeof ENTRY - 1, "0123456789abcdef") >= 16;
}

static void own_entry(char out[ENTRY_BYTES + 1], const struct shared *s)
{
    snprintf(out, ENTRY_BYTES + 1, ENTRY "%016llx", (unsigned long long)atomic_load(&s->via_id));
}

static bool refuse(struct err *e)
{
    return err_set(e, ERR_UNAVAILABLE,
                   "the request has come back to this server: its upstreams and this server ask "
                   "each other in a circle") ||
           err_reason(e, "upstream_loop");
}

bool relay_via_read(char out[ENGINE_VIA_SIZE], const char *header, const struct shared *s,
                    struct err *e)
{
    char own[ENTRY_BYTES + 1];
    int n = 0;
    size_t used = 0;
    own_entry(own, s);
    out[0] = 0;
    for (const char *at = header ? header : ""; *at;) {
        at += strspn(at, ", \t");
        size_t len = strcspn(at, ","), stop = len;
        while (stop && (at[stop - 1] == ' ' || at[stop - 1] == '\t'))
            stop--;
        if (is_entry(at, stop)) {
            if (!memcmp(at, own, ENTRY_BYTES) || ++n > RELAY_VIA_MOST - 1)
                return refuse(e);
            used += (size_t)snprintf(out + used, ENGINE_VIA_SIZE - used, "%s%.*s",
                                     n > 1 ? ", " : "", (int)stop, at);
        }
        at += len;
    }
    return true;
}

void relay_via_put(char out[ENGINE_VIA_SIZE], const char *via, const struct shared *s)
{
    char own[ENTRY_BYTES + 1];
    own_entry(own, s);
    snprintf(out, ENGINE_VIA_SIZE, "%.*s%s%s", ENGINE_VIA_SIZE - (int)ENTRY_BYTES - 3, via,
             via[0] ? ", " : "", own);
}
