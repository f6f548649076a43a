/* POST /api/admin/registry and what is done with a model of this machine beside the first: it is
 * added, loaded, unloaded. `sluice up` does it (fcgi/cli/up/local_engines.h). */
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/json/json.h"
#include "fcgi/admin/local_models.h"
#include "fcgi/http/audit.h"
#include "fcgi/http/path_id.h"
#include "fcgi/http/reply.h"
#include "fcgi/http/request.h"
#include "fcgi/inference/model_name.h"
#include "fcgi/openai/chat_request.h"
#include "fcgi/process/local_model.h"
#include "fcgi/upstreams/registry.h"
#include "sql/models/store_local_models.h"

static const struct field_row add_fields[] = {{"name", FIELD_READ},
                                              {"path", FIELD_READ},
                                              {"context", FIELD_READ},
                                              {"everyone", FIELD_READ},
                                              {"aliases", FIELD_READ},
                                              {"users", FIELD_READ},
                                              {"groups", FIELD_READ},
                                              {"pinned", FIELD_READ},
                                              {"preload", FIELD_READ},
                                              {"idle_s", FIELD_READ},
                                              {"defaults", FIELD_READ},
                                              {"device", FIELD_READ},
                                              {0}};

/* The first one answers to its names before any row does: such a row could never be meant. */
static bool check_place(struct request *r, const char *name, const char *path, struct err *e)
{
    if (!name || !path)
        return err_field(e, ERR_INPUT, name ? "path" : "name", "is needed");
    if (model_name_is_own(r, name))
        return err_field(e, ERR_CONFLICT, "name", "a model is called that already");
    cJSON *state = local_models_state(r->worker->state_dir, e);
    const bool ok = state && local_models_listed(r, state, path, e);
    cJSON_Delete(state);
    return ok;
}

static bool add(struct request *r, struct err *e)
{
    int64_t id;
    const char *name = NULL, *path = NULL;
    const struct store_model_change *c;
    const cJSON *body = request_json(r, e);
    if (!body || !fields_check(r, body, add_fields, e) ||
        !json_get_string(body, "name", &name, e) || !json_get_string(body, "path", &path, e) ||
        !(c = registry_read_change(r, body, e)) || !check_place(r, name, path, e))
        return false;
    const struct store_model m = {.name = name,
                                  .path = path,
                                  .tools = true,
                                  .everyone = c->everyone != 0,
                                  .context = c->context > 0 ? c->context : 0,
                                  .pinned = c->pinned > 0,
                                  .preload = c->preload > 0,
                                  .idle_s = c->idle_s >= 0 ? c->idle_s : STORE_LOCAL_IDLE_S,
                                  .defaults = c->defaults,
                                  .device = c->device};
    if (!store_local_model_add(r->store, &m, &id, e))
        return false;
    struct err why = {0};
    if ((c->aliases || c->users || c->groups) && !store_model_change(r->store, id, c, &why)) {
        store_model_remove(r->store, id, NULL); /* all of it or nothing */
        *e = why;
        return false;
    }
    audit_record_id(r, "model.add", "model", id);
    return registry_reply(r, 201, id, e);
}

/* The row's place in shared memory. */
static struct shared_local *find(struct request *r, int64_t *id, struct err *e)
{
    if (!path_id_param(r, "id", id, e))
        return NULL;
    struct shared_local *l = local_model_state(r->worker->shared, *id);
    if (!l)
        err_set(e, ERR_NOTFOUND, "no such model of this machine is known to `sluice up`");
    return l;
}

static bool load(struct request *r, struct err *e)
{
    int64_t id;
    struct shared_local *l = find(r, &id, e);
    if (!l)
        return false;
    l->wanted_ms = clock_wall_ms();
    audit_record_id(r, "model.load", "model", id);
    return reply_empty(r, 202);
}

static bool unload(struct request *r, struct err *e)
{
    int64_t id;
    struct shared_local *l = find(r, &id, e);
    if (!l)
        return false;
    if (l->state != LOCAL_READY)
        return err_set(e, ERR_CONFLICT, "the model is not loaded (%s)", local_state_name(l->state));
    l->unload_ms = clock_wall_ms();
    audit_record_id(r, "model.unload", "model", id);
    return reply_empty(r, 202);
}

#define ROW(m, p, h)                                                                               \
    .method = (m), .path = (p), .auth = ROUTE_ADMIN, .pool = POOL_SHORT, .handler = (h),           \
    .scope = SCOPE_ADMIN

const struct route api_local_models_routes[] = {
    {ROW(HTTP_POST, "/api/admin/registry", add), .body_limit = ROUTE_JSON_BODY,
     .doc = {.summary = "Add a model of this machine, which is loaded when it is wanted",
             .body = "RegistryAdd",
             .reply = "RegistryModel",
             .statuses = "201 404 409 501"}},
    {ROW(HTTP_POST, "/api/admin/registry/{id}/load", load),
     .doc = {.summary = "Load it now, for room others are ended", .statuses = "202"}},
    {ROW(HTTP_POST, "/api/admin/registry/{id}/unload", unload),
     .doc = {.summary = "End its engine, once the running answers have ended",
             .statuses = "202 409"}},
    {0},
};
