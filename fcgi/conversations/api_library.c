/* /api/presets and /api/prompts: what a user keeps by name. Both are the same but for what an entry
 * holds. */
#include <stdio.h>
#include <string.h>

#include "engine/base/json/json.h"
#include "fcgi/conversations/conversation.h"
#include "fcgi/http/path_id.h"
#include "fcgi/http/reply.h"
#include "fcgi/http/request.h"
#include "fcgi/openai/chat_request.h"
#include "sql/chats/store_library.h"

#define MAX_REPLY ((size_t)64 << 20)

static const struct kind {
    enum store_kind store;
    const char *holds; /* the member's name */
    bool json;         /* an object; else a text */
} presets = {KIND_PRESET, "settings", true}, prompts = {KIND_PROMPT, "text", false};

static const struct field_row preset_fields[] = {
    {"name", FIELD_READ}, {"settings", FIELD_READ}, {0}};
static const struct field_row prompt_fields[] = {{"name", FIELD_READ}, {"text", FIELD_READ}, {0}};

struct list {
    struct buf out;
    const struct kind *kind;
};

static void put_entry(struct buf *out, const struct kind *k, const struct store_entry *x)
{
    buf_printf(out, "{\"id\":\"%lld\",\"name\":", (long long)x->id);
    buf_json_string(out, x->name, strlen(x->name));
    buf_printf(out, ",\"%s\":", k->holds);
    if (k->json)
        buf_puts(out, x->body);
    else
        buf_json_string(out, x->body, strlen(x->body));
    buf_printf(out, ",\"created_at\":%lld,\"updated_at\":%lld}", (long long)x->created_at,
               (long long)x->updated_at);
}

static bool add_entry(void *context, const struct store_entry *x)
{
    struct list *l = context;
    if (!buf_ends_with(&l->out, '['))
        buf_putc(&l->out, ',');
    put_entry(&l->out, l->kind, x);
    return !l->out.failed;
}

static bool send_list(struct request *r, const struct kind *k, struct err *e)
{
    struct list l = {.out = {.limit = MAX_REPLY}, .kind = k};
    buf_puts(&l.out, "{\"items\":[");
    bool ok = store_library_list(
        r->store, &(struct store_entry_ref){.user_id = r->who.user_id, .kind = k->store}, add_entry,
        &l, e);
    buf_puts(&l.out, "]}");
    if (ok)
        reply_json_buf(r, 200, &l.out);
    buf_fini(&l.out);
    return ok;
}

static bool send_entry(struct request *r, const struct kind *k, int status, int64_t id,
                       struct err *e)
{
    struct store_entry x;
    struct buf out = {.limit = MAX_REPLY};
    if (!store_library_get(
            r->store, r->arena,
            &(struct store_entry_ref){.user_id = r->who.user_id, .kind = k->store, .id = id}, &x,
            e))
        return false;
    put_entry(&out, k, &x);
    reply_json_buf(r, status, &out);
    buf_fini(&out);
    return true;
}

/* A prompt's name is typed after a slash: no blanks. */
static bool check_name(const struct kind *k, const char *name, struct err *e)
{
    size_t characters = 0;
    for (const char *p = name; *p; p++) {
        characters += ((unsigned char)*p & 0xc0) != 0x80;
        if ((unsigned char)*p < 0x20 || *p == 0x7f)
            return err_field(e, ERR_INPUT, "name", "holds a control character");
        if (k == &prompts && (*p == ' ' || *p == '/'))
            return err_field(e, ERR_INPUT, "name",
                             "is typed after a slash: no blank or slash can be in it");
    }
    if (!characters || characters > STORE_LIBRARY_NAME || strspn(name, " ") == strlen(name))
        return err_field(e, ERR_INPUT, "name", "must have 1 to %d characters", STORE_LIBRARY_NAME);
    return true;
}

/* Checked, as conversations would take them; *body is in the arena. */
static bool read_settings(struct request *r, const cJSON *sent, const char **body, struct err *e)
{
    const cJSON *settings = NULL;
    if (!json_get_object(sent, "settings", &settings, e))
        return false;
    if (!settings)
        return true;
    struct buf text = {0};
    cJSON *checked = conversation_settings(r, "{}", settings, e);
    bool ok = checked &&
              (json_write(&text, checked) || err_set(e, ERR_NOMEM, "no memory for the settings"));
    if (ok && text.len > STORE_LIBRARY_BYTES)
        ok = err_field(e, ERR_LIMIT, "settings", "are longer than %d bytes", STORE_LIBRARY_BYTES);
    if (ok && !(*body = arena_strdup(r->arena, text.data)))
        ok = err_set(e, ERR_NOMEM, "no memory for the settings");
    cJSON_Delete(checked);
    buf_fini(&text);
    return ok;
}

static bool read_entry(struct request *r, const struct kind *k, const char **name,
                       const char **body, struct err *e)
{
    const cJSON *sent = request_json(r, e);
    if (!sent || !fields_check(r, sent, k->json ? preset_fields : prompt_fields, e) ||
        !json_get_string(sent, "name", name, e) || (*name && !check_name(k, *name, e)))
        return false;
    if (k->json)
        return read_settings(r, sent, body, e);
    if (!json_get_string(sent, "text", body, e))
        return false;
    if (*body && strspn(*body, " \t\r\n") == strlen(*body))
        return err_field(e, ERR_INPUT, "text", "is empty");
    return !*body || strlen(*body) <= STORE_LIBRARY_BYTES ||
           err_field(e, ERR_LIMIT, "text", "is longer than %d bytes", STORE_LIBRARY_BYTES);
}

static bool add(struct request *r, const struct kind *k, struct err *e)
{
    const char *name = NULL, *body = NULL;
    int64_t id;
    if (!read_entry(r, k, &name, &body, e))
        return false;
    if (!name || !body)
        return err_field(e, ERR_INPUT, name ? k->holds : "name", "is needed");
    return store_library_add(r->store,
                             &(struct store_entry_ref){.user_id = r->who.user_id, .kind = k->store},
                             &(struct store_entry){.name = name, .body = body}, &id, e) &&
           send_entry(r, k, 201, id, e);
}

static bool change(struct request *r, const struct kind *k, struct err *e)
{
    const char *name = NULL, *body = NULL;
    int64_t id;
    return path_id_param(r, "id", &id, e) && read_entry(r, k, &name, &body, e) &&
           store_library_change(
               r->store,
               &(struct store_entry_ref){.user_id = r->who.user_id, .kind = k->store, .id = id},
               &(struct store_entry){.name = name, .body = body}, e) &&
           send_entry(r, k, 200, id, e);
}

static bool remove_entry(struct request *r, const struct kind *k, struct err *e)
{
    int64_t id;
    return path_id_param(r, "id", &id, e) &&
           store_library_remove(
               r->store,
               &(struct store_entry_ref){.user_id = r->who.user_id, .kind = k->store, .id = id},
               e) &&
           reply_empty(r, 204);
}

static bool list_presets(struct request *r, struct err *e)
{
    return send_list(r, &presets, e);
}

static bool add_preset(struct request *r, struct err *e)
{
    return add(r, &presets, e);
}

static bool change_preset(struct request *r, struct err *e)
{
    return change(r, &presets, e);
}

static bool remove_preset(struct request *r, struct err *e)
{
    return remove_entry(r, &presets, e);
}

static bool list_prompts(struct request *r, struct err *e)
{
    return send_list(r, &prompts, e);
}

static bool add_prompt(struct request *r, struct err *e)
{
    return add(r, &prompts, e);
}

static bool change_prompt(struct request *r, struct err *e)
{
    return change(r, &prompts, e);
}

static bool remove_prompt(struct request *r, struct err *e)
{
    return remove_entry(r, &prompts, e);
}

const struct route api_library_routes[] = {
    {.method = HTTP_GET,
     .path = "/api/presets",
     .auth = ROUTE_USER,
     .pool = POOL_SHORT,
     .handler = list_presets,
     .scope = SCOPE_HISTORY,
     .doc = {.summary = "List the own presets by name", .reply = "PresetList", .statuses = "200"}},
    {.method = HTTP_POST,
     .path = "/api/presets",
     .auth = ROUTE_USER,
     .pool = POOL_SHORT,
     .body_limit = ROUTE_JSON_BODY,
     .handler = add_preset,
     .scope = SCOPE_HISTORY,
     .doc = {.summary = "Keep settings under a name",
             .body = "PresetRequest",
             .reply = "Preset",
             .statuses = "201 404 409"}},
    {.method = HTTP_PATCH,
     .path = "/api/presets/{id}",
     .auth = ROUTE_USER,
     .pool = POOL_SHORT,
     .body_limit = ROUTE_JSON_BODY,
     .handler = change_preset,
     .scope = SCOPE_HISTORY,
     .doc = {.summary = "Rename a preset, or give it other settings",
             .body = "PresetRequest",
             .reply = "Preset",
             .statuses = "200 409"}},
    {.method = HTTP_DELETE,
     .path = "/api/presets/{id}",
     .auth = ROUTE_USER,
     .pool = POOL_SHORT,
     .handler = remove_preset,
     .scope = SCOPE_HISTORY,
     .doc = {.summary = "Delete a preset", .statuses = "204"}},
    {.method = HTTP_GET,
     .path = "/api/prompts",
     .auth = ROUTE_USER,
     .pool = POOL_SHORT,
     .handler = list_prompts,
     .scope = SCOPE_HISTORY,
     .doc = {.summary = "List the own prompts by name",
             .reply = "LibraryPromptList",
             .statuses = "200"}},
    {.method = HTTP_POST,
     .path = "/api/prompts",
     .auth = ROUTE_USER,
     .pool = POOL_SHORT,
     .body_limit = ROUTE_JSON_BODY,
     .handler = add_prompt,
     .scope = SCOPE_HISTORY,
     .doc = {.summary = "Keep a text under a name",
             .body = "LibraryPromptRequest",
             .reply = "LibraryPrompt",
             .statuses = "201 409"}},
    {.method = HTTP_PATCH,
     .path = "/api/prompts/{id}",
     .auth = ROUTE_USER,
     .pool = POOL_SHORT,
     .body_limit = ROUTE_JSON_BODY,
     .handler = change_prompt,
     .scope = SCOPE_HISTORY,
     .doc = {.summary = "Rename a prompt, or give it another text",
             .body = "LibraryPromptRequest",
             .reply = "LibraryPrompt",
             .statuses = "200 409"}},
    {.method = HTTP_DELETE,
     .path = "/api/prompts/{id}",
     .auth = ROUTE_USER,
     .pool = POOL_SHORT,
     .handler = remove_prompt,
     .scope = SCOPE_HISTORY,
     .doc = {.summary = "Delete a prompt", .statuses = "204"}},
    {0},
};
