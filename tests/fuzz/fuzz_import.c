/* Imports of hostile files: JSON, JSONL and ZIP, all formats, told apart by content as ever. The
 * store is a stand-in that looks at what it is given: only whole trees of sound messages may come
 * this far. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "engine/base/json/json.h"
#include "fcgi/import/import.h"
#include "fcgi/attachments/attachment.h"
#include "sql/chats/store_import.h"
#include "sql/files/store_attachments.h"
#include "sql/projects/store_projects.h"

#define FILE_BYTES 1000

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

const char *store_role_name(enum store_role r)
{
    return (const char *const[]){"system", "user", "assistant", "tool"}[r];
}

const char *store_status_name(enum store_status s)
{
    return (const char *const[]){"done", "running", "stopped", "length", "error"}[s];
}

static void must(bool ok)
{
    if (!ok)
        abort();
}

static void is_json(const char *text, char bracket)
{
    struct err e;
    cJSON *v = json_parse(text, strlen(text), &(struct json_limits){.max_depth = 200}, &e);
    must(v && text[0] == bracket);
    cJSON_Delete(v);
}

static void is_text(const char *text)
{
    struct buf b = {0};
    struct err e;
    buf_json_string(&b, text, strlen(text));
    cJSON *v = json_parse(b.data, b.len, NULL, &e);
    must(v && !strcmp(v->valuestring, text)); /* ill-formed bytes would have become U+FFFD */
    cJSON_Delete(v);
    buf_fini(&b);
}

bool store_import_known(struct store *s, int64_t user_id, const char *key, bool *known,
                        struct err *e)
{
    (void)s, (void)e;
    must(user_id == 7 && strlen(key) >= 1 && strlen(key) <= STORE_KEY_BYTES);
    *known = false;
    return true;
}

bool store_project_by_key(struct store *s, int64_t user_id, const char *key, int64_t *id,
                          struct err *e)
{
    (void)s, (void)user_id, (void)e;
    if (!key || !*key)
        abort();
    *id = 0;
    return true;
}

/* Nothing is put into a prompt here. */
bool attachment_block(struct buf *out, const char *head, const char *text)
{
    (void)out, (void)head, (void)text;
    return false;
}

/* As the store's, which reads every byte of both. */
bool store_project_check(const struct store_project_change *c, struct err *e)
{
    if (!c->name || !*c->name || strlen(c->name) > 4 * STORE_PROJECT_NAME)
        return err_field(e, ERR_INPUT, "name", "must have 1 to %d characters", STORE_PROJECT_NAME);
    return !c->instructions || strlen(c->instructions) <= STORE_PROJECT_INSTRUCTIONS ||
           err_field(e, ERR_LIMIT, "instructions", "are too long");
}

bool store_import_sync(struct store *s, int64_t user_id, struct err *e)
{
    (void)s, (void)e;
    return user_id == 7;
}

static void check_message(const struct store_import_message *m, int i)
{
    must(m->parent >= -1 && m->parent < i && m->role < ROLE__N && m->status < MESSAGE__N &&
         m->status != MESSAGE_RUNNING);
    must(m->created_at >= 0 && m->finished_at >= 0);
    const char *const texts[] = {m->content, m->reasoning, m->tool_call_id, m->error, m->model};
    for (size_t k = 0; k < sizeof texts / sizeof texts[0]; k++)
        if (texts[k])
            is_text(texts[k]);
    if (m->tool_calls)
        is_json(m->tool_calls, '[');
    if (m->timings)
        is_json(m->timings, '{');
    must(m->n_files >= 0 && m->n_files <= STORE_MESSAGE_ATTACHMENTS);
    for (int k = 0; k < m->n_files; k++) {
        must(strlen(m->files[k].sha256) == 64 && *m->files[k].name);
        is_text(m->files[k].name);
    }
}

bool store_import_file_known(struct store *s, int64_t user_id, const char *sha256, bool *known,
                             struct err *e)
{
    (void)s, (void)e;
    must(user_id == 7 && strlen(sha256) == 64);
    *known = false;
    return true;
}

bool store_upload_begin(struct store *s, struct store_upload *u, struct err *e)
{
    (void)s, (void)e;
    digest_begin(&u->digest);
    return true;
}

bool store_upload_write(struct store_upload *u, const void *data, size_t len, struct err *e)
{
    (void)e;
    digest_add(&u->digest, data, len);
    u->bytes += (int64_t)len;
    must(u->bytes <= FILE_BYTES);
    return true;
}

void store_upload_drop(struct store_upload *u)
{
    (void)u;
}

static bool take_file(void *context, struct store_upload *u, struct err *e)
{
    (void)context;
    return u->bytes % 2 || err_set(e, ERR_INPUT, "an even file");
}

bool store_import_add(struct store *s, const struct store_import *c, struct store_imported *out,
                      struct err *e)
{
    bool known;
    must(store_import_known(s, c->user_id, c->key, &known, e));
    must(strlen(c->title) <= STORE_TITLE_BYTES && c->leaf >= -1 && c->leaf < c->n_messages &&
         c->n_tags <= STORE_TAGS_MAX);
    is_text(c->title);
    is_json(c->settings, '{');
    for (int i = 0; i < c->n_tags; i++)
        must(*c->tags[i] && strlen(c->tags[i]) <= STORE_TAG_BYTES);
    for (int i = 0; i < c->n_messages; i++)
        check_message(&c->messages[i], i);
    *out = (struct store_imported){.id = 1};
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct import_report r;
    struct err e = {0};
    struct buf out = {0};
    int fd = memfd_create("import", 0);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size)
        abort();
    bool ok = import_run(
        &(struct import_params){
            .user_id = 7, .fd = fd, .take_file = take_file, .max_file_bytes = FILE_BYTES},
        &r, &e);
    must(ok || e.code != ERR_NONE);
    must(r.conversations == r.imported + r.duplicates + r.failed || e.code == ERR_NOMEM);
    import_report_json(&out, &r, false, ok ? NULL : &e);
    is_json(out.data, '{');
    buf_fini(&out);
    close(fd);
    return 0;
}
