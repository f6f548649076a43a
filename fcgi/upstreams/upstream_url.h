/* What an upstream's address may be. No state; any thread. */
#pragma once
#include <stddef.h>

#include "engine/base/err.h"

#define UPSTREAM_URL_BYTES 512

/* http or https with a host, perhaps a port and a path; without a user, a query, a fragment or
 * blanks. Any host: an admin names it, also one of this network. out: without slashes at its end.
 * ERR_INPUT, the field "url". */
bool upstream_url_read(const char *url, char out[UPSTREAM_URL_BYTES + 1], struct err *e);
