/* Writes an imported conversation, a long one in several transactions, none of which is synced:
 * store_import_sync does that once for many. */
#include "sql/chats/store_import.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/clock.h"
#include "sql/chats/building_internal.h"
#include "sql/core/search_internal.h"
#include "sql/core/statement.h"
#include "sql/files/attachments_internal.h"
#include "sql/files/store_attachments.h"
#include "sql/projects/store_project_files.h"
#include "sql/projects/store_projects.h"
#include "sql/users/users_internal.h"

bool store_import_known(struct store *s, int64_t user_id, const char *key, bool *known,
                        struct err *e)
{
    int64_t n = 0;
    sqlite3_stmt *q = statement_begin(s, QUERY_IMPORT_KNOWN, e);
    if (!q)
        return false;
    statement_bind_int(q, ":user_id", user_id);
    statement_bind_text(q, ":key", key);
    if (!statement_int(s, q, &n, e))
        return false;
    *known = n != 0;
    return true;
}

static bool add_conversation(struct store *s, const struct store_import *c, int64_t *id,
                             struct err *e)
{
    struct err why = {0};
    sqlite3_stmt *q = statement_begin(s, QUERY_IMPORT_CONVERSATION, e);
    if (!q)
        return false;
    statement_bind_int(q, ":user_id", c->user_id);
    statement_bind_text(q, ":key", c->key);
    statement_bind_text(q, ":title", c->title);
    statement_bind_text(q, ":settings", c->settings);
    statement_bind_int(q, ":pinned", c->pinned);
    statement_bind_int(q, ":archived", c->archived);
    statement_bind_text(q, ":fork_of", c->fork_of);
    statement_bind_text(q, ":project", c->project ? c->project->key : NULL);
    statement_bind_int(q, ":created_at", c->created_at);
    statement_bind_int(q, ":updated_at", c->updated_at);
    statement_bind_id(q, ":trashed_at", c->trashed_at);
    statement_bind_int(q, ":until", building_until());
    if (statement_int(s, q, id, &why))
        return true;
    return why.code == ERR_NOTFOUND ? err_set(e, ERR_NOTFOUND, "there is no such user")
                                    : err_set(e, why.code, "%s", why.text);
}

static bool add_tags(struct store *s, const struct store_import *c, int64_t id, struct err *e)
{
    for (int i = 0; i < c->n_tags; i++) {
        sqlite3_stmt *q = statement_begin(s, QUERY_TAG_ADD, e);
        if (!q)
            return false;
        statement_bind_int(q, ":user_id", c->user_id);
        statement_bind_int(q, ":id", id);
        statement_bind_text(q, ":tag", c->tags[i]);
        if (!statement_run(s, q, NULL, e))
            return false;
    }
    return true;
}

/* One call of store_import_add. */
struct importing {
    struct store *s;
    const struct store_import *c;
    struct building to;
    int64_t *ids; /* of the messages so far */
    int next;     /* the message to write next */
    struct store_imported *out;
};

/* The message `i` of the conversation. */
static bool add_message(const struct importing *x, int i, struct err *e)
{
    const struct store_import_message *m = &x->c->messages[i];
    struct store *s = x->s;
    sqlite3_stmt *q = statement_begin(s, QUERY_IMPORT_MESSAGE, e);
    if (!q)
        return false;
    assert(m->status != MESSAGE_RUNNING);
    statement_bind_int(q, ":user_id", x->c->user_id);
    statement_bind_int(q, ":conversation_id", x->to.id);
    statement_bind_id(q, ":parent_id", m->parent >= 0 ? x->ids[m->parent] : 0);
    statement_bind_text(q, ":role", store_role_name(m->role));
    statement_bind_text(q, ":status", store_status_name(m->status));
    statement_bind_text(q, ":content", m->content ? m->content : "");
    statement_bind_text(q, ":reasoning", m->reasoning ? m->reasoning : "");
    statement_bind_text(q, ":tool_calls", m->tool_calls);
    statement_bind_text(q, ":tool_call_id", m->tool_call_id);
    statement_bind_text(q, ":error", m->error);
    statement_bind_text(q, ":model", m->model);
    statement_bind_text(q, ":timings", m->timings);
    statement_bind_text(q, ":sources", m->sources);
    if (m->has_usage) {
        statement_bind_int(q, ":prompt_tokens", m->prompt_tokens);
        statement_bind_int(q, ":cached_tokens", m->cached_tokens);
        statement_bind_int(q, ":completion_tokens", m->completion_tokens);
    }
    statement_bind_int(q, ":created_at", m->created_at);
    statement_bind_int(q, ":finished_at", m->finished_at);
    return statement_int(s, q, &x->ids[i], e) && search_add(s, x->ids[i], e);
}

struct found_file {
    int64_t id; /* 0: none */
    bool named; /* it has the name already */
    bool fresh; /* it came with the import, and no message has it */
};

static bool find_file(struct store *s, int64_t user_id, const struct store_import_file *f,
                      struct found_file *out, struct err *e)
{
    sqlite3_stmt *q = statement_begin(s, QUERY_IMPORT_FILE, e);
    *out = (struct found_file){0};
    if (!q)
        return false;
    statement_bind_int(q, ":user_id", user_id);
    statement_bind_text(q, ":sha256", f->sha256);
    statement_bind_text(q, ":name", f->name);
    statement_bind_text(q, ":nameless", STORE_IMPORTED_FILE);
    int rc = statement_step(s, q, e);
    if (rc == 1)
        *out = (struct found_file){sqlite3_column_int64(q, 0), sqlite3_column_int(q, 1),
                                   sqlite3_column_int(q, 2)};
    statement_end(q);
    return rc >= 0;
}

static bool name_file(struct store *s, int64_t user_id, const char *name, int64_t id, struct err *e)
{
    bool done;
    sqlite3_stmt *q =
        search_remove_file(s, &(struct store_ref){user_id, id}, &(int64_t){INT64_MAX}, &done, e)
            ? statement_begin(s, QUERY_IMPORT_FILE_NAME, e)
            : NULL;
    if (!q)
        return false;
    statement_bind_int(q, ":user_id", user_id);
    statement_bind_int(q, ":id", id);
    statement_bind_text(q, ":name", name);
    return statement_run(s, q, NULL, e) && search_add_file(s, id, e);
}

/* Another row of the same content. */
static bool copy_file(struct store *s, int64_t user_id, const char *name, int64_t *id,
                      struct err *e)
{
    sqlite3_stmt *q = statement_begin(s, QUERY_IMPORT_FILE_COPY, e);
    if (!q)
        return false;
    statement_bind_int(q, ":user_id", user_id);
    statement_bind_int(q, ":id", *id);
    statement_bind_text(q, ":name", name);
    statement_bind_int(q, ":now", clock_wall_ms());
    return statement_int(s, q, id, e) && search_add_file(s, *id, e);
}

struct file_list { /* of one message, or of a project */
    int64_t ids[STORE_PROJECT_FILES];
    int n;
};
static_assert(STORE_MESSAGE_ATTACHMENTS <= STORE_PROJECT_FILES, "a message's fit as well");

static bool holds(const struct file_list *l, int64_t id)
{
    int n = l->n;
    while (n && l->ids[n - 1] != id)
        n--;
    return n > 0;
}

/* Who has the same file twice had it uploaded twice: each of its places is a row of its own. */
static bool take_file(struct store *s, int64_t user_id, const struct store_import_file *f,
                      struct file_list *l, struct err *e)
{
    struct found_file found;
    if (!find_file(s, user_id, f, &found, e))
        return false;
    if (!found.id)
        return true;
    const bool taken = holds(l, found.id);
    if (found.fresh && !found.named && !taken && !name_file(s, user_id, f->name, found.id, e))
        return false;
    if ((taken || (!found.fresh && !found.named)) && !copy_file(s, user_id, f->name, &found.id, e))
        return false;
    l->ids[l->n++] = found.id;
    return true;
}

/* The files of the message `i`. */
static bool add_files(const struct importing *x, int i, struct err *e)
{
    const struct store_import_message *m = &x->c->messages[i];
    struct file_list l = {.n = 0};
    assert(m->n_files <= STORE_MESSAGE_ATTACHMENTS);
    for (int k = 0; k < m->n_files; k++)
        if (!take_file(x->s, x->c->user_id, &m->files[k], &l, e))
            return false;
    x->out->n_files += l.n;
    x->out->n_missing += m->n_files - l.n;
    const struct store_ref message = {.user_id = x->c->user_id, .id = x->ids[i]};
    return !l.n || attachments_bind(x->s, &message, l.ids, l.n, e);
}

bool store_import_file_known(struct store *s, int64_t user_id, const char *sha256, bool *known,
                             struct err *e)
{
    struct found_file found;
    bool ok =
        find_file(s, user_id, &(struct store_import_file){.sha256 = sha256, .name = ""}, &found, e);
    *known = found.id != 0;
    return ok;
}

static bool check_new(const struct importing *x, struct err *e)
{
    bool known;
    return store_import_known(x->s, x->c->user_id, x->c->key, &known, e) &&
           (!known || err_set(e, ERR_CONFLICT, "this conversation is there already"));
}

static int64_t size_of(const struct store_import_message *m)
{
    const char *const texts[] = {m->content, m->reasoning, m->tool_calls, m->sources};
    int64_t n = 0;
    for (int i = 0; i < 4; i++)
        n += texts[i] ? (int64_t)strlen(texts[i]) : 0;
    return n;
}

/* In the last transaction, since another import of the same conversation may have come first. */
static bool finish(const struct importing *x, struct err *e)
{
    const struct store_import *c = x->c;
    return check_new(x, e) && building_show(&x->to, c->leaf < 0 ? 0 : x->ids[c->leaf], e) &&
           add_tags(x->s, c, x->to.id, e);
}

/* What one transaction writes; the last one shows it all. */
static bool add_some(struct importing *x, struct err *e)
{
    const struct store_import *c = x->c;
    int64_t bytes = BUILDING_BYTES;
    for (int n = 0; x->next < c->n_messages && n < BUILDING_MESSAGES && bytes > 0; n++) {
        const int i = x->next++;
        assert(c->messages[i].parent < i);
        bytes -= size_of(&c->messages[i]);
        if (!add_message(x, i, e) || !add_files(x, i, e))
            return false;
    }
    return x->next < c->n_messages ? building_go_on(&x->to, e) : finish(x, e);
}

static bool begin(struct importing *x, struct err *e)
{
    return check_new(x, e) && add_conversation(x->s, x->c, &x->to.id, e) && add_some(x, e);
}

/* The transactions after the first one. */
static bool add_rest(struct importing *x, struct err *e)
{
    while (x->next < x->c->n_messages) {
        store_give_way();
        if (!store_write_begin_unsynced(x->s, e) || !store_write_end(x->s, add_some(x, e), e))
            return false;
    }
    return true;
}

/* A project on the way in. */
struct making {
    struct store *s;
    const struct store_import *c;
    int64_t id;
    struct file_list files;
    struct store_imported *out;
};

/* What it takes is loose until a project has it. */
static bool take_project_file(struct making *m, const struct store_import_file *f, struct err *e)
{
    return take_file(m->s, m->c->user_id, f, &m->files, e) &&
           users_check_quota(m->s, m->c->user_id, m->c->storage_bytes, e);
}

/* What the project can't take (its limits) is missing. */
static bool add_project_file(struct making *m, const struct store_import_file *f, struct err *e)
{
    struct err why = {0};
    const int n = m->files.n;
    if (!store_write_begin_unsynced(m->s, e) ||
        !store_write_end(m->s, take_project_file(m, f, e), e))
        return false;
    const bool found = m->files.n > n;
    const struct store_project_file_ref at = {.user_id = m->c->user_id,
                                              .project_id = m->id,
                                              .attachment_id = found ? m->files.ids[n] : 0};
    const bool taken = found && store_project_file_add(m->s, &at, &why);
    m->out->n_files += taken;
    m->out->n_missing += !taken;
    return taken || !found || why.code == ERR_LIMIT || why.code == ERR_UNSUPPORTED ||
           err_set(e, why.code, "%s", why.text);
}

static bool set_key(const struct making *m, bool *known, struct err *e)
{
    int changed = 0;
    sqlite3_stmt *q = statement_begin(m->s, QUERY_IMPORT_PROJECT_KEY, e);
    if (!q)
        return false;
    statement_bind_int(q, ":user_id", m->c->user_id);
    statement_bind_int(q, ":id", m->id);
    statement_bind_text(q, ":key", m->c->project->key);
    const bool ok = statement_run(m->s, q, &changed, e);
    *known = ok && !changed;
    return ok;
}

/* *known: another import has made one with this key since. */
static bool name_project(const struct making *m, bool *known, struct err *e)
{
    return store_write_begin(m->s, e) && store_write_end(m->s, set_key(m, known, e), e);
}

/* The conversation's project is there afterwards, unless the user has as many as one may have
 * (out->without_project): before it, and in transactions of its own, since
 * its files' passages are many rows. It has its key only once it is whole, so that an import that
 * is repeated never takes half of one for it. */
static bool make_project(struct store *s, const struct store_import *c, struct store_imported *out,
                         struct err *e)
{
    struct making m = {.s = s, .c = c, .out = out};
    const struct store_import_project *p = c->project;
    bool known = false;
    if (!p || !store_project_by_key(s, c->user_id, p->key, &m.id, e) || m.id)
        return !p || m.id;
    const struct store_project_change made = {.name = p->name,
                                              .instructions = p->instructions,
                                              .colour = p->colour,
                                              .storage_bytes = c->storage_bytes};
    struct err why = {0};
    if (!store_project_add(s, c->user_id, &made, &m.id, &why)) {
        out->without_project = why.code == ERR_LIMIT && strcmp(why.field, STORE_QUOTA_FIELD) != 0;
        return out->without_project || err_field(e, why.code, why.field, "%s", why.text);
    }
    assert(p->n_files <= STORE_PROJECT_FILES);
    bool ok = true;
    for (int i = 0; i < p->n_files && ok; i++)
        ok = add_project_file(&m, &p->files[i], e);
    ok = ok && name_project(&m, &known, e);
    if (!ok || known) {
        *out = (struct store_imported){0};
        store_project_remove(s, &(struct store_ref){c->user_id, m.id}, false, &(struct err){0});
    }
    return ok;
}

bool store_import_add(struct store *s, const struct store_import *c, struct store_imported *out,
                      struct err *e)
{
    *out = (struct store_imported){0};
    if (!make_project(s, c, out, e))
        return false;
    struct importing x = {.s = s,
                          .c = c,
                          .to = {s, c->user_id, 0, c->storage_bytes},
                          .ids = calloc((size_t)c->n_messages + 1, sizeof *x.ids),
                          .out = out};
    if (!x.ids)
        return err_set(e, ERR_NOMEM, "memory ran out");
    bool ok = store_write_begin_unsynced(s, e) && store_write_end(s, begin(&x, e), e);
    if (ok && !(ok = add_rest(&x, e)))
        building_give_up(&x.to);
    out->id = x.to.id;
    free(x.ids);
    return ok;
}

/* A commit that is synced takes along all that stands before it in the WAL. It must write
 * something. */
bool store_import_sync(struct store *s, int64_t user_id, struct err *e)
{
    sqlite3_stmt *q;
    if (!store_write_begin(s, e))
        return false;
    bool ok = (q = statement_begin(s, QUERY_IMPORT_TOUCH, e)) != NULL;
    if (ok) {
        statement_bind_int(q, ":user_id", user_id);
        ok = statement_run(s, q, NULL, e);
    }
    return store_write_end(s, ok, e);
}
