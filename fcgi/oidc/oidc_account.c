/* oidc_account.h: found, made or linked, and written to the audit log. */
#define LOG_MODULE "oidc"
#include "fcgi/oidc/oidc_account.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "engine/base/arena.h"
#include "engine/base/log.h"
#include "fcgi/http/audit.h"
#include "fcgi/http/request.h"
#include "fcgi/oidc/oidc_config.h"
#include "fcgi/oidc/oidc_token.h"
#include "sql/core/secret.h"
#include "sql/users/store_groups.h"
#include "sql/users/store_oidc.h"

static struct store_oidc_identity identity_of(const struct oidc_claims *c)
{
    const char *label = c->email ? c->email : c->user_name ? c->user_name : c->full_name;
    return (struct store_oidc_identity){
        .issuer = c->issuer, .subject = c->subject, .label = label ? label : ""};
}

/* Is the address in one of the domains? */
static bool in_domains(const char *email, const char *domains)
{
    const char *at = strrchr(email, '@');
    for (const char *d = domains + strspn(domains, " "); at && *d; d += strspn(d, " ")) {
        const size_t n = strcspn(d, " ");
        if (strlen(at + 1) == n && !strncasecmp(at + 1, d, n))
            return true;
        d += n;
    }
    return false;
}

/* The name that the provider knows, as far as it can be one here. */
static const char *name_of(struct request *r, const struct oidc_claims *c)
{
    const char *from = c->user_name ? c->user_name : c->email ? c->email : c->full_name;
    if (!from)
        return NULL;
    from += strspn(from, " #");
    size_t n = !c->user_name && c->email ? strcspn(from, "@") : strlen(from);
    while (n && from[n - 1] == ' ')
        n--;
    return n ? arena_copy(r->arena, from, n) : NULL;
}

static bool may_have_one(struct request *r, const struct oidc_config *config,
                         const struct oidc_claims *c, struct err *e)
{
    if (!config->creates)
        return oidc_refuse(r, "oidc_no_account", e, "the account is linked to no user here");
    if (config->domains[strspn(config->domains, " ")] &&
        !(c->email && c->email_verified && in_domains(c->email, config->domains)))
        return oidc_refuse(r, "oidc_domain", e,
                           "the account has no verified e-mail address in an allowed domain");
    return true;
}

struct told {
    struct request *r;
    const struct store_user *user;
};

static void tell(void *context, int64_t group_id, bool added)
{
    const struct told *t = context;
    char target[80];
    snprintf(target, sizeof target, "group:%lld user:%lld oidc", (long long)group_id,
             (long long)t->user->id);
    audit_record(t->r, t->user->id, t->user->name,
                 added ? "group.member.add" : "group.member.remove", target);
}

/* The user's groups as the provider knows them: one that says nothing of groups knows of none, so
 * that nobody keeps what was taken from them there. */
static bool take_groups(struct request *r, const struct oidc_exchange *x, struct oidc_claims *c,
                        const struct store_user *user, struct err *e)
{
    struct told told = {r, user};
    if (!*x->config->groups_claim)
        return true;
    if (!c->groups && !oidc_token_ask_more(r, x, c, e))
        return false;
    return store_group_claimed(r->store,
                               &(struct store_group_claim){.user_id = user->id,
                                                           .names = c->groups ? c->groups : "[]",
                                                           .moved = tell,
                                                           .context = &told},
                               e);
}

static bool make_user(struct request *r, const struct oidc_exchange *x, struct oidc_claims *c,
                      struct store_user *user, struct err *e)
{
    struct err why = {0};
    int64_t id = 0;
    if (!may_have_one(r, &(struct oidc_config){.creates = x->config->creates, .domains = ""}, c,
                      e) ||
        !oidc_token_ask_more(r, x, c, e) || !may_have_one(r, x->config, c, e))
        return false;
    const struct store_oidc_identity who = identity_of(c);
    const struct store_user fresh = {.name = name_of(r, c), .password_hash = secret_no_password()};
    if (!fresh.name)
        return oidc_refuse(r, "oidc_name", e, "the provider tells no name for the account");
    if (!store_oidc_create(r->store, &fresh, &who, &id, &why)) {
        if (why.code == ERR_CONFLICT && !strcmp(why.field, "name"))
            return oidc_refuse(r, "oidc_name_taken", e, "there is a user '%.100s' already",
                               fresh.name);
        if (why.code == ERR_INPUT)
            return oidc_refuse(r, "oidc_name", e, "the name can't be a user's: %.200s", why.text);
        *e = why;
        return false;
    }
    r->who.user_id = id;
    r->who.name = fresh.name;
    audit_record_id(r, "user.oidc", "user", id);
    return store_user_by_id(r->store, r->arena, id, user, e) && take_groups(r, x, c, user, e);
}

bool oidc_account_find(struct request *r, const struct oidc_exchange *x, struct oidc_claims *c,
                       struct store_user *user, struct err *e)
{
    const struct store_oidc_identity who = identity_of(c);
    struct err why = {0};
    if (!store_oidc_find(r->store, r->arena, &who, user, &why)) {
        if (why.code == ERR_NOTFOUND)
            return make_user(r, x, c, user, e);
        *e = why;
        return false;
    }
    if (user->disabled) {
        audit_record(r, user->id, user->name, "login.fail", "oidc");
        return oidc_refuse(r, "oidc_disabled", e, "the user is disabled");
    }
    if (!take_groups(r, x, c, user, e))
        return false;
    if (!store_oidc_used(r->store, &who, &why))
        log_warn("id=%s the time of the sign-in was not kept: %s", r->id, why.text);
    return true;
}

bool oidc_account_link(struct request *r, const unsigned char *session_hash,
                       const struct oidc_claims *c, struct err *e)
{
    struct store_oidc_identity who = identity_of(c);
    struct store_user user, other;
    struct err why = {0};
    if (!store_session_find(r->store, r->arena, session_hash, &user, &why)) {
        if (why.code == ERR_AUTH)
            return oidc_refuse(r, "oidc_session", e, "the session that asked for it has ended");
        *e = why;
        return false;
    }
    if (store_oidc_find(r->store, r->arena, &who, &other, &why) && other.id == user.id)
        return true; /* it is linked already, as was wanted */
    who.user_id = user.id;
    if (!store_oidc_link(r->store, &who, &why)) {
        if (why.code == ERR_CONFLICT)
            return oidc_refuse(r, "oidc_linked", e,
                               "the account is another user's, or the user has another one");
        *e = why;
        return false;
    }
    audit_record(r, user.id, user.name, "oidc.link", c->issuer);
    return true;
}

bool oidc_account_unlink(struct request *r, const struct store_user *user, const char *issuer,
                         struct err *e)
{
    struct told told = {r, user};
    const struct store_oidc_end end = {
        .user_id = user->id, .issuer = issuer, .moved = tell, .context = &told};
    if (!store_oidc_unlink(r->store, &end, e))
        return false;
    audit_record(r, user->id, user->name, "oidc.unlink", issuer);
    return true;
}
