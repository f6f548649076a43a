/* See recorder_house.h. */
#define LOG_MODULE "recorder"
#include "fcgi/recorder/recorder_house.h"

#include "engine/base/log.h"
#include "sql/chats/store_record.h"
#include "sql/core/store.h"
#include "sql/files/store_attachments.h"

#define CHECKPOINT_MS 2000.0
#define LONG_MS 250.0      /* a long WAL does not wait longer for the next one */
#define TRUNCATE_MS 30000.0 /* without a running answer */
#define CLEAR_MS 5000.0

static void checkpoint(struct house *h, bool truncate)
{
    struct store_wal w;
    struct err e = {0};
    bool ok = store_checkpoint(h->store, truncate, &w, &e);
    if (!ok)
        log_error("checkpoint: %s", e.text);
    else if (w.frames)
        log_debug("checkpoint truncate=%d frames=%lld checked_in=%lld busy=%d", truncate, (long long)w.frames,
                  (long long)w.checked_in, w.busy);
    if (ok && truncate && !w.busy)
        h->cleared = false;
}

/* Deleted text is zeroed in the database; what the WAL says of it goes when the WAL is emptied, also while answers run. */
static void clear_away(struct house *h, double now)
{
    bool more = false;
    struct err e = {0};
    bool ok = store_clear(h->store, &more, &e);
    h->cleared |= ok && more;
    if (ok && !more && h->cleared)
        h->next_truncate = h->next_checkpoint = now;
    if (ok && !more) { /* every folder within half an hour */
        ok = store_attachment_sweep(h->store, h->next_folder, &e);
        h->next_folder = (h->next_folder + 1) % STORE_FILE_FOLDERS;
    }
    if (!ok)
        log_error("clearing away: %s", e.text);
    h->next_clear = ok && more ? now : now + CLEAR_MS;
}

void house_keep(struct house *h, bool busy, double now)
{
    if (busy && !h->cleared)
        h->next_truncate = now + TRUNCATE_MS;
    bool overdue = now >= h->next_checkpoint - CHECKPOINT_MS + LONG_MS && store_wal_long(h->store);
    if (overdue || now >= h->next_checkpoint) {
        bool truncate = now >= h->next_truncate;
        checkpoint(h, truncate);
        h->next_checkpoint = now + CHECKPOINT_MS;
        if (truncate && !h->cleared) /* else a reader was in the way: at the next checkpoint */
            h->next_truncate = now + TRUNCATE_MS;
    }
    if (now >= h->next_clear)
        clear_away(h, now);
}

void house_init(struct house *h, struct store *s, double now)
{
    *h = (struct house){.store = s, .next_truncate = now + TRUNCATE_MS};
}

double house_next(const struct house *h)
{
    return h->next_checkpoint < h->next_clear ? h->next_checkpoint : h->next_clear;
}

void house_hurry(struct house *h)
{
    h->next_clear = 0;
}

void house_leave(struct house *h)
{
    checkpoint(h, true);
}
