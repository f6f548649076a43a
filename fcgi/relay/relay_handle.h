/* libcurl's easy handles with what every request to an upstream has: TLS verified, no redirects, no
 * proxy, no variable of the environment, the upstream's key. One that a whole answer has ended with
 * serves the next request to the same address: making one costs as much as reading a piece. Owner:
 * the relay's thread. */
#pragma once
#include <curl/curl.h>
#include <stdbool.h>

#include "engine/engine.h"

struct upstream;

#define RELAY_HANDLES_KEPT 32 /* of an upstream */

struct relay_handle {
    CURL *easy;
    struct curl_slist *headers;
    char via[ENGINE_VIA_SIZE]; /* "": none is sent */
    const char *path;          /* of the upstream's dialect */
    unsigned made;             /* upstream.turn when its address and key were taken */
    struct relay_handle *next; /* of those kept */
};

/* path: a member of its dialect; via: a header's value, or NULL. NULL: no memory. */
struct relay_handle *relay_handle_take(struct upstream *to, const char *path, const char *via);
/* keep: it was used with relay_call's options only, and is in no multi handle. Nulls *h. */
void relay_handle_give(struct upstream *to, struct relay_handle **h, bool keep);
void relay_handles_close(struct upstream *to);
