/* audit.h: lines of the audit table, with the request's address. */
#define LOG_MODULE "audit"
#include "fcgi/http/audit.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "fcgi/http/request.h"
#include "fcgi/process/shared.h"
#include "fcgi/process/worker.h"
#include "sql/core/store.h"

/* What a user does to their own things could fill the disk. Logins, failed ones above all, and what
 * admins do always have their rows. */
static bool is_bounded(const struct request *r, const char *action)
{
    return r->who.user_id && !r->who.admin && strncmp(action, "login", 5) != 0;
}

void audit_record(struct request *r, int64_t user_id, const char *user, const char *action,
                  const char *target)
{
    struct err e = {0};
    struct store_audit row = {.user_id = user_id,
                              .user = user,
                              .action = action,
                              .target = target,
                              .address = request_remote(r)};
    if (is_bounded(r, action) &&
        !shared_audit_take(r->worker->shared, r->who.user_id, clock_wall_ms()))
        return;
    if (!store_audit_add(r->store, &row, &e))
        log_warn("id=%s action=%s not recorded: %s", r->id, action, e.text);
}

void audit_record_id(struct request *r, const char *action, const char *kind, int64_t id)
{
    char target[48];
    snprintf(target, sizeof target, "%s:%lld", kind, (long long)id);
    audit_record(r, r->who.user_id, r->who.name, action, target);
}
