/* dialect.h: which dialect a request speaks. */
#include "fcgi/http/dialect.h"

#include <string.h>

#include "fcgi/http/reply.h"
#include "fcgi/http/request.h"

const struct api_dialect dialect_default = {
    .error = reply_error_object,
    .stream_abort = {.close_event = DIALECT_SSE_CLOSE,
                     .error_event = DIALECT_ERROR_EVENT "data: [DONE]\n\n"},
};

/* Is the path the row's, or one below it? */
static bool lies_under(const char *path, const char *row)
{
    size_t n = strlen(row);
    return !strncmp(path, row, n) && (!path[n] || path[n] == '/');
}

const struct api_dialect *dialect_of(const struct request *r)
{
    if (r->route)
        return r->route->dialect ? r->route->dialect : &dialect_default;
    const struct route *row;
    for (int i = 0; r->path && (row = route_at(i)); i++)
        if (row->dialect && lies_under(r->path, row->path))
            return row->dialect;
    return &dialect_default;
}

int dialect_index(const struct api_dialect *d)
{
    for (int i = 0; api_dialects[i]; i++)
        if (api_dialects[i] == d)
            return i;
    return 0;
}

const struct stream_abort_text *dialect_stream_abort(int index)
{
    int n = 0;
    while (api_dialects[n])
        n++;
    return &api_dialects[index >= 0 && index < n ? index : 0]->stream_abort;
}
