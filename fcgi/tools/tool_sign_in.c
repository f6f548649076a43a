/* tool_sign_in.h: OAuth 2.1 with PKCE, bound to session, browser, server and issuer. */
#define LOG_MODULE "tools"
#include "fcgi/tools/tool_sign_in.h"

#include <string.h>

#include "engine/base/arena.h"
#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "fcgi/config/server_settings.h"
#include "fcgi/http/request.h"
#include "fcgi/http/work.h"
#include "fcgi/oidc/oidc_config.h"
#include "fcgi/oidc/oidc_cookie.h"
#include "fcgi/tools/tool_account.h"
#include "fcgi/tools/tool_offer.h"
#include "sql/users/store_users.h"

#define DEADLINE_MS 25000.0                  /* of all that is asked in one request */
#define RENEW_BEFORE_MS ((int64_t)60 * 1000) /* a registration, before its secret ends */

static bool refuse(struct err *e, const char *reason, const char *words)
{
    *e = (struct err){0};
    err_set(e, ERR_FORBIDDEN, "%s", words);
    return err_reason(e, reason);
}

/* --- departure --- */

static bool look_only(void *context, struct mcp_session *s, struct err *e)
{
    (void)context, (void)s, (void)e;
    return true;
}

/* What the server says to somebody who is not signed in, and whom it sends them to. */
static bool discover(struct request *r, const struct store_tool_server *server, double until,
                     struct oauth_about *about, struct err *e)
{
    struct oauth_challenge c;
    struct tool_visit v = {
        .r = r, .server = server, .secret = "", .until = until, .work = look_only};
    if (!tool_account_visit(&v, e) && !v.refusal.status)
        return false;
    *e = (struct err){0};
    oauth_challenge_read(v.refusal.challenge, &c);
    struct oauth_ask ask = tool_account_ask(r, server, v.refusal.near, until);
    ask.exact = server->user_id != 0; /* admins know whose host it is */
    if (!oauth_discover(&ask, server->url, &c, about, e))
        return false;
    about->near = v.refusal.near;
    return true;
}

/* With what was granted before and what a call missed. */
static bool add_scopes(struct request *r, const struct store_tool_server *server,
                       struct oauth_about *about, struct err *e)
{
    struct oauth_about before;
    char had[OAUTH_SCOPE], all[OAUTH_SCOPE];
    if (!server->account || !server->wanted || !*server->wanted ||
        !oauth_about_read(r->arena, server->account, &before))
        return true;
    oauth_scope_join(before.scope, server->wanted, had);
    oauth_scope_join(had, about->scope, all);
    about->scope = arena_strdup(r->arena, all);
    return about->scope || err_set(e, ERR_NOMEM, "no memory for a sign-in");
}

/* Somebody entered it, and may enter another while its server is asked: it is shown to one issuer
 * only, which is the first that the server named. */
static bool use_typed(struct request *r, const struct store_tool_server *server,
                      struct store_tool_client *client, struct oauth_about *about, struct err *e)
{
    if (*client->issuer && strcmp(client->issuer, about->issuer) != 0)
        return refuse(e, "tool_issuer",
                      "the tool server names another issuer than the one that its client was "
                      "entered for");
    about->client_id = client->client_id;
    about->method = oauth_method_of(about, client->secret != NULL);
    if (*client->issuer)
        return true;
    client->issuer = about->issuer;
    return store_tool_client_bind(r->store, server, client, e);
}

/* A server, and its client as it was read. */
struct known {
    const struct store_tool_server *server;
    struct store_tool_client client;
};

/* In the place of the one that is known, as long as nobody enters one meanwhile. */
static bool register_anew(struct request *r, const struct known *known, struct oauth_about *about,
                          const struct oauth_ask *ask, struct err *e)
{
    struct store_tool_client client = {.issuer = about->issuer,
                                       .redirect_uri = about->redirect_uri};
    if (!about->registration_endpoint)
        return refuse(e, "tool_client",
                      "the issuer does not register clients by itself: enter a client ID");
    struct oauth_client_secret secret;
    if (!oauth_register(ask, about, &secret, e))
        return false;
    client.secret = secret.text;
    client.secret_expires_at = secret.expires_at;
    client.client_id = about->client_id;
    return store_tool_client_put(r->store, known->server, &known->client, &client, e);
}

/* Its secret is good for no sign-in that begins now. Another client ends the sign-ins of others
 * that are under way, so one that is good for most stays. */
static bool has_ended(const struct store_tool_client *client)
{
    return client->secret_expires_at &&
           client->secret_expires_at <= clock_wall_ms() + RENEW_BEFORE_MS;
}

/* As whom this server asks: an entered client, its own description where the issuer reads such, the
 * client of an earlier registration, or a new one. */
static bool choose_client(struct request *r, const struct store_tool_server *server,
                          struct oauth_about *about, double until, struct err *e)
{
    struct known known = {.server = server};
    const struct store_tool_client *client = &known.client;
    const struct oauth_ask ask = tool_account_ask(r, server, about->near, until);
    const char *address = oidc_config_address(r);
    const char *public = server_setting_text(r, SETTING_OIDC_PUBLIC_URL);
    if (!address)
        return refuse(e, "tool_state", "the browser does not say where it came to");
    about->redirect_uri = arena_printf(r->arena, "%s" TOOL_SIGN_IN_CALLBACK, address);
    if (!about->redirect_uri)
        return err_set(e, ERR_NOMEM, "no memory for a sign-in");
    if (!store_tool_client_get(r->store, r->arena, server, &known.client, e))
        return false;
    if (!client->client_id)
        return err_set(e, ERR_CONFLICT, "the tool server wants no sign-in");
    if (client->typed)
        return use_typed(r, server, &known.client, about, e);
    if (about->takes_documents && about->takes_none && !strncmp(public, "https:", 6)) {
        about->client_id = arena_printf(r->arena, "%s" TOOL_SIGN_IN_DOCUMENT, address);
        return about->client_id || err_set(e, ERR_NOMEM, "no memory for a sign-in");
    }
    const bool known_there = *client->client_id && !strcmp(client->issuer, about->issuer);
    const bool registered = known_there && !has_ended(client);
    const bool elsewhere = known_there && strcmp(client->redirect_uri, about->redirect_uri) != 0;
    if (elsewhere && !server->user_id && !*public) /* the Host of one user is not everyone's */
        return refuse(e, "tool_public_url",
                      "this server is registered at the issuer by another address: set "
                      "oidc_public_url, the address that users reach it by");
    if (!registered || elsewhere)
        return register_anew(r, &known, about, &ask, e);
    about->client_id = client->client_id;
    about->method = oauth_method_of(about, client->secret != NULL);
    return true;
}

/* One for all sign-ins of a browser, since several may be under way in its windows. */
static void take_cookie(struct request *r, char browser[SECRET_TOKEN_SIZE])
{
    const char *given = oidc_cookie_get(r, OIDC_COOKIE_TOOLS);
    if (given && strlen(given) == SECRET_TOKEN_SIZE - 1)
        memcpy(browser, given, SECRET_TOKEN_SIZE);
    else
        secret_token(browser);
}

static bool depart(struct request *r, const struct store_tool_server *server,
                   const struct oauth_about *about, struct buf *url, struct err *e)
{
    struct store_tool_flow flow = {.server_id = server->id};
    struct buf text = {.limit = STORE_TOOL_ABOUT};
    char browser[SECRET_TOKEN_SIZE], state[SECRET_TOKEN_SIZE], verifier[SECRET_TOKEN_SIZE];
    take_cookie(r, browser);
    secret_token(state);
    secret_derive(browser, state, verifier);
    secret_hash(browser, flow.browser_hash);
    secret_hash(state, flow.state_hash);
    memcpy(flow.session_hash, r->who.token_hash, SECRET_HASH_BYTES);
    bool ok = (oauth_about_write(&text, about) && oauth_departure(url, about, state, verifier)) ||
              err_set(e, ERR_NOMEM, "no memory for a sign-in");
    flow.about = text.data;
    ok = ok && store_tool_flow_add(r->store, &flow, e);
    if (ok)
        oidc_cookie_set(
            r, &(struct oidc_cookie){OIDC_COOKIE_TOOLS, browser, STORE_TOOL_FLOW_MS / 1000});
    buf_fini(&text);
    secret_wipe(browser, sizeof browser);
    secret_wipe(verifier, sizeof verifier);
    return ok;
}

bool tool_sign_in_begin(struct request *r, const struct store_tool_server *server, struct buf *url,
                        struct err *e)
{
    struct oauth_about about;
    const double until = clock_ms() + DEADLINE_MS;
    if (!work_begin(r, WORK_TOOL, e))
        return false;
    const bool ok = discover(r, server, until, &about, e) && add_scopes(r, server, &about, e) &&
                    choose_client(r, server, &about, until, e);
    work_end(r, WORK_TOOL);
    return ok && depart(r, server, &about, url, e);
}

/* --- return --- */

/* The sign-in that this browser began under this state, once. */
static bool take_flow(struct request *r, struct store_tool_flow *flow,
                      char verifier[SECRET_TOKEN_SIZE], struct err *e)
{
    struct err why = {0};
    const char *browser = oidc_cookie_get(r, OIDC_COOKIE_TOOLS);
    const char *state = request_query(r, "state");
    if (browser && strlen(browser) == SECRET_TOKEN_SIZE - 1 && state &&
        strlen(state) == SECRET_TOKEN_SIZE - 1) {
        secret_hash(state, flow->state_hash);
        secret_hash(browser, flow->browser_hash);
        secret_derive(browser, state, verifier);
        if (store_tool_flow_take(r->store, r->arena, flow, &why))
            return true;
        if (why.code != ERR_NOTFOUND) {
            *e = why;
            return false;
        }
    }
    return refuse(e, "tool_state",
                  "no such sign-in is under way: it is over, or another browser began it");
}

/* Whose session it was, if it still is one. */
static bool take_user(struct request *r, const struct store_tool_flow *flow, struct err *e)
{
    struct store_user user;
    struct err why = {0};
    if (!store_session_find(r->store, r->arena, flow->session_hash, &user, &why)) {
        if (why.code == ERR_AUTH)
            return refuse(e, "tool_state", "the session that began the sign-in has ended");
        *e = why;
        return false;
    }
    r->who.user_id = user.id;
    r->who.name = user.name;
    r->who.admin = user.admin;
    return true;
}

/* What the issuer says in the address: an error, or a code. */
static bool take_code(struct request *r, const struct oauth_about *about, const char **code,
                      struct err *e)
{
    const char *error = request_query(r, "error"), *iss = request_query(r, "iss");
    *code = request_query(r, "code");
    if (iss ? strcmp(iss, about->issuer) != 0 : about->names_itself)
        return refuse(e, "tool_state", "the answer is of another issuer (iss)");
    if (error && !strcmp(error, "access_denied"))
        return refuse(e, "tool_denied", "the sign-in was refused at the issuer");
    if (error || !*code || !**code || strlen(*code) > OAUTH_CODE)
        return refuse(e, "tool_grant", "the issuer's answer has no code");
    return true;
}

static bool keep(struct request *r, const struct store_tool_server *server,
                 const struct oauth_about *about, const struct oauth_tokens *tokens, struct err *e)
{
    struct buf text = {.limit = STORE_TOOL_ABOUT}, sealed = {.limit = STORE_TOOL_TOKENS};
    struct store_tool_sign_in x = {.user_id = r->who.user_id};
    bool ok = (oauth_about_write(&text, about) && oauth_tokens_write(&sealed, tokens)) ||
              err_set(e, ERR_LIMIT, "the issuer's tokens are too long");
    x.about = text.data;
    x.tokens = sealed.data;
    x.expires_at = tokens->expires_in ? clock_wall_ms() + tokens->expires_in * 1000 : 0;
    ok = ok && store_tool_sign_in_put(r->store, server, &x, e);
    if (sealed.data)
        secret_wipe(sealed.data, sealed.len);
    buf_fini(&text);
    buf_fini(&sealed);
    return ok;
}

/* The client may have been entered or registered anew meanwhile: then its secret is another. */
static bool redeem(struct request *r, const struct store_tool_server *server,
                   struct oauth_about *about, struct oauth_code *code, struct err *e)
{
    struct store_tool_client client;
    struct oauth_tokens tokens;
    const double until = clock_ms() + DEADLINE_MS;
    const struct oauth_ask ask = tool_account_ask(r, server, about->near, until);
    if (!store_tool_client_get(r->store, r->arena, server, &client, e))
        return false;
    const bool own = client.client_id && !strcmp(client.client_id, about->client_id);
    if (about->method != OAUTH_NONE && !own)
        return refuse(e, "tool_state", "the client was changed while somebody signed in");
    code->secret = about->method == OAUTH_NONE ? NULL : client.secret;
    if (!work_begin(r, WORK_TOOL, e))
        return false;
    if (oauth_redeem(&ask, about, code, &tokens, e))
        return keep(r, server, about, &tokens, e);
    if (!strcmp(e->reason, "tool_client_refused") &&
        tool_account_drop_client(r, server, about->client_id))
        return refuse(e, "tool_sign_in_failed",
                      "the issuer knows this server's client no more: the next sign-in registers "
                      "another");
    return false;
}

bool tool_sign_in_end(struct request *r, struct store_tool_server *server, struct err *e)
{
    struct store_tool_flow flow = {0};
    struct oauth_about about;
    struct oauth_code code = {0};
    char verifier[SECRET_TOKEN_SIZE];
    if (!r->store)
        return err_set(e, ERR_UNAVAILABLE, "the database is not open");
    if (!take_flow(r, &flow, verifier, e) || !take_user(r, &flow, e))
        return false;
    const struct store_ref ref = {.user_id = r->who.user_id, .id = flow.server_id};
    code.verifier = verifier;
    bool ok = store_tool_server_get(r->store, r->arena, &ref, server, e);
    if (ok && (!tool_offer_usable(r, server) || !oauth_about_read(r->arena, flow.about, &about)))
        ok = refuse(e, "tool_state", "the tool server was turned off meanwhile");
    ok = ok && take_code(r, &about, &code.code, e) && redeem(r, server, &about, &code, e);
    work_end(r, WORK_TOOL);
    secret_wipe(verifier, sizeof verifier);
    return ok;
}

/* --- the end --- */

bool tool_sign_in_forget(struct request *r, const struct store_tool_server *server, struct err *e)
{
    struct store_tool_sign_in x;
    struct oauth_about about;
    struct oauth_tokens tokens;
    struct err why = {0};
    bool removed = false;
    if (!store_tool_sign_in_get(r->store, r->arena, server, r->who.user_id, &x, e))
        return false;
    const bool known = x.about && oauth_about_read(r->arena, x.about, &about) &&
                       oauth_tokens_read(r->arena, x.tokens, &tokens);
    x.version = 0; /* whichever there is by now */
    if (!store_tool_sign_in_remove(r->store, server->id, &x, &removed, e))
        return false;
    if (!removed)
        return err_set(e, ERR_NOTFOUND, "nobody is signed in at this tool server");
    const struct oauth_ask ask =
        tool_account_ask(r, server, known && about.near, clock_ms() + DEADLINE_MS);
    if (known && (!work_begin(r, WORK_TOOL, &why) || !oauth_revoke(&ask, &about, &tokens, &why)))
        log_info("id=%s server=%lld tokens are forgotten, but not revoked: %s", r->id,
                 (long long)server->id, why.text);
    work_end(r, WORK_TOOL);
    return true;
}
