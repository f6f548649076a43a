/* How the upstreams are, as the relay wrote it last (fcgi/relay/upstreams.h). Thread: the caller's.
 */
#pragma once
#include <cjson/cJSON.h>
#include <stdint.h>

/* The file's object, or NULL where there is none yet. Caller owns it. */
cJSON *upstream_status_read(const char *run_dir);
/* What it says of one upstream; NULL: nothing. */
const cJSON *upstream_status_of(const cJSON *status, int64_t id);
