/* audit.h: lines of the audit table, with the request's address. */
#define LOG_MODULE "audit"
#include "fcgi/http/audit.h"

#include <stdio.h>

#include "engine/base/log.h"
#include "fcgi/http/request.h"
#include "sql/core/store.h"

void audit_record(struct request *r, int64_t user_id, const char *user, const char *action,
                  const char *target)
{
    struct err e = {0};
    struct store_audit row = {.user_id = user_id,
                              .user = user,
                              .action = action,
                              .target = target,
                              .address = request_remote(r)};
    if (!store_audit_add(r->store, &row, &e))
        log_warn("id=%s action=%s not recorded: %s", r->id, action, e.text);
}

void audit_record_id(struct request *r, const char *action, const char *kind, int64_t id)
{
    char target[48];
    snprintf(target, sizeof target, "%s:%lld", kind, (long long)id);
    audit_record(r, r->who.user_id, r->who.name, action, target);
}
