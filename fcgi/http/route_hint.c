/* route.h: where a request that found nothing was meant to go. */
#include <stdio.h>
#include <string.h>

#include "engine/base/arena.h"
#include "fcgi/http/request.h"
#include "fcgi/http/route.h"

#define API "/v1"
#define MAX_HINT 200 /* longer paths are nobody's slip */

static bool is_path(struct request *r, const char *path)
{
    return route_find(r, r->method, path).allowed != 0;
}

const char *route_hint(struct request *r)
{
    char path[MAX_HINT + 1], under[sizeof API + MAX_HINT];
    size_t len = strlen(r->path);
    const char *found = NULL;
    if (len > MAX_HINT)
        return NULL;
    memcpy(path, r->path, len + 1);
    while (len > 1 && path[len - 1] == '/')
        path[--len] = '\0';
    /* Clients put their base URL before the path, and the base may have too much or too little. */
    for (const char *rest = path; rest && !found; rest = strchr(rest + 1, '/')) {
        snprintf(under, sizeof under, API "%s", rest);
        found = is_path(r, under) ? under : is_path(r, rest) ? rest : NULL;
    }
    return found ? arena_strdup(r->arena, found) : NULL;
}
