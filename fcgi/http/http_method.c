/* route.h: the names of HTTP's methods and their numbers here. */
#include <string.h>

#include "fcgi/http/route.h"

static const char *const names[] = {"GET",   "HEAD",   "POST",    "PUT",
                                    "PATCH", "DELETE", "OPTIONS", "OTHER"};

enum http_method http_method_from_name(const char *name)
{
    int m = 0;
    while (m < HTTP_OTHER && strcmp(names[m], name))
        m++;
    return (enum http_method)m;
}

const char *http_method_name(enum http_method m)
{
    return names[m];
}
