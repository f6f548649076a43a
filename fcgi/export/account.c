/* account.json of an archive: the user, their library, keys, sessions, accounts at providers and
 * usage, without any secret. */
#include "fcgi/export/account.h"

#include <string.h>

#include "fcgi/export/export.h"
#include "sql/chats/store_library.h"
#include "sql/core/store.h"
#include "sql/projects/store_project_shares.h"
#include "sql/projects/store_projects.h"
#include "sql/users/store_oidc.h"
#include "sql/users/store_users.h"

#define FIRST_DAY 0

struct listing {
    struct buf *out;
    bool json; /* of a library: the bodies are JSON objects */
    int n;
};

static void put_text(struct buf *out, const char *name, const char *text)
{
    buf_printf(out, "\"%s\":", name);
    buf_json_string(out, text, strlen(text));
}

static void next(struct listing *l)
{
    buf_puts(l->out, l->n++ ? ",\n{" : "\n{");
}

static bool put_entry(void *context, const struct store_entry *entry)
{
    struct listing *l = context;
    next(l);
    put_text(l->out, "name", entry->name);
    buf_puts(l->out, l->json ? ",\"settings\":" : ",\"text\":");
    if (l->json)
        buf_puts(l->out, entry->body);
    else
        buf_json_string(l->out, entry->body, strlen(entry->body));
    buf_printf(l->out, ",\"created_at\":%lld,\"updated_at\":%lld}", (long long)entry->created_at,
               (long long)entry->updated_at);
    return true;
}

static bool put_project(void *context, const struct store_project *p)
{
    struct listing *l = context;
    if (p->access != STORE_PROJECT_OWNER) /* another's, who shares it */
        return true;
    next(l);
    put_text(l->out, "key", p->key);
    buf_putc(l->out, ',');
    put_text(l->out, "name", p->name);
    buf_printf(l->out, ",\"colour\":%d,", p->colour);
    put_text(l->out, "instructions", p->instructions);
    buf_printf(l->out, ",\"created_at\":%lld,\"updated_at\":%lld}", (long long)p->created_at,
               (long long)p->updated_at);
    return true;
}

static bool put_key(void *context, const struct store_key *k)
{
    struct listing *l = context;
    next(l);
    put_text(l->out, "name", k->name);
    buf_putc(l->out, ',');
    put_text(l->out, "prefix", k->prefix);
    buf_printf(l->out, ",\"created_at\":%lld,\"last_used_at\":%lld,\"expires_at\":%lld}",
               (long long)k->created_at, (long long)k->last_used_at,
               (long long)k->terms.expires_at);
    return true;
}

static bool put_usage(void *context, const struct store_usage *u)
{
    struct listing *l = context;
    next(l);
    buf_printf(l->out,
               "\"unix_day\":%lld,\"key_id\":%lld,\"requests\":%lld,\"prompt_tokens\":%lld,"
               "\"cached_tokens\":%lld,"
               "\"completion_tokens\":%lld}",
               (long long)u->day, (long long)u->key_id, (long long)u->requests,
               (long long)u->prompt_tokens, (long long)u->cached_tokens,
               (long long)u->completion_tokens);
    return true;
}

static bool put_session(void *context, const struct store_session_seen *n)
{
    struct listing *l = context;
    next(l);
    buf_printf(l->out, "\"created_at\":%lld,\"used_at\":%lld,\"expires_at\":%lld,",
               (long long)n->created_at, (long long)n->used_at, (long long)n->expires_at);
    put_text(l->out, "address", n->address);
    buf_putc(l->out, ',');
    put_text(l->out, "agent", n->agent);
    buf_putc(l->out, '}');
    return true;
}

static bool put_identity(void *context, const struct store_oidc_identity *i)
{
    struct listing *l = context;
    next(l);
    put_text(l->out, "issuer", i->issuer);
    buf_putc(l->out, ',');
    put_text(l->out, "label", i->label);
    buf_printf(l->out, ",\"created_at\":%lld,\"used_at\":%lld}", (long long)i->created_at,
               (long long)i->used_at);
    return true;
}

static void begin(struct listing *l, const char *name, bool json)
{
    buf_printf(l->out, "%s\"%s\":[", l->n >= 0 ? "],\n" : ",\n", name);
    l->json = json;
    l->n = 0;
}

bool export_account(struct buf *out, const struct export_params *p, struct arena *a, struct err *e)
{
    struct store *s = p->store;
    const int64_t user_id = p->which.user_id;
    const char *preferences;
    struct store_user u;
    struct listing l = {.out = out, .n = -1};
    if (!store_user_by_id(s, a, user_id, &u, e))
        return false;
    buf_printf(out,
               "{\"schema\":\"sluice-account\",\"version\":1,\"exported_at\":%lld,\n\"user\":{",
               (long long)p->exported_at);
    put_text(out, "name", u.name);
    buf_printf(out,
               ",\"role\":\"%s\",\"created_at\":%lld},\n\"defaults\":", u.admin ? "admin" : "user",
               (long long)u.created_at);
    buf_puts(out, u.settings);
    if (!store_user_preferences(s, a, user_id, &preferences, e))
        return false;
    buf_printf(out, ",\n\"preferences\":%s", preferences);
    begin(&l, "presets", true);
    bool ok = store_library_list(
        s, &(struct store_entry_ref){.user_id = user_id, .kind = KIND_PRESET}, put_entry, &l, e);
    begin(&l, "prompts", false);
    ok = ok &&
         store_library_list(s, &(struct store_entry_ref){.user_id = user_id, .kind = KIND_PROMPT},
                            put_entry, &l, e);
    begin(&l, "projects", false);
    ok = ok && store_project_list(s, user_id, put_project, &l, e);
    begin(&l, "keys", false);
    ok = ok && store_key_list(s, user_id, put_key, &l, e);
    begin(&l, "sessions", false);
    ok = ok && store_session_list(s, &(struct store_session_viewer){.user_id = user_id},
                                  put_session, &l, e);
    begin(&l, "oidc_identities", false);
    ok = ok && store_oidc_list(s, user_id, put_identity, &l, e);
    begin(&l, "usage", false);
    ok = ok && store_usage_list(
                   s, &(struct store_usage_filter){.user_id = user_id, .first_day = FIRST_DAY},
                   put_usage, &l, e);
    buf_puts(out, "]}\n");
    return ok && (!out->failed || err_set(e, ERR_NOMEM, "no memory for the account"));
}
