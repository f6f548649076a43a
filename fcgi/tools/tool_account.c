/* tool_account.h: tokens out of their row, or fresh ones by the refresh token, which may be good
 * only once: so one of all processes fetches them, and the others wait for its row. */
#define LOG_MODULE "tools"
#include "fcgi/tools/tool_account.h"

#include <string.h>
#include <time.h>

#include "engine/base/arena.h"
#include "engine/base/clock.h"
#include "engine/base/json/json.h"
#include "engine/base/log.h"
#include "fcgi/http/request.h"
#include "fcgi/process/worker.h"
#include "fcgi/tools/tool_address.h"
#include "fcgi/tools/tool_offer.h"

#define EARLY_MS 30000    /* before its end a token is fetched anew */
#define REFRESH_MS 20000  /* that one refresh may take */
#define WRITE_MS 5000     /* that the database waits for another writer */
#define LOOK_NS 100000000 /* at the row, while another refreshes */

struct oauth_ask tool_account_ask(struct request *r, const struct store_tool_server *server,
                                  bool near, double until)
{
    const bool anywhere = near && tool_offer_anywhere(r, server);
    return (struct oauth_ask){
        .arena = r->arena, .until = until, .may_connect = anywhere ? NULL : tool_address_is_public};
}

static bool wants_sign_in(struct err *e)
{
    return err_set(e, ERR_FORBIDDEN, "the tool server wants you to sign in first") ||
           err_reason(e, "tool_sign_in");
}

/* The row as tokens. */
struct account {
    struct store_tool_sign_in row;
    struct oauth_about about;
    struct oauth_tokens tokens;
};

/* False with e->code 0: there is none. */
static bool read_account(const struct tool_visit *v, struct account *a, struct err *e)
{
    struct request *r = v->r;
    *e = (struct err){0};
    return store_tool_sign_in_get(r->store, r->arena, v->server, r->who.user_id, &a->row, e) &&
           a->row.about && oauth_about_read(r->arena, a->row.about, &a->about) &&
           oauth_tokens_read(r->arena, a->row.tokens, &a->tokens);
}

/* Of no use any more, unless it was replaced meanwhile. */
static void forget(const struct tool_visit *v, const struct account *a)
{
    bool removed;
    struct err ignored = {0};
    store_tool_sign_in_remove(v->r->store, v->server->id, &a->row, &removed, &ignored);
}

static bool keep(const struct tool_visit *v, struct account *a, const struct oauth_tokens *fresh,
                 struct err *e)
{
    struct buf about = {0}, tokens = {.limit = STORE_TOOL_TOKENS};
    bool kept = false;
    bool ok = (oauth_about_write(&about, &a->about) && oauth_tokens_write(&tokens, fresh)) ||
              err_set(e, ERR_NOMEM, "no memory for tokens");
    a->row.about = about.data;
    a->row.tokens = tokens.data;
    a->row.expires_at = fresh->expires_in ? clock_wall_ms() + fresh->expires_in * 1000 : 0;
    ok = ok && store_tool_sign_in_renew(v->r->store, v->server, &a->row, &kept, e);
    a->row.about = a->row.tokens = NULL;
    if (tokens.data)
        secret_wipe(tokens.data, tokens.len);
    buf_fini(&about);
    buf_fini(&tokens);
    a->row.version += kept;
    return ok && (kept || wants_sign_in(e)); /* signed out while they were fetched */
}

bool tool_account_drop_client(struct request *r, const struct store_tool_server *server,
                              const char *client_id)
{
    struct store_tool_client client;
    struct err why = {0};
    if (!store_tool_client_get(r->store, r->arena, server, &client, &why) || !client.client_id)
        return false;
    const bool same = !strcmp(client.client_id, client_id);
    if (same && !client.typed &&
        !store_tool_client_put(r->store, server, &client,
                               &(struct store_tool_client){.client_id = ""}, &why))
        log_info("id=%s server=%lld its client stays: %s", r->id, (long long)server->id, why.text);
    return !same || !client.typed;
}

/* The client's secret may have been entered anew since somebody signed in. */
static bool take_secret(const struct tool_visit *v, struct account *a, struct err *e)
{
    struct store_tool_client client;
    if (!store_tool_client_get(v->r->store, v->r->arena, v->server, &client, e))
        return false;
    if (client.client_id && !strcmp(client.client_id, a->about.client_id) &&
        !strcmp(client.issuer, a->about.issuer))
        a->tokens.secret = client.secret;
    return true;
}

/* The old refresh token may be used up: fresh ones are not lost to a busy database, as long as the
 * claim holds. */
static bool keep_surely(const struct tool_visit *v, struct account *a,
                        const struct oauth_tokens *fresh, struct err *e)
{
    bool kept = false;
    do {
        *e = (struct err){0};
        kept = keep(v, a, fresh, e);
    } while (!kept && e->code == ERR_BUSY && clock_wall_ms() + WRITE_MS < a->row.claimed);
    return kept;
}

static bool refresh(const struct tool_visit *v, struct account *a, struct err *e)
{
    struct oauth_tokens fresh;
    const double now = clock_ms(), until = now + REFRESH_MS / 2.0;
    const struct oauth_ask ask =
        tool_account_ask(v->r, v->server, a->about.near, v->until < until ? v->until : until);
    if (!take_secret(v, a, e))
        return false;
    if (oauth_refresh(&ask, &a->about, &a->tokens, &fresh, e)) {
        a->tokens = fresh;
        return keep_surely(v, a, &fresh, e);
    }
    if (!strcmp(e->reason, "tool_client_refused") &&
        tool_account_drop_client(v->r, v->server, a->about.client_id)) {
        *e = (struct err){0};
        return wants_sign_in(e);
    }
    if (e->code != ERR_FORBIDDEN)
        return false;
    log_info("id=%s server=%lld the sign-in has ended: %s", v->r->id, (long long)v->server->id,
             e->text);
    forget(v, a);
    *e = (struct err){0};
    return wants_sign_in(e);
}

/* False, with the error as it was. */
static bool release(const struct tool_visit *v, const struct account *a)
{
    struct err why = {0};
    if (!store_tool_sign_in_release(v->r->store, v->server->id, &a->row, &why))
        log_info("id=%s server=%lld the next refresh waits: %s", v->r->id, (long long)v->server->id,
                 why.text);
    return false;
}

/* Tokens of a newer version than *a has: by this request, or by another that is at it. */
static bool renew(const struct tool_visit *v, struct account *a, struct err *e)
{
    const int64_t old = a->row.version;
    while (clock_ms() < v->until) {
        bool claimed = false;
        if (!a->tokens.refresh) {
            forget(v, a);
            return wants_sign_in(e);
        }
        if (!store_tool_sign_in_claim(v->r->store, v->server->id, &a->row, REFRESH_MS, &claimed, e))
            return false;
        if (claimed)
            return refresh(v, a, e) || release(v, a);
        nanosleep(&(struct timespec){.tv_nsec = LOOK_NS}, NULL);
        if ((v->stopped && v->stopped(v->context)) || request_client_gone(v->r))
            return err_set(e, ERR_CANCELLED, "the call was stopped");
        if (!read_account(v, a, e))
            return e->code ? false : wants_sign_in(e);
        if (a->row.version != old)
            return true;
    }
    return err_set(e, ERR_UNAVAILABLE, "the tool server's issuer did not answer in time") ||
           err_reason(e, "tool_issuer_down");
}

static bool find_account(const struct tool_visit *v, struct account *a, struct err *e)
{
    if (!read_account(v, a, e))
        return e->code ? false : wants_sign_in(e);
    const int64_t left = a->row.expires_at - clock_wall_ms();
    return !a->row.expires_at || left > EARLY_MS || (left > 0 && !a->tokens.refresh) ||
           renew(v, a, e);
}

static bool attempt(struct tool_visit *v, const char *header, const char *secret, struct err *e)
{
    struct mcp_session session;
    const struct mcp_server server = {.url = v->server->url,
                                      .run_dir = v->r->worker->run_dir,
                                      .header = header,
                                      .secret = secret,
                                      .anywhere = tool_offer_anywhere(v->r, v->server),
                                      .until = v->until,
                                      .stopped = v->stopped,
                                      .context = v->context};
    *e = (struct err){0};
    const bool opened = mcp_open(&session, &server, e);
    const bool ok = opened && v->work(v->context, &session, e);
    v->refusal = session.refusal;
    if (ok)
        v->refusal.status = 0;
    if (opened)
        mcp_close(&session);
    return ok;
}

static bool attempt_with(struct tool_visit *v, const struct account *a, struct err *e)
{
    const char *secret = arena_printf(v->r->arena, "Bearer %s", a->tokens.access);
    return secret ? attempt(v, "Authorization", secret, e)
                  : err_set(e, ERR_NOMEM, "no memory for a token");
}

/* A token that is good, but not for this. The scopes are kept for the next sign-in. */
static bool wants_scope(const struct tool_visit *v, const struct account *a,
                        const struct oauth_challenge *c, struct err *e)
{
    struct err why = {0};
    char wanted[OAUTH_SCOPE];
    oauth_scope_join(a->row.wanted, c->scope, wanted);
    if (!store_tool_sign_in_want(v->r->store, v->server->id, v->r->who.user_id,
                                 *wanted ? wanted : a->about.scope, &why)) {
        *e = why;
        return false;
    }
    *e = (struct err){0};
    return err_set(e, ERR_FORBIDDEN, "the tool server wants more rights than you have given") ||
           err_reason(e, "tool_scope");
}

static bool visit_signed_in(struct tool_visit *v, struct err *e)
{
    struct account a;
    struct oauth_challenge c;
    if (!find_account(v, &a, e))
        return false;
    if (attempt_with(v, &a, e))
        return true;
    if (!v->refusal.status)
        return false;
    oauth_challenge_read(v->refusal.challenge, &c);
    if (v->refusal.status == 403 && !strcmp(c.error, "insufficient_scope"))
        return wants_scope(v, &a, &c, e);
    if (v->refusal.status != 401)
        return false;
    *e = (struct err){0};
    if (!renew(v, &a, e))
        return false;
    if (attempt_with(v, &a, e))
        return true;
    if (v->refusal.status != 401)
        return false;
    forget(v, &a); /* a fresh one is refused as well */
    *e = (struct err){0};
    return wants_sign_in(e);
}

bool tool_account_visit(struct tool_visit *v, struct err *e)
{
    const char *secret = v->secret;
    v->refusal = (struct mcp_refusal){0};
    if (v->server->client_id && !secret)
        return visit_signed_in(v, e);
    if (!secret && !store_tool_server_secret(v->r->store, v->r->arena, v->server, &secret, e))
        return false;
    return attempt(v, v->server->header, secret && *secret ? secret : NULL, e);
}

static void put_text(cJSON *o, const char *name, const char *text)
{
    if (text)
        cJSON_AddStringToObject(o, name, text);
    else
        cJSON_AddNullToObject(o, name);
}

cJSON *tool_account_json(struct request *r, const struct store_tool_server *server)
{
    struct oauth_about about = {0};
    cJSON *o = cJSON_CreateObject();
    if (!server->client_id) {
        cJSON_Delete(o);
        return cJSON_CreateNull();
    }
    const bool known = server->account && oauth_about_read(r->arena, server->account, &about);
    const bool more = known && server->wanted && *server->wanted;
    cJSON_AddStringToObject(o, "state", more ? "more" : known ? "done" : "needed");
    put_text(o, "issuer", known ? about.issuer : NULL);
    put_text(o, "as", known && *about.label ? about.label : NULL);
    put_text(o, "scope", known ? about.scope : NULL);
    return o;
}
