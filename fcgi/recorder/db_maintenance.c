/* db_maintenance.h: four timers, for checkpoints, for truncating the WAL, for clearing away what
 * was deleted and for the age of the audit log. */
#define LOG_MODULE "recorder"
#include "fcgi/recorder/db_maintenance.h"

#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "fcgi/config/server_settings.h"
#include "sql/chats/store_record.h"
#include "sql/core/store.h"
#include "sql/files/store_attachments.h"

#define CHECKPOINT_MS 2000.0
#define LONG_MS 250.0       /* a long WAL is checkpointed after this already */
#define TRUNCATE_MS 30000.0 /* after the last running answer */
#define CLEAR_MS 5000.0
#define GIVE_WAY_MS 3.0
#define AUDIT_MS 3600000.0
#define AUDIT_RETRY_MS 60000.0

static void checkpoint(struct db_maintenance *m, bool truncate)
{
    struct store_wal w;
    struct err e = {0};
    bool ok = store_checkpoint(m->store, truncate, &w, &e);
    if (!ok)
        log_error("checkpoint: %s", e.text);
    else if (w.frames)
        log_debug("checkpoint truncate=%d frames=%lld checked_in=%lld busy=%d", truncate,
                  (long long)w.frames, (long long)w.checked_in, w.busy);
    if (ok && truncate && !w.busy)
        m->cleared = false;
}

/* The store zeroes deleted text in the database file. Copies of it in the WAL go when the WAL is
 * truncated, so that is then due at once, even while answers run. */
static void clear_deleted(struct db_maintenance *m, double now)
{
    bool more = false;
    struct err e = {0};
    bool ok = store_clear(m->store, &more, &e);
    m->cleared |= ok && more;
    if (ok && !more && m->cleared)
        m->next_truncate = m->next_checkpoint = now;
    if (ok && !more) { /* one folder at a time: all of them within half an hour */
        ok = store_attachment_sweep(m->store, m->next_folder, &e);
        m->next_folder = (m->next_folder + 1) % STORE_FILE_FOLDERS;
    }
    if (!ok)
        log_error("clearing away: %s", e.text);
    /* As long as the step took, the others can write. */
    const double end = clock_ms();
    m->next_clear = ok && more ? end + (end - now) + GIVE_WAY_MS : end + CLEAR_MS;
}

/* Rows of the audit log name people and addresses: like deleted text they have to leave the WAL as
 * well, and clear_deleted sees to that. */
static void expire_audit(struct db_maintenance *m, double now)
{
    int64_t days = 0;
    bool any = false;
    struct err e = {0};
    const bool ok = server_stored_setting_int(m->store, SETTING_AUDIT_DAYS, &days, &e) &&
                    (days == 0 || store_audit_expire(m->store, days, &any, &e));
    if (!ok)
        log_error("removing old rows of the audit log: %s", e.text);
    m->cleared |= ok && any;
    const double end = clock_ms();
    m->next_audit = !ok   ? end + AUDIT_RETRY_MS
                    : any ? end + (end - now) + GIVE_WAY_MS
                          : end + AUDIT_MS;
}

void db_maintenance_run(struct db_maintenance *m, bool busy, double now)
{
    if (busy && !m->cleared)
        m->next_truncate = now + TRUNCATE_MS;
    bool overdue = now >= m->next_checkpoint - CHECKPOINT_MS + LONG_MS && store_wal_long(m->store);
    if (overdue || now >= m->next_checkpoint) {
        bool truncate = now >= m->next_truncate;
        checkpoint(m, truncate);
        m->next_checkpoint = now + CHECKPOINT_MS;
        if (truncate &&
            !m->cleared) /* else a reader was in the way, and the next checkpoint tries again */
            m->next_truncate = now + TRUNCATE_MS;
    }
    if (now >= m->next_clear)
        clear_deleted(m, now);
    if (now >= m->next_audit)
        expire_audit(m, clock_ms());
}

void db_maintenance_init(struct db_maintenance *m, struct store *s, double now)
{
    *m = (struct db_maintenance){.store = s, .next_truncate = now + TRUNCATE_MS};
}

double db_maintenance_next(const struct db_maintenance *m)
{
    const double next = m->next_checkpoint < m->next_clear ? m->next_checkpoint : m->next_clear;
    return next < m->next_audit ? next : m->next_audit;
}

void db_maintenance_request(struct db_maintenance *m)
{
    m->next_clear = 0;
}

void db_maintenance_finish(struct db_maintenance *m)
{
    checkpoint(m, true);
}
