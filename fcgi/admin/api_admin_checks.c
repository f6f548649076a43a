/* GET /api/admin/checks: what `sluice doctor` looks at, from inside the running server. */
#include <string.h>

#include "fcgi/admin/diagnostics.h"
#include "fcgi/http/reply.h"
#include "fcgi/http/request.h"
#include "fcgi/process/worker.h"
#include "fcgi/status/engine_status.h"

/* diagnostics_report_fn */
static void add(void *context, const struct diagnostics_finding *f)
{
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "check", f->what);
    cJSON_AddStringToObject(o, "verdict", diagnostics_verdict_name(f->verdict));
    cJSON_AddStringToObject(o, "found", f->found);
    if (f->fix)
        cJSON_AddStringToObject(o, "fix", f->fix);
    if (f->code) {
        cJSON_AddStringToObject(o, "code", f->code);
        cJSON_AddStringToObject(o, "text", f->text ? f->text : "");
        cJSON_AddNumberToObject(o, "n", f->n);
    }
    cJSON_AddItemToArray(context, o);
}

static bool checks(struct request *r, struct err *e)
{
    struct status_page page;
    const char *database = request_query(r, "database");
    if (database && strcmp(database, "true") && strcmp(database, "false"))
        return err_field(e, ERR_INPUT, "database", "must be true or false");
    cJSON *o = cJSON_CreateObject();
    const struct diagnostics c = {.report = add, .context = cJSON_AddArrayToObject(o, "items")};
    engine_status_read(r, &page);
    diagnostics_system(&c);
    diagnostics_instructions(&c);
    diagnostics_sqlite(&c);
    diagnostics_state_folder(&c, r->worker->state_dir);
    diagnostics_wal(&c, r->store);
    if (database && !strcmp(database, "true"))
        diagnostics_database(&c, r->worker->db_path);
    diagnostics_engine(&c, &page);
    reply_json(r, 200, o);
    cJSON_Delete(o);
    return true;
}

const struct route api_admin_checks_routes[] = {
    {.method = HTTP_GET,
     .path = "/api/admin/checks",
     .auth = ROUTE_ADMIN,
     .pool = POOL_SHORT,
     .handler = checks,
     .scope = SCOPE_ADMIN,
     .doc = {.summary = "What the server needs, whether it is there, and what mends it",
             .query = "ChecksQuery",
             .reply = "Checks",
             .statuses = "200"}},
    {0},
};
