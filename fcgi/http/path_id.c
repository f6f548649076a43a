/* One strict reader for all ids: "+5" or "05" beside "5" would be several URLs of one resource. */
#include "fcgi/http/path_id.h"

#include <stdlib.h>
#include <string.h>

#include "fcgi/http/request.h"

#define DIGITS_MAX 18 /* whatever they are, they fit an int64_t */

bool path_id_parse(const char *text, int64_t *id)
{
    size_t n = text ? strlen(text) : 0;
    if (!n || n > DIGITS_MAX || *text == '0' || strspn(text, "0123456789") != n)
        return false;
    *id = strtoll(text, NULL, 10);
    return true;
}

bool path_id_param(const struct request *r, const char *name, int64_t *id, struct err *e)
{
    return path_id_parse(request_param(r, name), id) ||
           err_set(e, ERR_NOTFOUND, "there is no such thing");
}
