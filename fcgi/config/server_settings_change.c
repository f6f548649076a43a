/* server_settings.h: a change as the API takes it, all of it or nothing. */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/arena.h"
#include "engine/base/json/json.h"
#include "fcgi/config/setting_checks.h"
#include "fcgi/config/setting_table.h"
#include "fcgi/http/audit.h"
#include "fcgi/http/request.h"
#include "fcgi/process/shared.h"
#include "fcgi/process/worker.h"
#include "fcgi/webauthn/webauthn.h"
#include "sql/core/store.h"
#include "sql/users/store_users.h"

bool server_settings_guarded(const cJSON *change)
{
    for (int i = 0; i < SETTING__N; i++)
        if (setting_guarded[i] &&
            cJSON_GetObjectItemCaseSensitive(change, setting_row((enum server_setting)i)->name))
            return true;
    return false;
}

/* A name that is wrong would only show when the first request is refused. */
static bool check_user(struct request *r, const struct setting_row *row, const char *name,
                       struct err *e)
{
    struct store_user user;
    struct err why = {0};
    if (!*name)
        return true;
    if (!store_user_by_name(r->store, r->arena, name, &user, &why) && why.code != ERR_NOTFOUND) {
        *e = why;
        return false;
    }
    return (why.code == ERR_NONE && !user.disabled) ||
           err_field(e, ERR_INPUT, row->name, "there is no user '%.100s' who may log in", name);
}

static bool check_origin(const struct setting_row *row, const char *text, struct err *e)
{
    struct webauthn_site site;
    struct err why = {0};
    if (!*text)
        return true;
    if (!webauthn_site_of(text, &site, &why))
        return err_field(e, ERR_INPUT, row->name, "%s", why.text);
    return !strcmp(site.origin, text) ||
           err_field(e, ERR_INPUT, row->name, "must be %s, as browsers write it", site.origin);
}

static bool read_change(struct request *r, const cJSON *item, struct store_setting *out,
                        struct err *e)
{
    struct buf text = {0};
    int i = 0;
    while (i < SETTING__N && strcmp(setting_row((enum server_setting)i)->name, item->string))
        i++;
    if (i == SETTING__N)
        return err_field(e, ERR_INPUT, item->string, "is no setting of this server");
    const struct setting_row *row = setting_row((enum server_setting)i);
    *out = (struct store_setting){.name = row->name};
    if (cJSON_IsNull(item)) /* back to the default, whatever that is */
        return true;
    if (!server_settings_check(row, item, e))
        return false;
    if (i == SETTING_KEYS_OPTIONAL_ON_LOOPBACK && !check_user(r, row, item->valuestring, e))
        return false;
    if (i == SETTING_PASSKEY_ORIGIN && !check_origin(row, item->valuestring, e))
        return false;
    if ((i == SETTING_OIDC_ISSUER || i == SETTING_OIDC_PUBLIC_URL) &&
        !setting_check_url(row, item->valuestring, e))
        return false;
    if (i == SETTING_OIDC_SCOPES && !setting_check_scopes(row, item->valuestring, e))
        return false;
    if (row->type == SETTING_TYPE_SECRET)
        return !*item->valuestring || (out->json = setting_seal(r, row, item->valuestring, e));
    out->json = json_write(&text, item) ? arena_strdup(r->arena, text.data) : NULL;
    buf_fini(&text);
    return out->json || err_set(e, ERR_NOMEM, "no memory for the settings");
}

bool server_settings_change(struct request *r, const cJSON *change, char *changed, int size,
                            struct err *e)
{
    struct store_setting list[SETTING__N];
    const cJSON *item;
    int n = 0, used = 0, ended;
    *changed = '\0';
    cJSON_ArrayForEach (
        item,
        change) /* json_parse refused a name that comes twice, so there are SETTING__N at most */
    {
        struct store_setting one;
        if (!read_change(r, item, &one, e))
            return false;
        if (n == SETTING__N)
            return err_set(e, ERR_INPUT, "the body has more members than there are settings");
        list[n++] = one;
        if (used < size)
            used +=
                snprintf(changed + used, (size_t)(size - used), "%s%s", used ? " " : "", one.name);
    }
    if (!n)
        return err_set(e, ERR_INPUT, "the body names no setting");
    if (!store_settings_change(r->store, list, n, &ended, e))
        return false;
    if (ended)
        audit_record(r, r->who.user_id, r->who.name, "group.member.remove", "all oidc");
    atomic_fetch_add(&r->worker->shared->settings_generation, 1);
    return true;
}
