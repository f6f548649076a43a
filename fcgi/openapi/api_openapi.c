/* GET /openapi.json: the API's description, for clients and tools. Open: it holds nothing of anyone. */
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
    {HTTP_GET, "/openapi.json", ROUTE_OPEN, POOL_SHORT, 0, describe, SCOPE_ANY,
     {.summary = "This description", .reply = "OpenApi", .statuses = "200"}},
    {0},
};
