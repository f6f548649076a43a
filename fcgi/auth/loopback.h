/* Requests without a key, from programs on this machine: the setting keys_optional_on_loopback
 * names the user as whom they are answered. They may run the model and nothing else. A page that a
 * browser on this machine shows must not become such a program, and neither may someone far away
 * behind a proxy that runs here. Thread: the request's. */
#pragma once
#include <stdbool.h>

#include "engine/base/err.h"

struct request;

/* Is the setting on? A placeholder in a key's place counts as no key then. */
bool loopback_on(const struct request *r);
/* Could this text be one of this server's keys? Clients that need one send words such as "none". */
bool loopback_is_key(const char *text);
/* Fills r->who. ERR_AUTH says what is missing. Call it when there is neither key nor session, and
 * the setting is on. */
bool loopback_identify(struct request *r, struct err *e);
