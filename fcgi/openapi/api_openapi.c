/* GET /openapi.json: the API's description, for clients and tools. Open: it holds nothing of
 * anyone. */
#include "fcgi/http/reply.h"
#include "fcgi/http/request.h"
#include "fcgi/openapi/openapi.h"

static bool describe(struct request *r, struct err *e)
{
    cJSON *doc = openapi_document(e);
    if (!doc)
        return false;
    reply_json(r, 200, doc);
    cJSON_Delete(doc);
    return true;
}

const struct route api_openapi_routes[] = {
    {.method = HTTP_GET,
     .path = "/openapi.json",
     .auth = ROUTE_OPEN,
     .pool = POOL_SHORT,
     .handler = describe,
     .scope = SCOPE_ANY,
     .doc = {.summary = "This description", .reply = "OpenApi", .statuses = "200"}},
    {0},
};
