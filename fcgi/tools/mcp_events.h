/* Server-sent events out of pieces that end anywhere: the data of each event, its lines joined.
 * Names, ids and comments are of no use here. Zeroed: empty; the owner calls mcp_events_fini. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "engine/base/buf.h"

struct mcp_events {
    struct buf line, data;
    bool any; /* a line of data came since the last event */
    bool (*event)(void *context, const char *data, size_t len); /* false: enough */
    void *context;
};

/* False: an event was enough, or there is no memory (which the buffers remember). */
bool mcp_events_feed(struct mcp_events *x, const char *bytes, size_t len);
void mcp_events_fini(struct mcp_events *x);
