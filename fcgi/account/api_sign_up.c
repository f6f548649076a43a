/* New accounts that people make themselves, with an invitation or without: as the setting sign_up
 * says. The link of an invitation is /#/invite/TOKEN: what stands behind # never reaches the
 * server's logs or another site. */
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/json/json.h"
#include "fcgi/account/account_lists.h"
#include "fcgi/auth/credentials.h"
#include "fcgi/auth/passkeys.h"
#include "fcgi/auth/throttle.h"
#include "fcgi/config/server_settings.h"
#include "fcgi/http/audit.h"
#include "fcgi/http/json_put.h"
#include "fcgi/http/path_id.h"
#include "fcgi/http/reply.h"
#include "fcgi/http/request.h"
#include "sql/users/store_groups.h"
#include "sql/users/store_invites.h"

#define INVITE_DAYS_MAX 365
#define INVITE_DAYS 7
#define DAY_MS ((int64_t)24 * 3600 * 1000)
#define LIST_MAX 200

static bool show_policy(struct request *r, struct err *e)
{
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "policy", server_setting_text(r, SETTING_SIGN_UP));
    passkeys_put_state(r, cJSON_AddObjectToObject(o, "passkeys"));
    reply_json(r, 200, o);
    cJSON_Delete(o);
    return true;
}

static bool hash_token(const char *token, unsigned char hash[SECRET_HASH_BYTES], struct err *e)
{
    if (strlen(token) != SECRET_TOKEN_SIZE - 1)
        return err_field(e, ERR_NOTFOUND, "invite",
                         "this is no invitation; was the link copied whole?") ||
               err_reason(e, "invitation_invalid");
    secret_hash(token, hash);
    return true;
}

/* Who runs the machine invites whatever the setting says: it is how the first admin comes in. */
static bool by_operator(struct request *r, const char *token)
{
    unsigned char hash[SECRET_HASH_BYTES];
    struct store_invite invite;
    struct err none = {0};
    return hash_token(token, hash, &none) && store_invite_open(r->store, hash, &invite, &none) &&
           invite.made_by == 0;
}

/* token: of an invitation; NULL: none. */
static bool closed(struct request *r, const char *token, struct err *e)
{
    const char *policy = server_setting_text(r, SETTING_SIGN_UP);
    const bool invited = token != NULL;
    if (!strcmp(policy, "open") ||
        (invited && (!strcmp(policy, "invite") || by_operator(r, token))))
        return false;
    r->error_override.code = "sign_up_closed";
    if (invited || strcmp(policy, "invite") != 0)
        err_set(e, ERR_FORBIDDEN, "only an admin creates accounts here");
    else
        (void)(err_set(e, ERR_FORBIDDEN, "an account here needs an invitation") ||
               err_reason(e, "invitation_needed"));
    return true;
}

/* What an invitation is good for, before one fills in the form. A POST, so that no log has the
 * token. */
static bool show_invite(struct request *r, struct err *e)
{
    const cJSON *body = request_json(r, e);
    const char *token = NULL;
    unsigned char hash[SECRET_HASH_BYTES];
    struct store_invite invite;
    struct throttle t;
    if (!body || !json_get_string(body, "invite", &token, e))
        return false;
    if (!token)
        return err_field(e, ERR_INPUT, "invite", "is needed");
    if (closed(r, token, e) || !throttle_enter(r, THROTTLE_SIGN_UP, "", &t, e) ||
        !hash_token(token, hash, e) || !store_invite_open(r->store, hash, &invite, e))
        return false;
    throttle_forgive(r, &t);
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "role", invite.admin ? "admin" : "user");
    cJSON_AddNumberToObject(o, "expires_at", (double)invite.expires_at);
    reply_json(r, 200, o);
    cJSON_Delete(o);
    return true;
}

struct sign_up_form {
    const char *name, *password;
    const char *token; /* of an invitation; NULL: none */
};

static bool make_account(struct request *r, const struct sign_up_form *f, struct store_user *user,
                         struct err *e)
{
    char hash[SECRET_PASSWORD_HASH_SIZE];
    unsigned char invite[SECRET_HASH_BYTES];
    struct store_invite open;
    struct store_user new = {.name = f->name};
    if (f->token &&
        (!hash_token(f->token, invite, e) || !store_invite_open(r->store, invite, &open, e)))
        return false; /* before argon2id is paid for */
    if (!credentials_hash(r, "password", f->password, hash, e))
        return false;
    new.password_hash = hash;
    if (f->token ? !store_invite_accept(r->store, invite, &new, e)
                 : !store_user_add(r->store, &new, &new.id, e))
        return false;
    return store_user_by_id(r->store, r->arena, new.id, user, e);
}

static bool sign_up(struct request *r, struct err *e)
{
    const cJSON *body = request_json(r, e);
    struct sign_up_form f = {0};
    struct store_user user;
    struct throttle t;
    if (!body || !json_get_string(body, "name", &f.name, e) ||
        !json_get_string(body, "password", &f.password, e) ||
        !json_get_string(body, "invite", &f.token, e))
        return false;
    if (!f.name || !f.password)
        return err_field(e, ERR_INPUT, f.name ? "password" : "name", "is needed");
    if (closed(r, f.token, e) || !throttle_enter(r, THROTTLE_SIGN_UP, "", &t, e) ||
        !make_account(r, &f, &user, e))
        return false;
    if (f.token)
        throttle_forgive(
            r, &t); /* without an invitation each account counts, so that nobody makes a thousand */
    r->who = (struct identity){
        .by = AUTH_SESSION, .user_id = user.id, .name = user.name, .admin = user.admin};
    audit_record_id(r, f.token ? "user.accept" : "user.sign_up", "user", user.id);
    return credentials_open(r, &user, 201, e);
}

static bool list_one(void *context, const struct store_invite *n)
{
    const int64_t now = clock_wall_ms();
    cJSON *o = cJSON_CreateObject();
    json_put_id(o, "id", n->id);
    cJSON_AddStringToObject(o, "role", n->admin ? "admin" : "user");
    cJSON_AddStringToObject(o, "note", n->note);
    cJSON_AddStringToObject(o, "state",
                            n->used_at             ? "used"
                            : n->revoked_at        ? "revoked"
                            : n->expires_at <= now ? "expired"
                                                   : "open");
    cJSON_AddNumberToObject(o, "created_at", (double)n->created_at);
    cJSON_AddNumberToObject(o, "expires_at", (double)n->expires_at);
    json_put_time(o, "used_at", n->used_at);
    cJSON_AddStringToObject(o, "made_by", n->made_by_name);
    cJSON_AddStringToObject(o, "used_by", n->used_by_name);
    cJSON *groups = cJSON_Parse(n->group_names);
    cJSON_AddItemToObject(o, "groups", groups ? groups : cJSON_CreateArray());
    return cJSON_AddItemToArray(context, o);
}

static bool list_invites(struct request *r, struct err *e)
{
    cJSON *o = cJSON_CreateObject();
    bool ok = store_invite_list(r->store, &(struct store_invite_page){.limit = LIST_MAX}, list_one,
                                cJSON_AddArrayToObject(o, "items"), e);
    if (ok)
        reply_json(r, 200, o);
    cJSON_Delete(o);
    return ok;
}

static bool make_invite(struct request *r, struct err *e)
{
    const cJSON *body = request_json(r, e);
    const char *role = "user", *note = "";
    int64_t days = INVITE_DAYS, id;
    const struct store_ids *groups = NULL;
    char token[SECRET_TOKEN_SIZE];
    unsigned char hash[SECRET_HASH_BYTES];
    if (!body || !json_get_string(body, "role", &role, e) ||
        !json_get_string(body, "note", &note, e) ||
        !json_get_int(body, "days", 1, INVITE_DAYS_MAX, &days, e) ||
        !path_id_list(r, body, &(struct path_id_ask){"groups", STORE_GROUPS_MAX}, &groups, e))
        return false;
    if (strcmp(role, "admin") && strcmp(role, "user"))
        return err_field(e, ERR_INPUT, "role", "must be admin or user");
    struct store_invite n = {.admin = !strcmp(role, "admin"),
                             .note = note,
                             .made_by = r->who.user_id,
                             .groups = groups,
                             .expires_at = clock_wall_ms() + days * DAY_MS};
    secret_token(token);
    secret_hash(token, hash);
    if (!store_invite_add(r->store, &n, hash, &id, e))
        return false;
    audit_record_id(r, "invite.add", "invite", id);
    cJSON *o = cJSON_CreateObject();
    json_put_id(o, "id", id);
    cJSON_AddStringToObject(o, "role", role);
    cJSON_AddNumberToObject(o, "expires_at", (double)n.expires_at);
    cJSON_AddStringToObject(o, "invite", token);
    reply_json(r, 201, o);
    cJSON_Delete(o);
    secret_wipe(token, sizeof token);
    return true;
}

static bool revoke_invite(struct request *r, struct err *e)
{
    int64_t id;
    if (!path_id_param(r, "id", &id, e) || !store_invite_revoke(r->store, id, e))
        return false;
    audit_record_id(r, "invite.revoke", "invite", id);
    return reply_empty(r, 204);
}

const struct route api_sign_up_routes[] = {
    {.method = HTTP_GET,
     .path = "/api/sign-up",
     .auth = ROUTE_OPEN,
     .pool = POOL_SHORT,
     .handler = show_policy,
     .scope = SCOPE_ANY,
     .doc = {.summary = "Who may make an account", .reply = "SignUpPolicy", .statuses = "200"}},
    {.method = HTTP_POST,
     .path = "/api/sign-up/invite",
     .auth = ROUTE_OPEN,
     .pool = POOL_SHORT,
     .body_limit = ACCOUNT_BODY_BYTES,
     .handler = show_invite,
     .scope = SCOPE_ANY,
     .doc = {.summary = "Is this invitation good?",
             .body = "InviteToken",
             .reply = "InviteFacts",
             .statuses = "200 403 404 429 503"}},
    {.method = HTTP_POST,
     .path = "/api/sign-up",
     .auth = ROUTE_OPEN,
     .pool = POOL_SHORT,
     .body_limit = ACCOUNT_BODY_BYTES,
     .handler = sign_up,
     .scope = SCOPE_ANY,
     .doc = {.summary = "Make an account and log in",
             .body = "SignUp",
             .reply = "Session",
             .statuses = "201 403 404 409 429 503"}},
    {.method = HTTP_GET,
     .path = "/api/invites",
     .auth = ROUTE_ADMIN,
     .pool = POOL_SHORT,
     .handler = list_invites,
     .scope = SCOPE_ADMIN,
     .doc = {.summary = "List the invitations", .reply = "InviteList", .statuses = "200"}},
    {.method = HTTP_POST,
     .path = "/api/invites",
     .auth = ROUTE_ADMIN,
     .pool = POOL_SHORT,
     .body_limit = ACCOUNT_BODY_BYTES,
     .handler = make_invite,
     .scope = SCOPE_ADMIN,
     .confirmed = true,
     .doc = {.summary = "Invite someone; the token is shown this once",
             .body = "InviteRequest",
             .reply = "NewInvite",
             .statuses = "201"}},
    {.method = HTTP_DELETE,
     .path = "/api/invites/{id}",
     .auth = ROUTE_ADMIN,
     .pool = POOL_SHORT,
     .handler = revoke_invite,
     .scope = SCOPE_ADMIN,
     .doc = {.summary = "Revoke an open invitation", .statuses = "204"}},
    {0},
};
