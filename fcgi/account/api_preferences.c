/* /api/preferences: how a user likes the page, on whatever device: the keys of its actions. The
 * page knows its actions; here they are names. */
#include <ctype.h>
#include <string.h>

#include "engine/base/json/json.h"
#include "fcgi/http/reply.h"
#include "fcgi/http/request.h"
#include "sql/users/store_users.h"

#define MAX_SHORTCUTS 64
#define NAME_BYTES 32
#define KEYS_BYTES 48
#define PREFERENCES_BYTES 8192 /* the column's most */

static bool is_name(const char *s)
{
    size_t n = 0;
    while (islower((unsigned char)s[n]) || s[n] == '-')
        n++;
    return n && n <= NAME_BYTES && !s[n];
}

/* Printable text: "mod Shift k", "/"; "" where an action has none. */
static bool is_keys(const cJSON *v)
{
    const char *s = cJSON_IsString(v) ? v->valuestring : NULL;
    for (size_t i = 0; s && s[i]; i++)
        if (i >= KEYS_BYTES || (unsigned char)s[i] < 0x20 || s[i] == 0x7f)
            return false;
    return s != NULL;
}

static bool check_shortcuts(const cJSON *shortcuts, struct err *e)
{
    const cJSON *item;
    if (cJSON_GetArraySize(shortcuts) > MAX_SHORTCUTS)
        return err_field(e, ERR_INPUT, "shortcuts", "has more than %d actions", MAX_SHORTCUTS);
    cJSON_ArrayForEach (item, shortcuts)
        if (!is_name(item->string) || !is_keys(item))
            return err_field(e, ERR_INPUT, "shortcuts",
                             "gives each action its keys: a name of small letters, and up to %d "
                             "bytes of text",
                             KEYS_BYTES);
    return true;
}

static bool check(const cJSON *body, struct err *e)
{
    const cJSON *item, *shortcuts = NULL;
    bool single;
    cJSON_ArrayForEach (item, body)
        if (strcmp(item->string, "shortcuts") != 0 && strcmp(item->string, "single_keys") != 0)
            return err_field(e, ERR_INPUT, item->string, "is not a preference");
    return json_get_object(body, "shortcuts", &shortcuts, e) &&
           json_get_bool(body, "single_keys", &single, e) && check_shortcuts(shortcuts, e);
}

/* Quotation marks take twice their bytes, so that what check() lets through may be too long. */
static bool fits(const struct buf *text, struct err *e)
{
    return text->len <= PREFERENCES_BYTES ||
           err_field(e, ERR_INPUT, "shortcuts", "takes more than %d bytes", PREFERENCES_BYTES);
}

/* A member of the body over the stored one; null takes it away. */
static bool put_over(cJSON *o, const cJSON *body, const char *name, struct err *e)
{
    const cJSON *sent = cJSON_GetObjectItemCaseSensitive(body, name);
    if (!sent)
        return true;
    cJSON_DeleteItemFromObjectCaseSensitive(o, name);
    return cJSON_IsNull(sent) || cJSON_AddItemToObject(o, name, cJSON_Duplicate(sent, true)) ||
           err_set(e, ERR_NOMEM, "no memory for the preferences");
}

static bool preferences(struct request *r, struct err *e)
{
    const char *stored;
    struct buf out = {0};
    if (!store_user_preferences(r->store, r->arena, r->who.user_id, &stored, e))
        return false;
    buf_puts(&out, stored);
    reply_json_buf(r, 200, &out);
    buf_fini(&out);
    return true;
}

static bool change(struct request *r, struct err *e)
{
    const char *stored;
    const cJSON *body = request_json(r, e);
    struct buf text = {0};
    if (!body || !check(body, e) ||
        !store_user_preferences(r->store, r->arena, r->who.user_id, &stored, e))
        return false;
    cJSON *o = json_parse(stored, strlen(stored), NULL, e);
    bool ok = o && put_over(o, body, "shortcuts", e) && put_over(o, body, "single_keys", e) &&
              (json_write(&text, o) || err_set(e, ERR_NOMEM, "no memory for the preferences")) &&
              fits(&text, e) && store_user_set_preferences(r->store, r->who.user_id, text.data, e);
    if (ok)
        reply_json_buf(r, 200, &text);
    cJSON_Delete(o);
    buf_fini(&text);
    return ok;
}

const struct route api_preferences_routes[] = {
    {.method = HTTP_GET,
     .path = "/api/preferences",
     .auth = ROUTE_USER,
     .pool = POOL_SHORT,
     .handler = preferences,
     .scope = SCOPE_HISTORY,
     .doc = {.summary = "How the user likes the page", .reply = "Preferences", .statuses = "200"}},
    {.method = HTTP_PATCH,
     .path = "/api/preferences",
     .auth = ROUTE_USER,
     .pool = POOL_SHORT,
     .body_limit = ROUTE_JSON_BODY,
     .handler = change,
     .scope = SCOPE_HISTORY,
     .doc = {.summary = "Change it",
             .body = "Preferences",
             .reply = "Preferences",
             .statuses = "200"}},
    {0},
};
