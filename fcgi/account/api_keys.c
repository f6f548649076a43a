/* A user's own API keys. The key itself is shown once, at its making; only its hash is kept. */
#include <stdio.h>
#include <string.h>

#include "engine/base/json/json.h"
#include "fcgi/account/account_lists.h"
#include "fcgi/auth/confirmation.h"
#include "fcgi/auth/limits.h"
#include "fcgi/http/audit.h"
#include "fcgi/http/json_put.h"
#include "fcgi/http/path_id.h"
#include "fcgi/http/reply.h"
#include "fcgi/http/request.h"

static const struct {
    int64_t bit;
    const char *name;
} scopes[] = {{STORE_INFERENCE, "inference"},
              {STORE_HISTORY, "history"},
              {STORE_ADMIN, "admin"},
              {STORE_METRICS, "metrics"}};
#define N_SCOPES (sizeof scopes / sizeof scopes[0])

static void put_terms(cJSON *o, const struct store_key_terms *t)
{
    cJSON *list = cJSON_AddArrayToObject(o, "scopes"), *limits;
    for (size_t i = 0; i < N_SCOPES; i++)
        if (t->scopes & scopes[i].bit)
            cJSON_AddItemToArray(list, cJSON_CreateString(scopes[i].name));
    json_put_time(o, "expires_at", t->expires_at);
    limits = cJSON_AddObjectToObject(o, "limits");
    cJSON_AddNumberToObject(limits, "requests_per_minute", (double)t->requests_per_minute);
    cJSON_AddNumberToObject(limits, "tokens_per_minute", (double)t->tokens_per_minute);
    cJSON_AddNumberToObject(limits, "max_jobs", (double)t->max_jobs);
    cJSON_AddBoolToObject(o, "strict_parameters", t->strict_parameters);
}

static bool read_scopes(const cJSON *body, struct store_key_terms *t, struct err *e)
{
    const cJSON *list = NULL, *item;
    if (!json_get_array(body, "scopes", &list, e))
        return false;
    if (!list)
        return true;
    t->scopes = 0;
    cJSON_ArrayForEach (item, list) {
        size_t i = 0;
        while (i < N_SCOPES &&
               !(cJSON_IsString(item) && !strcmp(item->valuestring, scopes[i].name)))
            i++;
        if (i == N_SCOPES)
            return err_field(e, ERR_INPUT, "scopes",
                             "holds inference, history, admin and metrics, nothing else");
        t->scopes |= scopes[i].bit;
    }
    return t->scopes || err_field(e, ERR_INPUT, "scopes", "must hold one at least");
}

/* The key that asks gives out no more than it has: its scopes, its time, and none of its limits,
 * since each further key would have them anew. before: what the key has that is changed. */
static bool check_own_terms(const struct store_key_terms *own, const struct store_key_terms *before,
                            const struct store_key_terms *t, struct err *e)
{
    if (t->scopes & ~(own->scopes | (own->scopes & STORE_ADMIN ? STORE_METRICS : 0)))
        return err_field(e, ERR_FORBIDDEN, "scopes", "are more than those of the key that asks");
    if (own->expires_at && t->expires_at != before->expires_at &&
        (!t->expires_at || t->expires_at > own->expires_at))
        return err_field(e, ERR_FORBIDDEN, "expires_at", "is after that of the key that asks");
    if ((own->requests_per_minute || own->tokens_per_minute || own->max_jobs) &&
        (t->requests_per_minute != before->requests_per_minute ||
         t->tokens_per_minute != before->tokens_per_minute || t->max_jobs != before->max_jobs))
        return err_field(e, ERR_FORBIDDEN, "limits", "can't be changed by a key that has limits");
    return true;
}

/* Takes the key's terms from the body into *t; terms that it does not name stay. */
static bool read_terms(struct request *r, const cJSON *body, struct store_key_terms *t,
                       struct err *e)
{
    const cJSON *limits = NULL, *expiry = cJSON_GetObjectItemCaseSensitive(body, "expires_at");
    const struct store_key_terms before = *t;
    int64_t at = t->expires_at;
    if (!read_scopes(body, t, e) ||
        !json_get_int(body, "expires_at", 1, INT64_C(1) << 52, &at, e) ||
        !json_get_object(body, "limits", &limits, e) ||
        !json_get_bool(body, "strict_parameters", &t->strict_parameters, e) ||
        !json_get_int(limits, "requests_per_minute", 0, STORE_LIMIT_MAX, &t->requests_per_minute,
                      e) ||
        !json_get_int(limits, "tokens_per_minute", 0, STORE_LIMIT_MAX, &t->tokens_per_minute, e) ||
        !json_get_int(limits, "max_jobs", 0, STORE_LIMIT_MAX, &t->max_jobs, e))
        return false;
    if (t->scopes & ~before.scopes & STORE_METRICS && !r->who.admin)
        return err_field(e, ERR_FORBIDDEN, "scopes", "can hold metrics in an admin's key alone");
    t->expires_at = cJSON_IsNull(expiry) ? 0 : at;
    return r->who.by != AUTH_KEY || check_own_terms(&r->who.terms, &before, t, e);
}

static bool list_key(void *context, const struct store_key *k)
{
    cJSON *o = cJSON_CreateObject();
    json_put_id(o, "id", k->id);
    cJSON_AddStringToObject(o, "name", k->name);
    cJSON_AddStringToObject(o, "prefix", k->prefix);
    cJSON_AddNumberToObject(o, "created_at", (double)k->created_at);
    json_put_time(o, "last_used_at", k->last_used_at);
    put_terms(o, &k->terms);
    return cJSON_AddItemToArray(context, o);
}

bool account_reply_keys(struct request *r, int64_t user_id, struct err *e)
{
    cJSON *o = cJSON_CreateObject();
    bool ok = store_key_list(r->store, user_id, list_key, cJSON_AddArrayToObject(o, "items"), e);
    if (ok)
        reply_json(r, 200, o);
    cJSON_Delete(o);
    return ok;
}

static bool list_keys(struct request *r, struct err *e)
{
    return account_reply_keys(r, r->who.user_id, e);
}

/* What a new key has where the body says nothing: as much as the one that asks. */
static struct store_key_terms first_terms(const struct request *r)
{
    if (r->who.by != AUTH_KEY)
        return (struct store_key_terms){.scopes = STORE_SCOPES};
    return (struct store_key_terms){.scopes = r->who.terms.scopes,
                                    .expires_at = r->who.terms.expires_at};
}

static bool make_key(struct request *r, struct err *e)
{
    const cJSON *body = request_json(r, e);
    const char *name = NULL;
    struct store_key_terms terms = first_terms(r);
    char key[SECRET_KEY_SIZE], prefix[SECRET_PREFIX_SIZE];
    unsigned char hash[SECRET_HASH_BYTES];
    int64_t id;
    if (!body || !json_get_string(body, "name", &name, e))
        return false;
    if (!name)
        return err_field(e, ERR_INPUT, "name", "is needed");
    if (r->who.by == AUTH_KEY && limits_any(r))
        return err_field(e, ERR_FORBIDDEN, "limits",
                         "the key that asks has limits, and each key it made would have them anew");
    if (!read_terms(r, body, &terms, e))
        return false;
    secret_api_key(key, prefix);
    secret_hash(key, hash);
    if (!store_key_add(
            r->store,
            &(struct store_key){
                .user_id = r->who.user_id, .name = name, .prefix = prefix, .terms = terms},
            hash, &id, e))
        return false;
    audit_record_id(r, "key.add", "key", id);
    cJSON *o = cJSON_CreateObject();
    json_put_id(o, "id", id);
    cJSON_AddStringToObject(o, "name", name);
    cJSON_AddStringToObject(o, "key", key);
    cJSON_AddStringToObject(o, "prefix", prefix);
    put_terms(o, &terms);
    reply_json(r, 201, o);
    cJSON_Delete(o);
    secret_wipe(key, sizeof key);
    return true;
}

static bool is_looser(int64_t now, int64_t before)
{
    return before && (!now || now > before); /* 0: no limit, no end */
}

/* Could the key do more than before? */
static bool widens(const struct store_key_terms *now, const struct store_key_terms *before)
{
    return now->scopes & ~before->scopes || is_looser(now->expires_at, before->expires_at) ||
           is_looser(now->requests_per_minute, before->requests_per_minute) ||
           is_looser(now->tokens_per_minute, before->tokens_per_minute) ||
           is_looser(now->max_jobs, before->max_jobs);
}

static bool change_key(struct request *r, struct err *e)
{
    const cJSON *body = request_json(r, e);
    struct store_key k;
    struct store_key_terms before;
    int64_t id;
    if (!body || !path_id_param(r, "id", &id, e) ||
        !store_key_get(r->store, r->arena, &(struct store_ref){.user_id = r->who.user_id, .id = id},
                       &k, e))
        return false;
    before = k.terms;
    if (!read_terms(r, body, &k.terms, e) ||
        (widens(&k.terms, &before) && !confirmation_check(r, e)) ||
        !store_key_change(r->store, r->who.user_id, id, &k.terms, e))
        return false;
    audit_record_id(r, "key.change", "key", id);
    cJSON *list = cJSON_CreateArray();
    list_key(list, &k);
    reply_json(r, 200, list->child);
    cJSON_Delete(list);
    return true;
}

static bool remove_key(struct request *r, struct err *e)
{
    int64_t id;
    if (!path_id_param(r, "id", &id, e) || !store_key_remove(r->store, r->who.user_id, id, e))
        return false;
    audit_record_id(r, "key.remove", "key", id);
    return reply_empty(r, 204);
}

const struct route api_keys_routes[] = {
    {.method = HTTP_GET,
     .path = "/api/keys",
     .auth = ROUTE_USER,
     .pool = POOL_SHORT,
     .handler = list_keys,
     .scope = SCOPE_ADMIN,
     .doc = {.summary = "List the own keys", .reply = "KeyList", .statuses = "200"}},
    {.method = HTTP_POST,
     .path = "/api/keys",
     .auth = ROUTE_USER,
     .pool = POOL_SHORT,
     .body_limit = ACCOUNT_BODY_BYTES,
     .handler = make_key,
     .scope = SCOPE_ADMIN,
     .confirmed = true,
     .doc = {.summary = "Make a key; it is shown this once",
             .body = "KeyRequest",
             .reply = "NewKey",
             .statuses = "201"}},
    {.method = HTTP_PATCH,
     .path = "/api/keys/{id}",
     .auth = ROUTE_USER,
     .pool = POOL_SHORT,
     .body_limit = ACCOUNT_BODY_BYTES,
     .handler = change_key,
     .scope = SCOPE_ADMIN,
     .doc = {.summary = "Change what a key may do, from its next request on",
             .body = "KeyChange",
             .reply = "Key",
             .statuses = "200"}},
    {.method = HTTP_DELETE,
     .path = "/api/keys/{id}",
     .auth = ROUTE_USER,
     .pool = POOL_SHORT,
     .handler = remove_key,
     .scope = SCOPE_ADMIN,
     .doc = {.summary = "Revoke a key at once", .statuses = "204"}},
    {0},
};
