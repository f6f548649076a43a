/* audit_suppressed.h: one row of the log for each user of whom something is due. */
#define LOG_MODULE "recorder"
#include "fcgi/recorder/audit_suppressed.h"

#include <stdatomic.h>
#include <stdio.h>

#include "engine/base/arena.h"
#include "engine/base/log.h"
#include "fcgi/process/shared.h"
#include "sql/core/store.h"
#include "sql/users/store_users.h"

/* Counted off once the row is there: a recorder that dies in between tells of them twice, never not
 * at all. */
static bool tell(struct store *s, struct arena *a, struct shared_audited *row)
{
    struct store_user user = {.name = ""};
    struct err e = {0};
    char target[48];
    const uint32_t n = row->suppressed;
    snprintf(target, sizeof target, "%u more", n);
    store_user_by_id(s, a, row->user_id, &user, &e); /* a removed one has no name */
    const struct store_audit told = {.user_id = row->user_id,
                                     .user = user.name,
                                     .action = "audit.suppressed",
                                     .target = target,
                                     .address = ""};
    if (!store_audit_add(s, &told, &e)) {
        log_warn("suppressed rows of the audit log could not be told of: %s", e.text);
        return false;
    }
    atomic_fetch_sub(&row->suppressed, n);
    return true;
}

void audit_suppressed_tell(struct store *s, struct shared *shared, int64_t now_ms)
{
    struct shared_audited *row = shared_audit_due(shared, now_ms);
    struct arena *a = row ? arena_create(1 << 20) : NULL;
    while (a && row && tell(s, a, row))
        row = shared_audit_due(shared, now_ms);
    arena_destroy(&a);
}
