/* Addresses, scopes and secrets among the settings. */
#include "fcgi/config/setting_checks.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/arena.h"
#include "fcgi/http/request.h"
#include "sql/core/base64.h"
#include "sql/core/secret.h"
#include "sql/core/store.h"

#define SEALED_BYTES (SETTING_SECRET_BYTES + STORE_SEALED_EXTRA)

_Static_assert(BASE64_CHARS(SEALED_BYTES) <= SETTING_TEXT_BYTES, "a row holds it");

static bool is_local(const char *host, size_t n)
{
    static const char *const names[] = {"localhost", "127.0.0.1", "[::1]"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (n == strlen(names[i]) && !memcmp(host, names[i], n))
            return true;
    return false;
}

bool setting_is_url(const char *url, bool with_query)
{
    const bool tls = !strncmp(url, "https://", 8);
    if (!tls && strncmp(url, "http://", 7) != 0)
        return false;
    const char *host = url + (tls ? 8 : 7);
    const size_t authority = strcspn(host, "/?");
    const size_t name = host[0] == '[' ? strcspn(host, "]") + 1 : strcspn(host, ":/?");
    for (const char *c = host; *c; c++)
        if (*c <= ' ' || *c >= 0x7f || strchr("#\\\"<>", *c) || (*c == '?' && !with_query) ||
            (*c == '@' && c < host + authority))
            return false;
    if (!authority || !name || name > authority)
        return false;
    const char *port = host + name;
    if (name < authority &&
        (port[0] != ':' || strspn(port + 1, "0123456789") != authority - name - 1))
        return false;
    return tls || is_local(host, name);
}

bool setting_check_url(const struct setting_row *row, const char *text, struct err *e)
{
    return !*text || setting_is_url(text, false) ||
           err_field(e, ERR_INPUT, row->name,
                     "must begin with https:// (or http:// on this machine: localhost, 127.0.0.1, "
                     "[::1]) and have no query");
}

bool setting_check_scopes(const struct setting_row *row, const char *text, struct err *e)
{
    for (const char *word = text + strspn(text, " "); *word; word += strspn(word, " ")) {
        const size_t n = strcspn(word, " ");
        if (n == 6 && !memcmp(word, "openid", n))
            return true;
        word += n;
    }
    return err_field(e, ERR_INPUT, row->name, "must contain openid");
}

const char *setting_seal(struct request *r, const struct setting_row *row, const char *secret,
                         struct err *e)
{
    unsigned char sealed[SEALED_BYTES];
    char text[BASE64_CHARS(SEALED_BYTES)];
    if (strlen(secret) > (size_t)row->max) {
        err_field(e, ERR_INPUT, row->name, "has more than %.0f bytes", row->max);
        return NULL;
    }
    if (!store_setting_seal(r->store, row->name, secret, sealed, e))
        return NULL;
    base64_encode(sealed, strlen(secret) + STORE_SEALED_EXTRA, text, sizeof text);
    const char *json = arena_printf(r->arena, "\"%s\"", text);
    if (!json)
        err_set(e, ERR_NOMEM, "no memory for the settings");
    return json;
}

bool server_setting_secret(const struct request *r, enum server_setting which,
                           char out[SETTING_SECRET_BYTES + 1], struct err *e)
{
    const char *text = server_setting_text(r, which);
    unsigned char sealed[SEALED_BYTES + 2];
    char opened[sizeof sealed];
    size_t n = 0;
    out[0] = '\0';
    if (!*text)
        return true;
    struct store_sealed s = {.bytes = sealed};
    const bool whole = base64_decode(text, strlen(text), sealed, sizeof sealed, &n);
    s.len = n;
    const int rc = !whole || n > SEALED_BYTES
                       ? 0
                       : store_setting_unseal(r->store, setting_row(which)->name, &s, opened, e);
    if (rc == 1)
        memcpy(out, opened, strlen(opened) + 1);
    secret_wipe(opened, sizeof opened);
    return rc == 1 || (rc == 0 && err_set(e, ERR_IO,
                                          "%s can't be opened: the key that sealed it is not here; "
                                          "set it again",
                                          setting_row(which)->name));
}
