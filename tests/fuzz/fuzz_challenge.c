/* A WWW-Authenticate header as a tool server may send it. Whatever is read of it is plain text that
 * fits, and scopes are words with single blanks between. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "fcgi/oauth/oauth_challenge.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const char *text, size_t size)
{
    const size_t n = strnlen(text, size);
    if (n == size)
        abort();
    for (size_t i = 0; i < n; i++)
        if (text[i] < 0x20 || text[i] > 0x7e)
            abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct oauth_challenge c;
    char joined[OAUTH_SCOPE], *header = malloc(size + 1);
    if (!header)
        abort();
    memcpy(header, data, size);
    header[size] = '\0';
    oauth_challenge_read(header, &c);
    check(c.metadata, sizeof c.metadata);
    check(c.scope, sizeof c.scope);
    check(c.error, sizeof c.error);
    if ((c.metadata[0] || c.scope[0] || c.error[0]) && !c.bearer)
        abort();
    oauth_scope_join(header, c.scope, joined);
    check(joined, sizeof joined);
    if (strstr(joined, "  ") || joined[0] == ' ')
        abort();
    free(header);
    return 0;
}
