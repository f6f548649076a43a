/* The second factor of one's own account: begun, proven, removed; its recovery codes. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/json/json.h"
#include "fcgi/account/account_lists.h"
#include "fcgi/account/qr.h"
#include "fcgi/auth/credentials.h"
#include "fcgi/auth/throttle.h"
#include "fcgi/http/audit.h"
#include "fcgi/http/json_put.h"
#include "fcgi/http/reply.h"
#include "fcgi/http/request.h"
#include "sql/users/store_factor.h"

struct recovery {
    char codes[STORE_RECOVERY_CODES][SECRET_PASSWORD_SIZE];
    unsigned char hashes[STORE_RECOVERY_CODES][SECRET_HASH_BYTES];
};

static void make_codes(struct recovery *out)
{
    for (int i = 0; i < STORE_RECOVERY_CODES; i++) {
        secret_password(out->codes[i]);
        secret_hash(out->codes[i], out->hashes[i]);
    }
}

static bool reply_codes(struct request *r, struct recovery *v)
{
    cJSON *o = cJSON_CreateObject(), *list = cJSON_AddArrayToObject(o, "recovery_codes");
    for (int i = 0; i < STORE_RECOVERY_CODES; i++)
        cJSON_AddItemToArray(list, cJSON_CreateString(v->codes[i]));
    reply_json(r, 200, o);
    cJSON_Delete(o);
    secret_wipe(v, sizeof *v);
    return true;
}

static bool show(struct request *r, struct err *e)
{
    struct store_factor f;
    if (!store_factor_get(r->store, r->who.user_id, &f, e))
        return false;
    cJSON *o = cJSON_CreateObject();
    cJSON_AddBoolToObject(o, "on", f.on);
    json_put_time(o, "confirmed_at", f.confirmed_at);
    cJSON_AddNumberToObject(o, "recovery_codes", f.recovery_codes);
    reply_json(r, 200, o);
    cJSON_Delete(o);
    return true;
}

/* The body's password, checked. */
static bool confirm_password(struct request *r, struct store_user *user, struct err *e)
{
    const cJSON *body = request_json(r, e);
    const char *password = NULL;
    return body && json_get_string(body, "password", &password, e) &&
           credentials_confirm(r, "password", password, user, e);
}

/* otpauth://totp/Sluice:NAME?secret=...: what apps read from the QR code. */
static bool put_uri(struct buf *b, const char *name, const char *secret)
{
    buf_puts(b, "otpauth://totp/Sluice:");
    for (const unsigned char *c = (const unsigned char *)name; *c; c++)
        buf_printf(b, isalnum(*c) && *c < 0x80 ? "%c" : "%%%02X", *c);
    buf_printf(b, "?secret=%s&issuer=Sluice", secret);
    return !b->failed;
}

static bool reply_secret(struct request *r, const char *name, const unsigned char *secret,
                         struct err *e)
{
    char text[OTP_BASE32_SIZE];
    struct buf uri = {0}, path = {0};
    int size = 0;
    bool ok =
        otp_base32(secret, text) && put_uri(&uri, name, text) && qr_path(uri.data, &path, &size);
    if (ok) {
        cJSON *o = cJSON_CreateObject(), *qr;
        cJSON_AddStringToObject(o, "secret", text);
        cJSON_AddStringToObject(o, "uri", uri.data);
        qr = cJSON_AddObjectToObject(o, "qr");
        cJSON_AddNumberToObject(qr, "size", size);
        cJSON_AddStringToObject(qr, "path", path.data);
        reply_json(r, 201, o);
        cJSON_Delete(o);
    }
    if (uri.data)
        secret_wipe(uri.data, uri.len);
    secret_wipe(text, sizeof text);
    buf_fini(&uri);
    buf_fini(&path);
    return ok || err_set(e, ERR_NOMEM, "no memory for the code");
}

static bool begin(struct request *r, struct err *e)
{
    struct store_user user;
    unsigned char secret[OTP_SECRET_BYTES];
    if (!confirm_password(r, &user, e))
        return false;
    otp_secret(secret);
    bool ok =
        store_factor_begin(r->store, user.id, secret, e) && reply_secret(r, user.name, secret, e);
    secret_wipe(secret, sizeof secret);
    return ok;
}

static bool confirm(struct request *r, struct err *e)
{
    const cJSON *body = request_json(r, e);
    const char *code = NULL;
    struct recovery v;
    struct throttle t;
    char subject[32];
    if (!body || !json_get_string(body, "code", &code, e))
        return false;
    if (!code)
        return err_field(e, ERR_INPUT, "code", "is needed");
    snprintf(subject, sizeof subject, "%lld", (long long)r->who.user_id);
    if (!throttle_enter(r, THROTTLE_CODE, subject, &t, e))
        return false;
    make_codes(&v);
    const unsigned char *keep = r->who.by == AUTH_SESSION ? r->who.token_hash : NULL;
    if (!store_factor_confirm(r->store,
                              &(struct store_factor_confirmation){
                                  .user_id = r->who.user_id,
                                  .code = code,
                                  .recovery = (const unsigned char(*)[SECRET_HASH_BYTES])v.hashes,
                                  .keep_session = keep},
                              e))
        return false;
    throttle_forgive(r, &t);
    audit_record(r, r->who.user_id, r->who.name, "second_factor.on", "");
    return reply_codes(r, &v);
}

static bool new_codes(struct request *r, struct err *e)
{
    struct store_user user;
    struct store_factor f;
    struct recovery v;
    if (!confirm_password(r, &user, e) || !store_factor_get(r->store, user.id, &f, e))
        return false;
    if (!f.on)
        return err_set(e, ERR_CONFLICT, "there is no second factor");
    make_codes(&v);
    if (!store_factor_new_codes(r->store, user.id,
                                (const unsigned char(*)[SECRET_HASH_BYTES])v.hashes, e))
        return false;
    audit_record(r, user.id, user.name, "second_factor.new_codes", "");
    return reply_codes(r, &v);
}

static bool take_away(struct request *r, struct err *e)
{
    struct store_user user;
    if (!confirm_password(r, &user, e) || !store_factor_remove(r->store, user.id, e))
        return false;
    audit_record(r, user.id, user.name, "second_factor.off", "");
    return reply_empty(r, 204);
}

const struct route api_factor_routes[] = {
    {.method = HTTP_GET,
     .path = "/api/second-factor",
     .auth = ROUTE_USER,
     .pool = POOL_SHORT,
     .handler = show,
     .scope = SCOPE_ADMIN,
     .doc = {.summary = "Has the own account a second factor?",
             .reply = "SecondFactor",
             .statuses = "200"}},
    {.method = HTTP_POST,
     .path = "/api/second-factor",
     .auth = ROUTE_USER,
     .pool = POOL_SHORT,
     .body_limit = ACCOUNT_BODY_BYTES,
     .handler = begin,
     .scope = SCOPE_ADMIN,
     .doc = {.summary = "Begin: a secret for the app, as text and as a QR code",
             .body = "PasswordProof",
             .reply = "SecondFactorSecret",
             .statuses = "201 409 429"}},
    {.method = HTTP_POST,
     .path = "/api/second-factor/confirm",
     .auth = ROUTE_USER,
     .pool = POOL_SHORT,
     .body_limit = ACCOUNT_BODY_BYTES,
     .handler = confirm,
     .scope = SCOPE_ADMIN,
     .doc = {.summary =
                 "Prove that the app has it: from now on logins ask; ends the other sessions",
             .body = "CodeProof",
             .reply = "RecoveryCodes",
             .statuses = "200 409 429"}},
    {.method = HTTP_POST,
     .path = "/api/second-factor/recovery-codes",
     .auth = ROUTE_USER,
     .pool = POOL_SHORT,
     .body_limit = ACCOUNT_BODY_BYTES,
     .handler = new_codes,
     .scope = SCOPE_ADMIN,
     .doc = {.summary = "New recovery codes in the place of all old ones",
             .body = "PasswordProof",
             .reply = "RecoveryCodes",
             .statuses = "200 409 429"}},
    {.method = HTTP_POST,
     .path = "/api/second-factor/remove",
     .auth = ROUTE_USER,
     .pool = POOL_SHORT,
     .body_limit = ACCOUNT_BODY_BYTES,
     .handler = take_away,
     .scope = SCOPE_ADMIN,
     .doc = {.summary = "Remove the second factor",
             .body = "PasswordProof",
             .statuses = "204 429"}},
    {0},
};
