/* upstream_status.h: a small JSON file that is replaced as a whole. */
#include "fcgi/upstreams/upstream_status.h"

#include "engine/base/file.h"
#include "engine/base/json/json.h"
#include "fcgi/process/state.h"

#define MAX_BYTES ((size_t)4 << 20)

cJSON *upstream_status_read(const char *run_dir)
{
    char path[4096];
    struct err ignored;
    return file_join(path, sizeof path, run_dir, STATE_UPSTREAMS, &ignored)
               ? json_parse_file(path, MAX_BYTES, &ignored)
               : NULL;
}

const cJSON *upstream_status_of(const cJSON *status, int64_t id)
{
    const cJSON *u;
    cJSON_ArrayForEach (u, json_member(status, "upstreams")) {
        const cJSON *own = json_member(u, "id");
        if (cJSON_IsNumber(own) && (int64_t)own->valuedouble == id)
            return u;
    }
    return NULL;
}
