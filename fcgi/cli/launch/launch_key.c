/* A key for one client, and its end. */
#include "fcgi/cli/launch/launch_key.h"

#include <limits.h>
#include <string.h>

#include "engine/base/arena.h"
#include "fcgi/cli/cli_store.h"
#include "sql/core/store.h"
#include "sql/users/store_users.h"

struct choice {
    struct arena *arena;
    const char *only, *admin;
    int n;
};

static bool look_at_user(void *context, const struct store_user *u)
{
    struct choice *c = context;
    if (u->disabled)
        return true;
    c->n++;
    c->only = arena_strdup(c->arena, u->name);
    if (u->admin && !c->admin)
        c->admin = c->only;
    return true;
}

/* Whose key it is where nobody said: on one's own machine there is one user. */
static bool choose_user(struct launch_key *k, struct arena *a, struct store *s, struct err *e)
{
    struct choice c = {.arena = a};
    if (k->user)
        return true;
    if (!store_user_list(s, look_at_user, &c, e))
        return false;
    k->user = c.n == 1 ? c.only : c.admin;
    return k->user || err_set(e, ERR_NOTFOUND,
                              "there is no user yet; `sluice user add NAME --admin` makes one");
}

bool launch_key_make(struct launch_key *k, struct arena *a, const char *client, int64_t scopes,
                     struct err *e)
{
    char prefix[SECRET_PREFIX_SIZE], folder[PATH_MAX];
    unsigned char hash[SECRET_HASH_BYTES];
    struct store_user u;
    struct store *s = cli_store_open(k->state, false, e);
    if (!s)
        return err_prefix(e, "a key can't be made here (give one by --key-file FILE, made on the "
                             "page under Account, or this server's folder by --state DIR)");
    bool ok = cli_store_folder(k->state, folder, e) && choose_user(k, a, s, e) &&
              cli_store_user(s, a, k->user, &u, e);
    if (ok) {
        struct store_key key = {.user_id = u.id,
                                .name = arena_printf(a, "launch %s", client),
                                .prefix = prefix,
                                .terms = {.scopes = scopes}};
        secret_api_key(k->text, prefix);
        secret_hash(k->text, hash);
        ok = store_key_add(s, &key, hash, &k->id, e);
        k->state = arena_strdup(a, folder);
    }
    if (ok)
        cli_store_audit(s, "key.add", "key", k->id);
    store_close(&s);
    return ok;
}

bool launch_key_read(struct launch_key *k, const char *file, struct err *e)
{
    char line[SECRET_PASSWORD_MAX + 1];
    if (!cli_store_password(file, line, e))
        return err_prefix(e, "--key-file %s", file);
    bool ok = *line && strlen(line) < sizeof k->text && !line[strcspn(line, " \t\"'\\")];
    if (ok)
        memcpy(k->text, line, strlen(line) + 1);
    secret_wipe(line, sizeof line);
    k->id = 0;
    k->state = k->user = "";
    return ok || err_field(e, ERR_INPUT, "key-file", "its first line is no API key");
}

bool launch_key_remove(const struct launch_key *k, struct arena *a, struct err *e)
{
    struct store_user u;
    if (!k->id)
        return true;
    struct store *s = cli_store_open(k->state, false, e);
    bool ok = s && cli_store_user(s, a, k->user, &u, e) && store_key_remove(s, u.id, k->id, e);
    if (ok)
        cli_store_audit(s, "key.remove", "key", k->id);
    store_close(&s);
    return ok;
}
