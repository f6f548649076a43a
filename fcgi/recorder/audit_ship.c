/* audit_ship.h: rows after the cursor become a batch of lines, and then the cursor moves. */
#define LOG_MODULE "recorder"
#include "fcgi/recorder/audit_ship.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/arena.h"
#include "engine/base/buf.h"
#include "engine/base/clock.h"
#include "engine/base/json/json.h"
#include "engine/base/log.h"
#include "fcgi/recorder/audit_sink.h"
#include "sql/core/store.h"

#define BATCH 200
#define LOOK_MS 1000.0
#define RETRY_MS 5000.0

/* ---- the cursor ---- */

static bool read_cursor(struct audit_ship *a, struct err *e)
{
    struct arena *arena = arena_create(1 << 20);
    const char *json = NULL;
    if (!arena)
        return err_set(e, ERR_NOMEM, "out of memory");
    bool ok = store_setting_get(a->store, arena, STORE_AUDIT_CURSOR_SETTING, &json, e);
    if (!ok && e->code == ERR_NOTFOUND) { /* nothing was ever shipped */
        *e = (struct err){0};
        ok = true;
    } else if (ok && sscanf(json, "\"%" SCNd64 " %" SCNu64 " %" SCNu64 " %" SCNd64 "\"", &a->id,
                            &a->dev, &a->ino, &a->size) != 4) {
        ok = err_set(e, ERR_FORMAT, "the setting " STORE_AUDIT_CURSOR_SETTING " is no cursor");
    }
    arena_destroy(&arena);
    return ok;
}

static bool write_cursor(const struct audit_ship *a, struct err *e)
{
    char json[128];
    snprintf(json, sizeof json, "\"%" PRId64 " %" PRIu64 " %" PRIu64 " %" PRId64 "\"", a->id,
             a->dev, a->ino, a->size);
    return store_setting_set(a->store, STORE_AUDIT_CURSOR_SETTING, json, e);
}

/* ---- a batch ---- */

struct batch {
    struct buf lines;
    int64_t last;
    int n;
};

static void put_id(cJSON *o, const char *name, int64_t id)
{
    char text[24];
    snprintf(text, sizeof text, "%" PRId64, id);
    cJSON_AddStringToObject(o, name, text);
}

/* The id comes first: audit_sink_tail looks for it there. */
static bool add_line(void *context, const struct store_audit *row)
{
    struct batch *b = context;
    cJSON *o = cJSON_CreateObject();
    put_id(o, "id", row->id);
    cJSON_AddNumberToObject(o, "at", (double)row->at);
    put_id(o, "user_id", row->user_id);
    cJSON_AddStringToObject(o, "user", row->user);
    cJSON_AddStringToObject(o, "action", row->action);
    cJSON_AddStringToObject(o, "target", row->target);
    cJSON_AddStringToObject(o, "address", row->address);
    char *text = cJSON_PrintUnformatted(o);
    cJSON_Delete(o);
    bool ok = text && buf_puts(&b->lines, text) && buf_putc(&b->lines, '\n');
    free(text);
    b->last = ok ? row->id : b->last;
    b->n += ok;
    return ok;
}

/* A file that is new, or another than before, is noted before it is written to, so that a successor
 * knows where to look. */
static bool ship_to_file(struct audit_ship *a, const struct batch *b, struct err *e)
{
    struct audit_file f;
    if (!audit_file_open(&f, a->target, e))
        return false;
    bool ok = true;
    if (f.dev != a->dev || f.ino != a->ino || f.size != a->size) {
        a->dev = f.dev;
        a->ino = f.ino;
        a->size = f.size;
        ok = write_cursor(a, e);
    }
    ok = ok && audit_file_append(&f, b->lines.data, b->lines.len, e);
    close(f.fd);
    if (!ok)
        return false;
    a->id = b->last;
    a->size = f.size;
    return write_cursor(a, e);
}

static bool ship(struct audit_ship *a, const struct batch *b, struct err *e)
{
    if (strcmp(a->target, "-") != 0 && strcmp(a->target, "syslog") != 0)
        return ship_to_file(a, b, e);
    const int64_t before = a->id;
    bool ok = audit_sink_send(a->target, b->lines.data, &a->id, e);
    return (a->id == before || write_cursor(a, ok ? e : NULL)) && ok;
}

/* What a predecessor wrote and did not live to note. */
static bool begin(struct audit_ship *a, struct err *e)
{
    if (!read_cursor(a, e))
        return false;
    if (a->ino && strcmp(a->target, "-") != 0 && strcmp(a->target, "syslog") != 0 &&
        !audit_file_tail(a->target,
                         &(struct audit_file){.dev = a->dev, .ino = a->ino, .size = a->size},
                         &a->id, e))
        return false;
    a->ready = true;
    return true;
}

static bool run(struct audit_ship *a, int *n, struct err *e)
{
    struct batch b = {0};
    if (!a->ready && !begin(a, e))
        return false;
    const struct store_audit_from from = {.after = a->id, .limit = BATCH};
    bool ok = store_audit_after(a->store, &from, add_line, &b, e) && (!b.n || ship(a, &b, e));
    *n = b.n;
    buf_fini(&b.lines);
    return ok;
}

void audit_ship_init(struct audit_ship *a, struct store *s, const char *target)
{
    *a = (struct audit_ship){.store = s, .target = target && *target ? target : NULL};
}

void audit_ship_run(struct audit_ship *a, double now)
{
    struct err e = {0};
    int n = 0;
    if (!a->target || now < a->next)
        return;
    bool ok = run(a, &n, &e);
    if (!ok && !a->failing)
        log_error("the audit log is not shipped, and tried again: %s", e.text);
    else if (ok && a->failing)
        log_info("the audit log is shipped again");
    a->ready &= ok; /* after a failure the file tells how far it came */
    a->failing = !ok;
    a->next = clock_ms() + (!ok ? RETRY_MS : n == BATCH ? 0 : LOOK_MS);
}
