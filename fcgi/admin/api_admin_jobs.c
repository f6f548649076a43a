/* DELETE /api/admin/jobs/{id}: ends any job, of an engine or of the relay. Its prompt and its
 * answer are not shown here. */
#include <stdio.h>

#include "engine/engine.h"
#include "fcgi/http/audit.h"
#include "fcgi/http/path_id.h"
#include "fcgi/http/reply.h"
#include "fcgi/http/request.h"
#include "fcgi/inference/model_name.h"
#include "fcgi/process/worker.h"

static bool cancel_job(struct request *r, struct err *e)
{
    int64_t id;
    const char *model = request_query(r, "model");
    char key[32], target[32];
    if (!path_id_param(r, "id", &id, e) || (model && !model_name_take(r, model, e)))
        return false;
    const bool relayed = (uint64_t)id >= ENGINE_RELAYED_JOBS;
    if (r->model && !relayed)
        return err_field(e, ERR_UNSUPPORTED, "model", "is answered by another server");
    snprintf(key, sizeof key, "#%lld", (long long)id);
    if (!engine_cancel_key(relayed ? r->worker->relay_socket : r->worker->engine_socket, key, e))
        return false;
    snprintf(target, sizeof target, "job:%lld", (long long)id);
    audit_record(r, r->who.user_id, r->who.name, "job.cancel", target);
    return reply_empty(r, 204);
}

const struct route api_admin_jobs_routes[] = {
    {.method = HTTP_DELETE,
     .path = "/api/admin/jobs/{id}",
     .auth = ROUTE_ADMIN,
     .pool = POOL_SHORT,
     .handler = cancel_job,
     .scope = SCOPE_ADMIN,
     .doc = {.summary = "End a running or waiting job of anyone",
             .query = "AdminJobQuery",
             .statuses = "204 404 503"}},
    {0},
};
