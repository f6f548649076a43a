/* cache_scope.h: a scope is the user's id, what the caller may not read, and the hash of a salt,
 * which may be of any length. */
#include "fcgi/inference/cache_scope.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/hash.h"
#include "fcgi/http/request.h"
#include "fcgi/http/route.h"

void cache_scope_name(char *out, size_t size, const struct request *r, const char *salt)
{
    const bool apart = r->who.by != AUTH_SESSION && !(r->who.terms.scopes & SCOPE_HISTORY);
    const int n = snprintf(out, size, "u%lld%s", (long long)r->who.user_id, apart ? "i" : "");
    if (salt && *salt)
        snprintf(out + n, size - (size_t)n, ":%016llx",
                 (unsigned long long)hash64(salt, strlen(salt), 0));
}
