/* Our own export, docs/export.schema.json: read strictly, kept byte for byte, so that it goes out
 * again as it came. */
#include <stdio.h>
#include <string.h>

#include "engine/base/arena.h"
#include "engine/base/json/json.h"
#include "fcgi/http/file_name.h"
#include "fcgi/import/formats.h"
#include "fcgi/import/import.h"
#include "fcgi/projects/project.h"
#include "sql/files/store_attachments.h"

#define SCHEMA "sluice-export"
#define VERSION 1

static const char *const conversation_members[] = {
    "key",     "title", "created_at", "updated_at", "pinned",   "archived", "trashed_at",
    "fork_of", "tags",  "settings",   "leaf",       "messages", NULL};
static const char *const conversation_more[] = {"project", NULL}; /* that may be there */
static const char *const message_more[] = {"sources", NULL};
static const char *const message_members[] = {
    "id",         "parent",       "role",        "status", "content", "reasoning",
    "tool_calls", "tool_call_id", "error",       "model",  "usage",   "timings",
    "created_at", "finished_at",  "attachments", NULL};

bool import_envelope_check(const cJSON *head, struct err *e)
{
    const cJSON *schema = json_member(head, "schema"), *version = json_member(head, "version");
    if (!schema) /* another program's list of conversations: each one is looked at by itself */
        return true;
    if (!cJSON_IsString(schema) || strcmp(schema->valuestring, SCHEMA) != 0)
        return err_field(e, ERR_UNSUPPORTED, "schema", "must be \"" SCHEMA "\"");
    if (!cJSON_IsNumber(version) || version->valuedouble != VERSION)
        return err_field(e, ERR_INPUT, "version", "this server reads version %d of its exports",
                         VERSION);
    return true;
}

static bool is(const cJSON *item)
{
    return cJSON_IsString(json_member(item, "key")) &&
           cJSON_IsArray(json_member(item, "messages")) && json_member(item, "settings");
}

static bool is_among(const char *name, const char *const *names)
{
    while (names && *names && strcmp(*names, name) != 0)
        names++;
    return names && *names;
}

/* All that are named are there, and no others but those of `more` (NULL: none). */
static bool check_members(const cJSON *o, const char *const *names, const char *const *more,
                          struct err *e)
{
    const cJSON *m;
    int n = 0;
    for (; names[n]; n++)
        if (!cJSON_GetObjectItemCaseSensitive(o, names[n]))
            return err_field(e, ERR_INPUT, names[n], "is missing");
    cJSON_ArrayForEach (m, o) {
        if (!is_among(m->string, names) && !is_among(m->string, more))
            return err_field(e, ERR_INPUT, m->string, "is not known to version %d", VERSION);
    }
    return true;
}

static bool must(const char *name, bool ok, const char *what, struct err *e)
{
    return ok || err_field(e, ERR_INPUT, name, "must be %s", what);
}

static bool get_text(const cJSON *o, const char *name, bool nullable, const char **out,
                     struct err *e)
{
    const cJSON *v = cJSON_GetObjectItemCaseSensitive(o, name);
    *out = cJSON_IsString(v) ? v->valuestring : NULL;
    return must(name, *out || (nullable && cJSON_IsNull(v)),
                nullable ? "a string or null" : "a string", e);
}

static bool get_flag(const cJSON *o, const char *name, bool *out, struct err *e)
{
    const cJSON *v = cJSON_GetObjectItemCaseSensitive(o, name);
    *out = cJSON_IsTrue(v);
    return must(name, cJSON_IsBool(v), "true or false", e);
}

/* A whole number from min; null: `missing`, where that is not below 0. */
static bool get_count(const cJSON *o, const char *name, int64_t min, int64_t *out, struct err *e)
{
    const cJSON *v = cJSON_GetObjectItemCaseSensitive(o, name);
    *out = -1;
    return must(name, cJSON_IsNumber(v), "a whole number", e) &&
           json_get_int(o, name, min, INT64_C(1) << 52, out, e);
}

/* The same, where null stands for 0. */
static bool get_count_or_null(const cJSON *o, const char *name, int64_t min, int64_t *out,
                              struct err *e)
{
    if (!cJSON_IsNull(cJSON_GetObjectItemCaseSensitive(o, name)))
        return get_count(o, name, min, out, e);
    *out = 0;
    return true;
}

static bool read_key(const cJSON *o, const char *name, bool nullable, const char **out,
                     struct err *e)
{
    if (!get_text(o, name, nullable, out, e))
        return false;
    if (!*out)
        return true;
    size_t n = strspn(*out, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._:-");
    return must(name, n > 0 && n <= STORE_KEY_BYTES && !(*out)[n],
                "1 to 64 letters, digits and . _ : -", e);
}

static bool read_tags(struct draft *d, const cJSON *item, struct err *e)
{
    const cJSON *tags = json_member(item, "tags"), *tag;
    if (!must("tags", cJSON_IsArray(tags), "an array of strings", e))
        return false;
    cJSON_ArrayForEach (tag, tags) {
        const int before = d->out.n_tags;
        if (cJSON_IsString(tag))
            draft_tag(d, tag->valuestring);
        if (d->out.n_tags == before)
            return err_field(e, ERR_INPUT, "tags",
                             "must be at most %d texts of 1 to %d bytes without control characters",
                             STORE_TAGS_MAX, STORE_TAG_BYTES);
    }
    d->out.tags = d->tags;
    return true;
}

static const char *keep(struct draft *d, struct json_slice s, struct err *e)
{
    char *copy = arena_copy(d->arena, s.text ? s.text : "", s.len);
    if (!copy)
        draft_no_memory(e);
    return copy;
}

struct json_field { /* a member that is kept as the JSON that it is */
    const char *name;
    char bracket; /* with which it begins */
    bool nullable;
    size_t max; /* bytes */
};
static const struct json_field tool_calls_field = {"tool_calls", '[', true, IMPORT_TEXT_BYTES};
static const struct json_field timings_field = {"timings", '{', true, IMPORT_TEXT_BYTES};
static const struct json_field sources_field = {"sources", '{', false, PROJECT_SOURCES_BYTES};
static const struct json_field settings_field = {"settings", '{', false, STORE_SETTINGS_BYTES};

/* As written, when it is of that type; NULL for null. */
static bool read_json(struct draft *d, struct json_slice o, const struct json_field *f,
                      const char **out, struct err *e)
{
    struct json_slice s = json_slice_member(o, f->name);
    *out = NULL;
    if (f->nullable && s.len == 4 && s.text[0] == 'n')
        return true;
    if (!s.text || s.text[0] != f->bracket)
        return must(f->name, false, f->bracket == '{' ? "an object" : "an array", e);
    if (s.len > f->max)
        return err_field(e, ERR_INPUT, f->name, "is longer than %zu bytes", f->max);
    return (*out = keep(d, s, e)) != NULL;
}

/* Which tool servers a chat uses is for its user to say, never for a file: a name in it may be that
 * of another server here. */
static bool read_settings(struct draft *d, const cJSON *item, struct json_slice text, struct err *e)
{
    const cJSON *settings = json_member(item, "settings");
    struct buf b = {0};
    if (!read_json(d, text, &settings_field, &d->out.settings, e))
        return false;
    if (!cJSON_GetObjectItemCaseSensitive(settings, "tool_servers"))
        return true;
    cJSON *own = cJSON_Duplicate(settings, true);
    cJSON_DeleteItemFromObjectCaseSensitive(own, "tool_servers");
    d->out.settings = own && json_write(&b, own) ? arena_copy(d->arena, b.data, b.len) : NULL;
    cJSON_Delete(own);
    buf_fini(&b);
    return d->out.settings || draft_no_memory(e);
}

static bool read_usage(const cJSON *o, struct store_import_message *m, struct err *e)
{
    static const char *const members[] = {"prompt_tokens", "cached_tokens", "completion_tokens",
                                          NULL};
    const cJSON *usage = cJSON_GetObjectItemCaseSensitive(o, "usage");
    m->has_usage = cJSON_IsObject(usage);
    if (!m->has_usage)
        return must("usage", cJSON_IsNull(usage), "an object or null", e);
    return check_members(usage, members, NULL, e) &&
           get_count(usage, "prompt_tokens", 0, &m->prompt_tokens, e) &&
           get_count(usage, "cached_tokens", 0, &m->cached_tokens, e) &&
           get_count(usage, "completion_tokens", 0, &m->completion_tokens, e);
}

static bool read_place(const cJSON *o, int index, struct store_import_message *m, struct err *e)
{
    int64_t id, parent;
    if (!get_count(o, "id", 1, &id, e) || !get_count_or_null(o, "parent", 1, &parent, e))
        return false;
    m->parent = (int)parent - 1;
    return must("id", id == index + 1, "the message's place in the list, from 1", e) &&
           must("parent", parent <= index, "the id of an earlier message, or null", e);
}

static bool read_words(const cJSON *o, struct store_import_message *m, struct err *e)
{
    const char *role, *status;
    int i = 0;
    if (!get_text(o, "role", false, &role, e) || !get_text(o, "status", false, &status, e))
        return false;
    while (i < ROLE__N && strcmp(role, store_role_name((enum store_role)i)) != 0)
        i++;
    m->role = (enum store_role)i;
    if (!must("role", i < ROLE__N, "system, user, assistant or tool", e))
        return false;
    for (i = 0; i < MESSAGE__N && strcmp(status, store_status_name((enum store_status)i)) != 0;)
        i++;
    m->status = (enum store_status)i;
    return must("status", i < MESSAGE__N && i != MESSAGE_RUNNING, "done, stopped, length or error",
                e);
}

/* Names from outside are cleaned as an upload's are: they go into headers and prompts. Our own
 * exports' stay as they are. */
static bool read_file(struct draft *d, const cJSON *o, struct store_import_file *f, struct err *e)
{
    static const char *const members[] = {"sha256", "name", "mime", "size", NULL};
    const char *mime;
    char clean_name[FILE_NAME_SIZE];
    int64_t size;
    if (!must("attachments", cJSON_IsObject(o), "an array of objects", e) ||
        !check_members(o, members, NULL, e) || !get_text(o, "sha256", false, &f->sha256, e) ||
        !get_text(o, "name", false, &f->name, e) || !get_text(o, "mime", false, &mime, e) ||
        !get_count(o, "size", 0, &size, e))
        return false;
    const size_t n = strlen(f->name);
    bool clean = n >= 1 && n <= STORE_FILE_NAME_BYTES;
    for (const char *p = f->name; *p; p++)
        clean = clean && (unsigned char)*p >= 0x20 && *p != 0x7F;
    if (!must("name", clean, "1 to 255 bytes without control characters", e))
        return false;
    file_name_clean(f->name, n, clean_name);
    if (strcmp(clean_name, f->name) != 0 && !(f->name = arena_strdup(d->arena, clean_name)))
        return draft_no_memory(e);
    return must("sha256", strspn(f->sha256, "0123456789abcdef") == 64 && !f->sha256[64],
                "64 lower case hexadecimal digits", e);
}

static bool read_files(struct draft *d, const cJSON *list, struct store_import_message *m,
                       struct err *e)
{
    const cJSON *o;
    const int n = cJSON_GetArraySize(list);
    if (!n)
        return true;
    if (n > STORE_MESSAGE_ATTACHMENTS)
        return err_field(e, ERR_INPUT, "attachments", "a message takes at most %d",
                         STORE_MESSAGE_ATTACHMENTS);
    struct store_import_file *files = arena_alloc(d->arena, (size_t)n * sizeof *files);
    if (!files)
        return draft_no_memory(e);
    cJSON_ArrayForEach (o, list)
        if (!read_file(d, o, &files[m->n_files++], e))
            return false;
    m->files = files;
    return true;
}

/* What it was given of its project; absent in an answer that was in none. */
static bool read_sources(struct draft *d, const cJSON *o, struct json_slice text,
                         struct store_import_message *m, struct err *e)
{
    const cJSON *sources = cJSON_GetObjectItemCaseSensitive(o, "sources");
    return !sources ||
           (must("sources", project_sources_fit(sources), "what docs/export.schema.json says", e) &&
            read_json(d, text, &sources_field, &m->sources, e));
}

static bool read_project(struct draft *d, const cJSON *item, struct err *e)
{
    static const char *const members[] = {"key", "name", "colour", "instructions", "files", NULL};
    const cJSON *o = cJSON_GetObjectItemCaseSensitive(item, "project"), *f;
    const cJSON *files = json_member(o, "files");
    int64_t colour;
    if (!o)
        return true;
    struct store_import_project *p = arena_alloc(d->arena, sizeof *p);
    struct store_import_file *list = arena_alloc(d->arena, STORE_PROJECT_FILES * sizeof *list);
    if (!p || !list)
        return draft_no_memory(e);
    *p = (struct store_import_project){.files = list};
    if (!must("project", cJSON_IsObject(o), "an object", e) ||
        !check_members(o, members, NULL, e) || !read_key(o, "key", false, &p->key, e) ||
        !get_text(o, "name", false, &p->name, e) ||
        !get_text(o, "instructions", false, &p->instructions, e) ||
        !get_count(o, "colour", 0, &colour, e) ||
        !must("colour", colour < STORE_PROJECT_COLOURS, "0 to 7", e) ||
        !must("files", cJSON_IsArray(files) && cJSON_GetArraySize(files) <= STORE_PROJECT_FILES,
              "an array of at most 100 files", e) ||
        !store_project_check(&(struct store_project_change){.name = p->name,
                                                            .instructions = p->instructions,
                                                            .colour = (int)colour},
                             e))
        return false;
    p->colour = (int)colour;
    cJSON_ArrayForEach (f, files)
        if (!read_file(d, f, &list[p->n_files++], e))
            return false;
    d->out.project = p;
    return true;
}

/* The page draws a card for each. */
static bool are_objects(const cJSON *list)
{
    const cJSON *item;
    cJSON_ArrayForEach (item, list) {
        if (!cJSON_IsObject(item))
            return false;
    }
    return true;
}

static bool read_message(struct draft *d, const cJSON *o, struct json_slice text,
                         struct store_import_message *m, struct err *e)
{
    const cJSON *attachments = json_member(o, "attachments");
    if (!must("", cJSON_IsObject(o), "an object", e) ||
        !check_members(o, message_members, message_more, e) ||
        !read_place(o, d->out.n_messages, m, e) || !read_words(o, m, e) ||
        !get_text(o, "content", false, &m->content, e) ||
        !get_text(o, "reasoning", false, &m->reasoning, e) ||
        !get_text(o, "tool_call_id", true, &m->tool_call_id, e) ||
        !get_text(o, "error", true, &m->error, e) || !get_text(o, "model", true, &m->model, e) ||
        !read_usage(o, m, e) || !read_json(d, text, &tool_calls_field, &m->tool_calls, e) ||
        !must("tool_calls", are_objects(json_member(o, "tool_calls")),
              "an array of objects or null", e) ||
        !read_json(d, text, &timings_field, &m->timings, e) || !read_sources(d, o, text, m, e) ||
        !get_count(o, "created_at", 0, &m->created_at, e) ||
        !get_count(o, "finished_at", 0, &m->finished_at, e) ||
        !must("attachments", cJSON_IsArray(attachments), "an array", e))
        return false;
    return read_files(d, attachments, m, e);
}

static bool in_message(struct err *e, int index)
{
    char at[64];
    snprintf(at, sizeof at, "messages[%d]%s%.40s", index, e->field[0] ? "." : "", e->field);
    memcpy(e->field, at, sizeof at);
    return false;
}

static bool read_messages(struct draft *d, const cJSON *item, struct json_slice text, struct err *e)
{
    const cJSON *list = json_member(item, "messages"), *o;
    const int n = cJSON_GetArraySize(list);
    struct json_slice array = json_slice_member(text, "messages"), at = {0};
    struct store_import_message *messages =
        arena_alloc(d->arena, ((size_t)n + 1) * sizeof *messages);
    if (!messages)
        return draft_no_memory(e);
    d->out.messages = messages;
    cJSON_ArrayForEach (o, list) {
        at = json_slice_next(array, at);
        if (!read_message(d, o, at, &messages[d->out.n_messages], e))
            return in_message(e, d->out.n_messages);
        d->out.n_messages++;
    }
    return true;
}

static bool read(struct draft *d, const cJSON *item, struct json_slice text, struct err *e)
{
    struct store_import *c = &d->out;
    int64_t leaf;
    if (!check_members(item, conversation_members, conversation_more, e) ||
        !read_key(item, "key", false, &c->key, e) ||
        !get_text(item, "title", false, &c->title, e) ||
        !get_count(item, "created_at", 0, &c->created_at, e) ||
        !get_count(item, "updated_at", 0, &c->updated_at, e) ||
        !get_flag(item, "pinned", &c->pinned, e) || !get_flag(item, "archived", &c->archived, e) ||
        !get_count_or_null(item, "trashed_at", 0, &c->trashed_at, e) ||
        !read_key(item, "fork_of", true, &c->fork_of, e) || !read_tags(d, item, e) ||
        !read_settings(d, item, text, e) || !read_project(d, item, e) ||
        !get_count_or_null(item, "leaf", 1, &leaf, e) || !read_messages(d, item, text, e))
        return false;
    c->leaf = (int)leaf - 1;
    return must("title", strlen(c->title) <= STORE_TITLE_BYTES, "at most 512 bytes long", e) &&
           must("leaf", leaf <= c->n_messages, "the id of a message, or null", e);
}

const struct import_format format_sluice = {
    .name = "sluice", .is = is, .read = read, .whole = true};
