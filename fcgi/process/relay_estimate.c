/* relay_estimate.h: looks for the members that hold images. Inside a string a quote is escaped, so
 * that no text can look like one. */
#include "fcgi/process/relay_estimate.h"

#include <stdbool.h>
#include <string.h>

static bool follows(const char *request, const char *at, const char *name)
{
    const size_t n = strlen(name);
    return (size_t)(at - request) >= n && !memcmp(at - n, name, n);
}

int64_t relay_estimate(const char *request, size_t len)
{
    static const char member[] = "url\":\"data:";
    const char *at = request, *const stop = request + len, *image;
    size_t left_out = 0;
    int64_t images = 0;
    while (at < stop && (image = memmem(at, (size_t)(stop - at), member, sizeof member - 1))) {
        const char *data = image + sizeof member - 1,
                   *end = memchr(data, '"', (size_t)(stop - data));
        at = data;
        if (!end || (!follows(request, image, "\"") && !follows(request, image, "\"image_")))
            continue;
        left_out += (size_t)(end - data);
        images++;
        at = end;
    }
    return (int64_t)((len - left_out) / 4) + 1 + images * RELAY_IMAGE_TOKENS;
}
