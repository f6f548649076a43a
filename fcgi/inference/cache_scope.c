/* cache_scope.h: a scope is the user's id, and the hash of a salt, which may be of any length. */
#include "fcgi/inference/cache_scope.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/hash.h"
#include "fcgi/http/request.h"

void cache_scope_name(char *out, size_t size, const struct request *r, const char *salt)
{
    if (salt && *salt)
        snprintf(out, size, "u%lld:%016llx", (long long)r->who.user_id,
                 (unsigned long long)hash64(salt, strlen(salt), 0));
    else
        snprintf(out, size, "u%lld", (long long)r->who.user_id);
}
