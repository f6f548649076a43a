/* A user's own passkeys: registered on the account page, named, listed and deleted. */
#include <stdio.h>
#include <string.h>

#include "engine/base/json/json.h"
#include "fcgi/account/account_lists.h"
#include "fcgi/auth/passkeys.h"
#include "fcgi/http/audit.h"
#include "fcgi/http/json_put.h"
#include "fcgi/http/path_id.h"
#include "fcgi/http/reply.h"
#include "fcgi/http/request.h"

static bool list_one(void *context, const struct store_passkey *p)
{
    cJSON *o = cJSON_CreateObject();
    json_put_id(o, "id", p->id);
    cJSON_AddStringToObject(o, "name", p->name);
    cJSON_AddNumberToObject(o, "created_at", (double)p->created_at);
    json_put_time(o, "last_used_at", p->used_at);
    return cJSON_AddItemToArray(context, o);
}

static bool list(struct request *r, struct err *e)
{
    cJSON *o = cJSON_CreateObject();
    passkeys_put_state(r, o);
    bool ok = store_passkey_list(r->store, r->who.user_id, list_one,
                                 cJSON_AddArrayToObject(o, "items"), e);
    if (ok)
        reply_json(r, 200, o);
    cJSON_Delete(o);
    return ok;
}

static bool asker(const struct request *r, struct passkeys_asker *out, struct err *e)
{
    out->purpose = "register";
    memcpy(out->by, r->who.token_hash, sizeof out->by);
    return r->who.by == AUTH_SESSION ||
           err_set(e, ERR_FORBIDDEN, "a passkey is registered in a session of the page");
}

static void put_site(struct request *r, cJSON *o, const struct webauthn_site *site,
                     const char *handle)
{
    static const int algorithms[] = {-7, -8, -257};
    cJSON *part = cJSON_AddObjectToObject(o, "rp");
    cJSON_AddStringToObject(part, "id", site->rp_id);
    cJSON_AddStringToObject(part, "name", "Sluice");
    part = cJSON_AddObjectToObject(o, "user");
    cJSON_AddStringToObject(part, "id", handle);
    cJSON_AddStringToObject(part, "name", r->who.name);
    cJSON_AddStringToObject(part, "displayName", r->who.name);
    part = cJSON_AddArrayToObject(o, "pubKeyCredParams");
    for (size_t i = 0; i < sizeof algorithms / sizeof algorithms[0]; i++) {
        cJSON *one = cJSON_CreateObject();
        cJSON_AddStringToObject(one, "type", "public-key");
        cJSON_AddNumberToObject(one, "alg", algorithms[i]);
        cJSON_AddItemToArray(part, one);
    }
    part = cJSON_AddObjectToObject(o, "authenticatorSelection");
    cJSON_AddStringToObject(part, "residentKey", "required");
    cJSON_AddBoolToObject(part, "requireResidentKey", true);
    cJSON_AddStringToObject(part, "userVerification", "required");
    cJSON_AddStringToObject(o, "attestation", "none");
}

/* The confirmation is asked for here, before an authenticator makes what the server might refuse;
 * the challenge is the proof of it. */
static bool begin(struct request *r, struct err *e)
{
    struct webauthn_site site;
    struct passkeys_asker who;
    char handle[PASSKEYS_HANDLE_SIZE];
    if (!asker(r, &who, e) || !passkeys_site(r, &site, e) ||
        !passkeys_handle(r, r->who.user_id, handle, e))
        return false;
    cJSON *o = passkeys_options(r, &who, &site, e);
    if (o)
        put_site(r, o, &site, handle);
    bool ok = o && passkeys_describe(r, r->who.user_id,
                                     cJSON_AddArrayToObject(o, "excludeCredentials"), e);
    if (ok)
        reply_json(r, 201, o);
    cJSON_Delete(o);
    return ok;
}

/* Words such as "internal" and "usb", with blanks between them; what browsers may add later is
 * taken too. */
static bool read_transports(const cJSON *body, char out[STORE_PASSKEY_TRANSPORTS_MAX + 1],
                            struct err *e)
{
    const cJSON *passkey = NULL, *response = NULL, *words = NULL, *word;
    size_t len = 0;
    *out = '\0';
    if (!json_get_object(body, "passkey", &passkey, e) ||
        !json_get_object(passkey, "response", &response, e) ||
        !json_get_array(response, "transports", &words, e))
        return false;
    cJSON_ArrayForEach (word, words) {
        const char *text = cJSON_GetStringValue(word);
        const size_t n = text ? strlen(text) : 0;
        if (!n || strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789-") != n)
            return err_field(e, ERR_INPUT, "transports", "holds words such as internal and usb");
        if (len + 1 + n > STORE_PASSKEY_TRANSPORTS_MAX)
            return err_field(e, ERR_INPUT, "transports", "holds too much");
        len += (size_t)snprintf(out + len, STORE_PASSKEY_TRANSPORTS_MAX + 1 - len, "%s%s",
                                len ? " " : "", text);
    }
    return true;
}

static bool add(struct request *r, struct err *e)
{
    const cJSON *body = request_json(r, e);
    const char *name = NULL;
    char transports[STORE_PASSKEY_TRANSPORTS_MAX + 1];
    struct passkeys_asker who;
    struct webauthn_credential c;
    int64_t id;
    if (!body || !json_get_string(body, "name", &name, e) || !asker(r, &who, e))
        return false;
    if (!name)
        return err_field(e, ERR_INPUT, "name", "is needed");
    if (!read_transports(body, transports, e) || !passkeys_register(r, body, &who, &c, e))
        return false;
    const struct store_passkey p = {.user_id = r->who.user_id,
                                    .credential_id = c.id,
                                    .credential_id_len = c.id_len,
                                    .algorithm = c.algorithm,
                                    .public_key = c.public_key,
                                    .public_key_len = c.public_key_len,
                                    .counter = c.counter,
                                    .transports = transports,
                                    .name = name};
    if (!store_passkey_add(r->store, &p, &id, e))
        return false;
    audit_record_id(r, "passkey.add", "passkey", id);
    cJSON *o = cJSON_CreateObject();
    json_put_id(o, "id", id);
    cJSON_AddStringToObject(o, "name", name);
    reply_json(r, 201, o);
    cJSON_Delete(o);
    return true;
}

static bool rename_one(struct request *r, struct err *e)
{
    const cJSON *body = request_json(r, e);
    struct store_passkey p = {.user_id = r->who.user_id};
    if (!body || !path_id_param(r, "id", &p.id, e) || !json_get_string(body, "name", &p.name, e))
        return false;
    if (!p.name)
        return err_field(e, ERR_INPUT, "name", "is needed");
    return store_passkey_rename(r->store, &p, e) && reply_empty(r, 204);
}

static bool remove_one(struct request *r, struct err *e)
{
    int64_t id;
    if (!path_id_param(r, "id", &id, e) || !store_passkey_remove(r->store, r->who.user_id, id, e))
        return false;
    audit_record_id(r, "passkey.remove", "passkey", id);
    return reply_empty(r, 204);
}

const struct route api_passkeys_routes[] = {
    {.method = HTTP_GET,
     .path = "/api/passkeys",
     .auth = ROUTE_USER,
     .pool = POOL_SHORT,
     .handler = list,
     .scope = SCOPE_ADMIN,
     .doc = {.summary = "List the own passkeys, and whether one can be added here",
             .reply = "PasskeyList",
             .statuses = "200"}},
    {.method = HTTP_POST,
     .path = "/api/passkeys/options",
     .auth = ROUTE_USER,
     .pool = POOL_SHORT,
     .handler = begin,
     .scope = SCOPE_ADMIN,
     .confirmed = true,
     .doc = {.summary = "Begin: what the browser is to ask an authenticator for",
             .reply = "PasskeyCreation",
             .statuses = "201 409"}},
    {.method = HTTP_POST,
     .path = "/api/passkeys",
     .auth = ROUTE_USER,
     .pool = POOL_SHORT,
     .body_limit = ACCOUNT_BODY_BYTES,
     .handler = add,
     .scope = SCOPE_ADMIN,
     .doc = {.summary = "Register the passkey that the authenticator made",
             .body = "PasskeyRegistration",
             .reply = "NewPasskey",
             .statuses = "201 409"}},
    {.method = HTTP_PATCH,
     .path = "/api/passkeys/{id}",
     .auth = ROUTE_USER,
     .pool = POOL_SHORT,
     .body_limit = ACCOUNT_BODY_BYTES,
     .handler = rename_one,
     .scope = SCOPE_ADMIN,
     .doc = {.summary = "Rename a passkey", .body = "PasskeyName", .statuses = "204"}},
    {.method = HTTP_DELETE,
     .path = "/api/passkeys/{id}",
     .auth = ROUTE_USER,
     .pool = POOL_SHORT,
     .handler = remove_one,
     .scope = SCOPE_ADMIN,
     .confirmed = true,
     .doc = {.summary = "Delete a passkey: it no longer logs in", .statuses = "204"}},
    {0},
};
