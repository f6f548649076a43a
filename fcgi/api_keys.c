/* A user's own API keys. The key itself is shown once, at its making; only its hash is kept. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/json.h"
#include "fcgi/reply.h"
#include "fcgi/request.h"
#include "fcgi/users.h"

bool users_path_id(const struct request *r, int64_t *id, struct err *e)
{
    const char *text = request_param(r, "id");
    char *end;
    errno = 0;
    long long v = text ? strtoll(text, &end, 10) : 0;
    if (!text || !*text || *end || errno || v <= 0)
        return err_set(e, ERR_NOTFOUND, "there is no such thing");
    *id = v;
    return true;
}

static void add_id(cJSON *o, int64_t id)
{
    char text[24];
    snprintf(text, sizeof text, "%lld", (long long)id);
    cJSON_AddStringToObject(o, "id", text);
}

static bool list_key(void *context, const struct store_key *k)
{
    cJSON *o = cJSON_CreateObject();
    add_id(o, k->id);
    cJSON_AddStringToObject(o, "name", k->name);
    cJSON_AddStringToObject(o, "prefix", k->prefix);
    cJSON_AddNumberToObject(o, "created_at", (double)k->created_at);
    if (k->last_used_at)
        cJSON_AddNumberToObject(o, "last_used_at", (double)k->last_used_at);
    else
        cJSON_AddNullToObject(o, "last_used_at");
    return cJSON_AddItemToArray(context, o);
}

static bool list_keys(struct request *r, struct err *e)
{
    cJSON *o = cJSON_CreateObject();
    bool ok = store_key_list(r->store, r->who.user_id, list_key, cJSON_AddArrayToObject(o, "items"), e);
    if (ok)
        reply_json(r, 200, o);
    cJSON_Delete(o);
    return ok;
}

static bool make_key(struct request *r, struct err *e)
{
    const cJSON *body = request_json(r, e);
    const char *name = NULL;
    char key[SECRET_KEY_SIZE], prefix[SECRET_PREFIX_SIZE], target[32];
    unsigned char hash[SECRET_HASH_BYTES];
    int64_t id;
    if (!body || !json_get_string(body, "name", &name, e))
        return false;
    if (!name)
        return err_field(e, ERR_INPUT, "name", "is needed");
    secret_api_key(key, prefix);
    secret_hash(key, hash);
    if (!store_key_add(r->store, &(struct store_key){.user_id = r->who.user_id, .name = name, .prefix = prefix}, hash,
                       &id, e))
        return false;
    snprintf(target, sizeof target, "key:%lld", (long long)id);
    users_audit(r, r->who.user_id, r->who.name, "key.add", target);
    cJSON *o = cJSON_CreateObject();
    add_id(o, id);
    cJSON_AddStringToObject(o, "name", name);
    cJSON_AddStringToObject(o, "key", key);
    cJSON_AddStringToObject(o, "prefix", prefix);
    reply_json(r, 201, o);
    cJSON_Delete(o);
    secret_wipe(key, sizeof key);
    return true;
}

static bool remove_key(struct request *r, struct err *e)
{
    int64_t id;
    char target[32];
    if (!users_path_id(r, &id, e) || !store_key_remove(r->store, r->who.user_id, id, e))
        return false;
    snprintf(target, sizeof target, "key:%lld", (long long)id);
    users_audit(r, r->who.user_id, r->who.name, "key.remove", target);
    return reply_empty(r, 204);
}

#define SMALL_BODY ((size_t)16 << 10)

const struct route api_keys_routes[] = {
    {HTTP_GET, "/api/keys", ROUTE_USER, POOL_SHORT, 0, list_keys, SCOPE_ADMIN,
     {.summary = "List the own keys", .reply = "KeyList", .statuses = "200"}},
    {HTTP_POST, "/api/keys", ROUTE_USER, POOL_SHORT, SMALL_BODY, make_key, SCOPE_ADMIN,
     {.summary = "Make a key; it is shown this once", .body = "KeyRequest", .reply = "NewKey", .statuses = "201"}},
    {HTTP_DELETE, "/api/keys/{id}", ROUTE_USER, POOL_SHORT, 0, remove_key, SCOPE_ADMIN,
     {.summary = "Revoke a key at once", .statuses = "204"}},
    {0},
};
