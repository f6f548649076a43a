/* shared.h: how many rows of the audit log a user adds. */
#include "fcgi/process/shared.h"

#include <stddef.h>

#define PROBES 8
#define MINUTE_MS ((int64_t)60 * 1000)

/* A row of which something is still to be told is given to nobody else. */
static struct shared_audited *row_of(struct shared *s, int64_t user_id)
{
    struct shared_audited *stalest = NULL;
    const uint64_t home = (uint64_t)user_id * 0x9E3779B97F4A7C15u >> 40;
    for (uint64_t i = 0; i < PROBES; i++) {
        struct shared_audited *row = &s->audited[(home + i) % SHARED_AUDITED];
        if (row->user_id == user_id)
            return row;
        if (!row->suppressed && (!stalest || row->since_ms < stalest->since_ms))
            stalest = row;
    }
    if (stalest) { /* of two processes that race for it, one loses a count */
        stalest->user_id = user_id;
        stalest->since_ms = 0;
        stalest->rows = 0;
    }
    return stalest;
}

bool shared_audit_take(struct shared *s, int64_t user_id, int64_t now_ms)
{
    struct shared_audited *row = row_of(s, user_id);
    if (!row)
        return true; /* hundreds of users at their bound: rather too many rows than none */
    int64_t since = row->since_ms;
    if ((now_ms < since || now_ms - since >= MINUTE_MS) &&
        atomic_compare_exchange_strong(&row->since_ms, &since, now_ms))
        row->rows = 0;
    if (atomic_fetch_add(&row->rows, 1) < SHARED_AUDIT_ROWS)
        return true;
    if (atomic_fetch_add(&row->suppressed, 1) == 0)
        row->suppressed_ms = now_ms;
    return false;
}

struct shared_audited *shared_audit_due(struct shared *s, int64_t now_ms)
{
    for (int i = 0; i < SHARED_AUDITED; i++) {
        struct shared_audited *row = &s->audited[i];
        if (row->suppressed &&
            (now_ms < row->suppressed_ms || now_ms - row->suppressed_ms >= MINUTE_MS))
            return row;
    }
    return NULL;
}
