/* serve.h: one struct request for each thread, used for one connection after the other. */
#include "fcgi/http/serve.h"

#include <stdlib.h>

#include "fcgi/http/request.h"
#include "fcgi/http/route.h"
#include "sql/core/store.h"

void *serve_open(struct FCGX_Request *fcgx, const struct worker *w,
                 const struct child_params *alone)
{
    struct request *r = calloc(1, sizeof *r);
    if (r && request_init(r, fcgx, w)) {
        r->child = alone;
        r->slot = alone ? alone->slot : NULL;
        return r;
    }
    free(r);
    return NULL;
}

void serve_request(void *server, struct store *store)
{
    struct request *r = server;
    struct err e = {0};
    if (store)
        store_access_leave(store);
    bool ok = request_begin(r, store, &e);
    route_serve(r, ok ? NULL : &e);
    request_end(r);
}

void serve_close(void *server)
{
    request_fini(server);
    free(server);
}
