/* A chat's key: made once on the machine of the server, then kept. */
#include <string.h>

#include "engine/base/arena.h"
#include "engine/base/file.h"
#include "engine/base/json/json.h"
#include "fcgi/cli/chat/chat.h"
#include "fcgi/cli/launch/launch_key.h"
#include "sql/users/store_users.h"

enum { MAX_KEYS = 1 << 20 };

/* {"http://127.0.0.1:8080": "sk-..."} */
static char *keys_path(const struct chat_key_ask *ask, struct arena *a)
{
    return arena_printf(a, "%s/.config/sluice/chat.json", ask->home);
}

static const char *kept_key(const struct chat_key_ask *ask, struct arena *a)
{
    cJSON *o = json_parse_file(keys_path(ask, a), MAX_KEYS, NULL);
    const char *key = json_text(o, ask->url);
    key = key ? arena_strdup(a, key) : NULL;
    cJSON_Delete(o);
    return key;
}

static bool keep_key(const struct chat_key_ask *ask, struct arena *a, const char *key,
                     struct err *e)
{
    struct buf b = {0};
    cJSON *o = json_parse_file(keys_path(ask, a), MAX_KEYS, NULL);
    if (!cJSON_IsObject(o)) {
        cJSON_Delete(o);
        o = cJSON_CreateObject();
    }
    cJSON_DeleteItemFromObjectCaseSensitive(o, ask->url);
    cJSON_AddStringToObject(o, ask->url, key);
    bool ok = json_write(&b, o) &&
              file_mkdirs(arena_printf(a, "%s/.config/sluice", ask->home), 0700, e) &&
              file_write_atomic(keys_path(ask, a), b.data, b.len, 0600, e);
    buf_fini(&b);
    cJSON_Delete(o);
    return ok;
}

/* A key may have been revoked since then. */
static bool still_good(const struct chat_key_ask *ask, const char *key, struct err *e)
{
    const struct cli_http h = {.url = ask->url, .key = key};
    struct buf body = {0};
    struct err why = {0};
    bool ok = cli_http_do(&h, &(struct cli_http_call){.method = "GET", .path = "/api/status"},
                          &body, NULL, &why);
    buf_fini(&body);
    if (!ok && why.code != ERR_AUTH)
        *e = why;
    return ok;
}

bool chat_key_find(const struct chat_key_ask *ask, struct arena *a, const char **key, struct err *e)
{
    struct launch_key k = {.state = ask->state, .user = ask->user};
    if (ask->file) {
        if (!launch_key_read(&k, ask->file, e))
            return false;
        *key = arena_strdup(a, k.text);
        return true;
    }
    *key = kept_key(ask, a);
    if (*key && still_good(ask, *key, e))
        return true;
    if (e->code)
        return false;
    *key = NULL;
    bool ok = launch_key_make(&k, a, "chat", STORE_INFERENCE | STORE_HISTORY, e) &&
              keep_key(ask, a, k.text, e);
    if (ok)
        *key = arena_strdup(a, k.text);
    secret_wipe(k.text, sizeof k.text);
    return ok;
}
