/* What was there before a launch, kept in HOME/.local/state/sluice-launch/CLIENT: was0, was1, ...
 * are the files as they were, wrote0, ... as we left them, and record.json says which is which. It
 * is written before the first file of a client is touched, so a kill at any moment can be undone.
 */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/arena.h"
#include "engine/base/file.h"
#include "engine/base/json/json.h"
#include "fcgi/cli/launch/launch.h"

enum { MAX_FILE = 4 << 20 };
#define RECORD "record.json"

static char *below(const struct launch_record *r, const char *dir, const char *name)
{
    return arena_printf(r->arena, "%s/%s", dir, name);
}

static char *kept(const struct launch_record *r, const char *what, int i)
{
    return arena_printf(r->arena, "%s/%s%d", r->dir, what, i);
}

static cJSON *read_record(const struct launch_record *r, struct err *e)
{
    return json_parse_file(below(r, r->dir, RECORD), MAX_FILE, e);
}

bool launch_record_open(struct launch_record *r, const char *client, struct err *e)
{
    r->dir = arena_printf(r->arena, "%s/.local/state/sluice-launch/%s", r->home, client);
    if (!r->dir)
        return err_set(e, ERR_NOMEM, "out of memory");
    r->there = file_exists(below(r, r->dir, RECORD));
    r->url = r->state = r->user = "";
    if (!r->there)
        return true;
    cJSON *o = read_record(r, e);
    bool ok = o && json_get_string(o, "url", &r->url, e) &&
              json_get_string(o, "state", &r->state, e) &&
              json_get_string(o, "user", &r->user, e) &&
              json_get_int(o, "key_id", 0, INT64_MAX, &r->key_id, e);
    r->url = arena_strdup(r->arena, r->url);
    r->state = arena_strdup(r->arena, r->state);
    r->user = arena_strdup(r->arena, r->user);
    cJSON_Delete(o);
    return ok || err_prefix(e, "%s/" RECORD, r->dir);
}

/* Where the file lies: behind the link, where it is one, so that the link stays. */
static char *real_place(const struct launch_record *r, const char *name)
{
    char real[PATH_MAX];
    char *path = below(r, r->home, name);
    return path && realpath(path, real) ? arena_strdup(r->arena, real) : path;
}

static bool read_old(struct launch_change *c, struct err *e)
{
    struct stat st;
    c->existed = stat(c->path, &st) == 0;
    if (!c->existed && errno != ENOENT)
        return err_errno(e, "%s", c->path);
    c->mode = c->existed ? st.st_mode & 07777 : 0600;
    return (!c->existed || file_read(c->path, MAX_FILE, &c->old, e)) && buf_append(&c->old, "", 0);
}

bool launch_change_make(const struct launch_record *r, const struct launch_edit *edit,
                        const struct launch_server *s, struct launch_change *c, struct err *e)
{
    c->name = edit->name;
    c->path = real_place(r, edit->name);
    if (!c->path)
        return err_set(e, ERR_NOMEM, "out of memory");
    if (!read_old(c, e))
        return false;
    const char *old = c->old.data ? c->old.data : "";
    if (strlen(old) != c->old.len)
        return err_set(e, ERR_FORMAT, "%s holds a NUL byte; it is left alone", c->path);
    return edit->edit(s, old, &c->text, e) ||
           err_prefix(e, "%s can't be changed by a program", c->path);
}

void launch_change_fini(struct launch_change *c)
{
    buf_fini(&c->old);
    buf_fini(&c->text);
}

/* The folders that are to be made for the file, the deepest first: restore removes them again. */
static void note_folders(const struct launch_record *r, const char *name, cJSON *made)
{
    char *at = arena_strdup(r->arena, name);
    for (char *slash; at && (slash = strrchr(at, '/'));) {
        *slash = '\0';
        if (!file_exists(below(r, r->home, at)))
            cJSON_AddItemToArray(made, cJSON_CreateString(at));
    }
}

static bool write_file(const char *path, const struct buf *b, unsigned mode, struct err *e)
{
    return file_write_atomic(path, b->data ? b->data : "", b->len, mode, e);
}

/* A first launch keeps what was there; a later one leaves that. */
static bool keep(const struct launch_record *r, struct launch_change *changes, int n, struct err *e)
{
    struct buf text = {0};
    struct err none = {0};
    cJSON *before = r->there ? read_record(r, &none) : NULL;
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "url", r->url);
    cJSON_AddStringToObject(o, "state", r->state);
    cJSON_AddStringToObject(o, "user", r->user);
    cJSON_AddNumberToObject(o, "key_id", (double)r->key_id);
    cJSON *files, *made;
    if (before) {
        files = cJSON_DetachItemFromObject(before, "files");
        made = cJSON_DetachItemFromObject(before, "made");
    } else {
        files = cJSON_CreateArray();
        made = cJSON_CreateArray();
    }
    bool ok = files && made && file_mkdirs(r->dir, 0700, e);
    for (int i = 0; ok && i < n; i++) {
        struct launch_change *c = &changes[i];
        ok = write_file(kept(r, "wrote", i), &c->text, 0600, e);
        if (!before && ok) {
            cJSON *f = cJSON_CreateObject();
            cJSON_AddStringToObject(f, "name", c->name);
            cJSON_AddBoolToObject(f, "existed", c->existed);
            cJSON_AddNumberToObject(f, "mode", c->mode);
            cJSON_AddItemToArray(files, f);
            note_folders(r, c->name, made);
            ok = write_file(kept(r, "was", i), &c->old, 0600, e);
        }
    }
    cJSON_AddItemToObject(o, "files", files);
    cJSON_AddItemToObject(o, "made", made);
    ok = ok && json_write(&text, o) && write_file(below(r, r->dir, RECORD), &text, 0600, e);
    buf_fini(&text);
    cJSON_Delete(o);
    cJSON_Delete(before);
    return ok || (e->code ? false : err_set(e, ERR_FORMAT, "%s/" RECORD " is damaged", r->dir));
}

bool launch_record_apply(const struct launch_record *r, struct launch_change *changes, int n,
                         struct err *e)
{
    if (!keep(r, changes, n, e))
        return false;
    for (int i = 0; i < n; i++) {
        char *folder = arena_strdup(r->arena, changes[i].path);
        *strrchr(folder, '/') = '\0';
        /* the key is in it: nobody else may read it */
        if (!file_mkdirs(folder, 0700, e) ||
            !write_file(changes[i].path, &changes[i].text, changes[i].mode & 0700, e))
            return false;
    }
    return true;
}

struct restoring {
    const struct launch_record *r;
    launch_told_fn told;
    void *context;
};

/* What the client or its user wrote since then is kept beside the file. */
static bool keep_changes(const struct restoring *t, const char *path, int i, struct err *e)
{
    struct buf now = {0}, wrote = {0};
    struct err none = {0};
    bool ok = true;
    if (file_read(path, MAX_FILE, &now, &none) &&
        !(file_read(kept(t->r, "wrote", i), MAX_FILE, &wrote, &none) && now.len == wrote.len &&
          !memcmp(now.data, wrote.data, now.len))) {
        char *beside = arena_printf(t->r->arena, "%s.sluice-changed", path);
        struct buf was = {0};
        bool same = file_read(kept(t->r, "was", i), MAX_FILE, &was, &none) && was.len == now.len &&
                    (!now.len || !memcmp(was.data, now.data, now.len));
        buf_fini(&was);
        ok = same || write_file(beside, &now, 0600, e);
        if (ok && !same)
            t->told(t->context, beside, "what was changed since the launch");
    }
    buf_fini(&now);
    buf_fini(&wrote);
    return ok;
}

static bool restore_one(const struct restoring *t, const cJSON *f, int i, struct err *e)
{
    const char *name = json_text(f, "name");
    const int64_t mode =
        cJSON_IsNumber(json_member(f, "mode")) ? json_member(f, "mode")->valueint : 0600;
    char *path = name ? real_place(t->r, name) : NULL;
    struct buf was = {0};
    if (!path)
        return err_set(e, ERR_FORMAT, "%s/" RECORD " is damaged", t->r->dir);
    if (!keep_changes(t, path, i, e))
        return false;
    if (!cJSON_IsTrue(json_member(f, "existed"))) {
        if (unlink(path) != 0 && errno != ENOENT)
            return err_errno(e, "%s", path);
        t->told(t->context, path, "removed: there was none before");
        return true;
    }
    bool ok = file_read(kept(t->r, "was", i), MAX_FILE, &was, e) &&
              write_file(path, &was, (unsigned)mode, e);
    buf_fini(&was);
    if (ok)
        t->told(t->context, path, "as it was before");
    return ok;
}

bool launch_record_restore(const struct launch_record *r, launch_told_fn told, void *context,
                           struct err *e)
{
    const struct restoring t = {r, told, context};
    cJSON *o = read_record(r, e);
    if (!o)
        return false;
    const cJSON *f, *made;
    int i = 0;
    bool ok = true;
    cJSON_ArrayForEach (f, json_member(o, "files"))
        ok = ok && restore_one(&t, f, i++, e);
    cJSON_ArrayForEach (made, json_member(o, "made"))
        if (ok && cJSON_IsString(made))
            rmdir(
                below(r, r->home, made->valuestring)); /* stays where something else is in it now */
    if (ok) {
        for (int k = 0; k < i; k++) {
            unlink(kept(r, "was", k));
            unlink(kept(r, "wrote", k));
        }
        unlink(below(r, r->dir, RECORD));
        rmdir(r->dir);
    }
    cJSON_Delete(o);
    return ok;
}
