/* The header WWW-Authenticate of a server that wants a token (RFC 6750, 3; RFC 9728, 5.1). It is
 * outside text: read within bounds, and believed in nothing. Pure. */
#pragma once
#include <stdbool.h>

#define OAUTH_URL 700   /* bytes of an address, with its NUL */
#define OAUTH_SCOPE 600 /* of scopes */

struct oauth_challenge {
    bool bearer;              /* a challenge of this scheme was among them */
    char metadata[OAUTH_URL]; /* resource_metadata; "": not said, or too long */
    char scope[OAUTH_SCOPE];  /* "": the same */
    char error[40];
};
/* header: one value, or several with commas between; NULL: none came. The first challenge of the
 * scheme Bearer counts. */
void oauth_challenge_read(const char *header, struct oauth_challenge *out);
/* Scopes that are no words of RFC 6749 are left out. All of a, then those of b that a lacks, as
 * long as they fit. */
void oauth_scope_join(const char *a, const char *b, char out[OAUTH_SCOPE]);
