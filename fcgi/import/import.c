/* Reads a stream conversation by conversation: each is parsed, recognised, converted and stored by
 * itself. */
#include "fcgi/import/import.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/arena.h"
#include "engine/base/json/json.h"
#include "engine/base/json/json_repair.h"
#include "fcgi/import/formats.h"
#include "fcgi/import/import_internal.h"
#include "sql/chats/store_import.h"
#include "sql/core/secret.h"
#include "sql/projects/store_projects.h"

#define ARENA_BYTES ((size_t)192 << 20)
#define BUSY_TRIES 6 /* of 5 s each: others write long */

struct file {
    struct import_run *run;
    int fd;
};

static int64_t read_file(void *context, void *to, size_t size, struct err *e)
{
    struct file *f = context;
    ssize_t n;
    while ((n = pread(f->fd, to, size, (off_t)f->run->bytes)) < 0 && errno == EINTR)
        ;
    if (n < 0)
        return err_errno(e, "reading the file") - 1;
    f->run->bytes += n;
    return n;
}

/* The index of the hash, or of the free place for it. */
static size_t place_of(const uint64_t *table, size_t cap, uint64_t hash)
{
    size_t at = (hash >> 1) & (cap - 1);
    while (table[at] && table[at] != hash)
        at = (at + 1) & (cap - 1);
    return at;
}

static uint64_t hash_of(const char *text)
{
    return secret_table_hash(text) | 1;
}

static bool seen_in(const struct import_seen *seen, const char *text)
{
    return seen->n && seen->table[place_of(seen->table, seen->cap, hash_of(text))];
}

void import_see(struct import_seen *seen, const char *text)
{
    if (seen->n * 2 >= seen->cap) {
        const size_t cap = seen->cap ? seen->cap * 2 : 1024;
        uint64_t *more = calloc(cap, sizeof *more);
        if (!more)
            return; /* the dry run then counts duplicates as new */
        for (size_t i = 0; i < seen->cap; i++)
            if (seen->table[i])
                more[place_of(more, cap, seen->table[i])] = seen->table[i];
        free(seen->table);
        seen->table = more;
        seen->cap = cap;
    }
    const size_t at = place_of(seen->table, seen->cap, hash_of(text));
    seen->n += !seen->table[at];
    seen->table[at] = hash_of(text);
}

static bool look_for_file(struct import_run *x, const char *sha256, struct store_imported *out,
                          struct err *e)
{
    bool known = seen_in(&x->files, sha256);
    if (!known && !store_import_file_known(x->params->store, x->params->user_id, sha256, &known, e))
        return false;
    out->n_files += known;
    out->n_missing += !known;
    return true;
}

/* The files of a project that the conversation would make. */
static bool look_for_project(struct import_run *x, const struct store_import *c,
                             struct store_imported *out, struct err *e)
{
    int64_t id = 0;
    const struct store_import_project *p = c->project;
    const char *key = p ? arena_printf(x->arena, "project %s", p->key) : NULL;
    if (!key || seen_in(&x->keys, key))
        return true;
    import_see(&x->keys, key);
    if (!store_project_by_key(x->params->store, x->params->user_id, p->key, &id, e))
        return false;
    for (int i = 0; i < p->n_files && !id; i++)
        if (!look_for_file(x, p->files[i].sha256, out, e))
            return false;
    return true;
}

/* A dry run counts the files that a real one would have, from the archive or from before. */
static bool look_for_files(struct import_run *x, const struct store_import *c,
                           struct store_imported *out, struct err *e)
{
    for (int i = 0; i < c->n_messages; i++)
        for (int k = 0; k < c->messages[i].n_files; k++)
            if (!look_for_file(x, c->messages[i].files[k].sha256, out, e))
                return false;
    return true;
}

/* *known: it is there already. */
static bool write_or_look(struct import_run *x, const struct store_import *c, bool *known,
                          struct store_imported *out, struct err *e)
{
    const struct import_params *p = x->params;
    struct err why = {0};
    if (!store_import_known(p->store, p->user_id, c->key, known, e))
        return false;
    if (p->dry_run) {
        *known = *known || seen_in(&x->keys, c->key);
        import_see(&x->keys, c->key);
        return look_for_files(x, c, out, e) && (*known || look_for_project(x, c, out, e));
    }
    if (*known)
        return true;
    for (int i = 0; i < BUSY_TRIES; i++) {
        why.code = ERR_NONE;
        if (store_import_add(p->store, c, out, &why) || why.code != ERR_BUSY)
            break;
    }
    *known = why.code == ERR_CONFLICT;
    return why.code == ERR_NONE || *known || err_field(e, why.code, why.field, "%s", why.text);
}

static void note_format(struct import_report *r, const char *name)
{
    r->format = !r->format || !strcmp(r->format, name) ? name : "mixed";
}

struct item { /* one conversation of the file */
    const cJSON *json;
    struct json_slice text; /* of which it was parsed */
};

/* A wrong one would come back as an error of each later message. */
static bool check_settings(const struct import_run *x, const struct item *item, struct err *e)
{
    const struct import_params *p = x->params;
    const cJSON *settings = json_member(item->json, "settings");
    struct err why = {0};
    if (!p->check_settings || p->check_settings(p->context, settings, x->arena, &why))
        return true;
    return err_field(e, why.code, arena_printf(x->arena, "settings.%s", why.field), "%s", why.text);
}

/* A parsed conversation. True: done, or *why says what is wrong with it alone. */
static bool take_tree(struct import_run *x, const struct import_format *f, const struct item *item,
                      struct err *why, struct err *e)
{
    struct draft d;
    struct store_imported done = {0};
    bool known = false;
    draft_begin(&d, x->arena);
    bool good = f->read(&d, item->json, item->text, why) &&
                (f->whole ? check_settings(x, item, why) : draft_finish(&d, f->name, why));
    d.out.user_id = x->params->user_id;
    d.out.storage_bytes = x->params->storage_bytes;
    bool ok = !good || write_or_look(x, &d.out, &known, &done, e);
    if (good && ok) {
        note_format(x->report, f->name);
        x->report->duplicates += known;
        x->report->imported += !known;
        x->report->messages += known ? 0 : d.out.n_messages;
        x->report->attachments += known ? 0 : done.n_files;
        x->report->without_project += done.without_project;
        x->report->attachments_missing += known ? 0 : d.n_missing + done.n_missing;
    }
    draft_end(&d);
    return ok;
}

static cJSON *parse(struct import_run *x, struct split *s, struct err *why)
{
    if (s->too_large)
        err_set(why, ERR_LIMIT, "one conversation may have %zu MB of JSON, this has more",
                IMPORT_ITEM_BYTES >> 20);
    else if (s->too_deep)
        err_set(why, ERR_LIMIT, "it is nested deeper than %d levels", IMPORT_TREE_DEPTH);
    else if (json_count_values(s->item.data, s->item.len) > IMPORT_ITEM_VALUES)
        err_set(why, ERR_LIMIT, "one conversation may hold %zu JSON values, this has more",
                IMPORT_ITEM_VALUES);
    else {
        x->report->replaced += json_repair(s->item.data, s->item.len, JSON_REPAIR_ALL, NULL);
        return json_parse(s->item.data, s->item.len,
                          &(struct json_limits){.max_depth = IMPORT_TREE_DEPTH}, why);
    }
    return NULL;
}

void import_problem(struct import_run *x, const char *item, const struct err *why)
{
    struct import_report *r = x->report;
    if (r->n_problems++ >= IMPORT_PROBLEMS)
        return;
    struct import_problem *p = &r->problems[r->n_problems - 1];
    snprintf(p->item, sizeof p->item, "%s", item);
    snprintf(p->path, sizeof p->path, "%s", why->field);
    snprintf(p->reason, sizeof p->reason, "%.*s", (int)sizeof p->reason - 1, why->text);
    char *const texts[] = {p->item, p->path, p->reason};
    for (int i = 0; i < 3; i++)
        for (char *c = texts[i]; *c; c++)
            if ((unsigned char)*c < 0x20 || *c == 0x7F)
                *c = '?';
}

static void name_item(const struct split *s, const char *entry, char *out, size_t size)
{
    const long long i = (long long)s->n_items - 1;
    const char *name = entry ? entry : "";
    if (s->place == SPLIT_TOP)
        snprintf(out, size, i > 0 || !entry ? "%.120s%svalue %lld" : "%.120s", name,
                 entry ? ": " : "", i + 1);
    else
        snprintf(out, size, "%.120s%s[%lld]", name,
                 s->place == SPLIT_ENVELOPE ? (entry ? ": conversations" : "conversations") : "",
                 i);
}

/* *skip: an archive's entry that is no list of conversations at all. */
static bool take_item(struct import_run *x, struct split *s, const char *entry, bool *skip,
                      struct err *e)
{
    struct err why = {0};
    char name[160];
    bool ok = true;
    cJSON *item = parse(x, s, &why);
    const struct import_format *f = item ? import_format_of(item) : NULL;
    *skip = entry && item && !f && s->n_items == 1;
    if (!*skip) {
        x->report->conversations++;
        if (s->deep && item && !(f && f->deep))
            err_set(&why, ERR_LIMIT, "it is nested deeper than %d levels", IMPORT_DEPTH);
        else if (f)
            ok = take_tree(x, f, &(struct item){item, json_slice_of(s->item.data, s->item.len)},
                           &why, e);
        else if (item)
            err_set(&why, ERR_INPUT, "this is not a conversation in a form that is known here");
        if (why.code != ERR_NONE) {
            x->report->failed++;
            name_item(s, entry, name, sizeof name);
            import_problem(x, name, &why);
        }
        x->report->conversations -= !ok; /* neither in nor wrong: the import ends before it */
    }
    cJSON_Delete(item);
    arena_reset(x->arena);
    return ok;
}

/* The envelope up to its list, closed, and after the list as a whole. */
static bool check_envelope(struct import_run *x, struct split *s, struct err *e)
{
    struct buf head = {0};
    const struct buf *text = &s->item;
    if (!s->in_envelope) {
        buf_append(&head, s->envelope.data, s->envelope.len);
        buf_puts(&head, "]}");
        text = &head;
    }
    cJSON *o = head.failed ? NULL
                           : json_parse(text->data, text->len,
                                        &(struct json_limits){.max_depth = IMPORT_DEPTH}, e);
    bool ok = o && import_envelope_check(o, e);
    x->found |= ok;
    cJSON_Delete(o);
    buf_fini(&head);
    return ok;
}

static bool tell(struct import_run *x, struct err *e)
{
    const struct import_params *p = x->params;
    const struct import_progress now = {
        .bytes = x->bytes, .total_bytes = x->total_bytes, .report = x->report};
    return !p->progress || p->progress(p->context, &now) ||
           err_set(e, ERR_CANCELLED, "the import was stopped");
}

/* False with why->code: this stream can't be read on. False with e->code: the import ends. */
static bool take_stream(struct import_run *x, struct split *s, const char *entry, struct err *why,
                        struct err *e)
{
    bool more, skip = false;
    for (int n_envelopes = 0; split_next(s, &more, why);) {
        if ((s->n_envelopes != n_envelopes || s->in_envelope) && !check_envelope(x, s, why))
            return false;
        n_envelopes = s->n_envelopes;
        if (!more) {
            x->found |= s->n_items == 0 && !skip;
            return true;
        }
        if (s->in_envelope)
            continue;
        if (!take_item(x, s, entry, &skip, e) || !tell(x, e))
            return false;
        x->found |= !skip;
        if (skip) {
            x->report->skipped_files++;
            return true;
        }
    }
    return false;
}

bool import_stream(struct import_run *x, split_read_fn read, void *context, const char *entry,
                   struct err *e)
{
    struct err why = {0};
    struct split *s = malloc(sizeof *s);
    if (!s)
        return err_set(e, ERR_NOMEM, "memory ran out");
    split_begin(s, read, context);
    const int first = split_peek(s, &why);
    bool ok = true;
    if (first == '{' || first == '[')
        ok = take_stream(x, s, entry, &why, e);
    else if (first >= 0 && entry)
        x->report->skipped_files++;
    else if (first >= 0)
        (void)(err_set(&why, ERR_INPUT,
                       first ? "this is neither JSON nor a ZIP archive" : "the file is empty") ||
               err_reason(&why, "import_unknown"));
    split_fini(s);
    free(s);
    if (why.code == ERR_NONE)
        return ok;
    if (entry && why.code == ERR_UNSUPPORTED) { /* our own archive's index, say */
        x->report->skipped_files++;
        return true;
    }
    if (!entry || (why.code != ERR_INPUT && why.code != ERR_FORMAT)) {
        *e = why;
        return false;
    }
    x->report->failed++;
    x->report->conversations++;
    import_problem(x, entry, &why);
    return e->code == ERR_NONE;
}

static bool run(struct import_run *x, struct err *e)
{
    char head[4] = "";
    struct stat st;
    struct file f = {.run = x, .fd = x->params->fd};
    if (fstat(f.fd, &st) != 0 || !S_ISREG(st.st_mode) || pread(f.fd, head, sizeof head, 0) < 0)
        return err_set(e, ERR_INPUT, "this is not a file that can be read");
    x->total_bytes = st.st_size;
    if (!memcmp(head, "PK\3\4", 4) || !memcmp(head, "PK\5\6", 4))
        return import_archive(x, e);
    return import_stream(x, read_file, &f, NULL, e);
}

bool import_run(const struct import_params *p, struct import_report *report, struct err *e)
{
    struct err none = {0};
    struct import_run x = {.params = p, .report = report, .arena = arena_create(ARENA_BYTES)};
    memset(report, 0, sizeof *report);
    e = e ? e : &none;
    e->code = ERR_NONE;
    bool ok = x.arena ? run(&x, e) : err_set(e, ERR_NOMEM, "memory ran out");
    struct err why = {0};
    if (report->imported && !p->dry_run && !store_import_sync(p->store, p->user_id, &why) && ok)
        ok = err_set(e, why.code, "%s", why.text);
    if (ok && !x.found)
        ok = err_set(e, ERR_INPUT, "there are no conversations in this file");
    free(x.keys.table);
    free(x.files.table);
    arena_destroy(&x.arena);
    return ok;
}
