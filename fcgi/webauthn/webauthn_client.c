/* webauthn.h: the client data, which is the browser's part of what is signed: for which page, for
 * what, and by which challenge. */
#include <string.h>

#include "engine/base/json/json.h"
#include "fcgi/webauthn/webauthn.h"

#define CLIENT_DATA_MAX 4096

static cJSON *parse(struct webauthn_bytes b, struct err *e)
{
    struct err why = {0};
    const struct json_limits limits = {.max_bytes = CLIENT_DATA_MAX, .max_depth = 8};
    cJSON *v = b.len ? json_parse((const char *)b.data, b.len, &limits, &why) : NULL;
    if (cJSON_IsObject(v))
        return v;
    cJSON_Delete(v);
    err_field(e, ERR_INPUT, "clientDataJSON", "is no JSON object of a browser");
    return NULL;
}

bool webauthn_challenge(struct webauthn_bytes client_data, char out[WEBAUTHN_CHALLENGE_SIZE],
                        struct err *e)
{
    cJSON *v = parse(client_data, e);
    const char *text = v ? json_text(v, "challenge") : NULL;
    const bool ok = text && *text && strlen(text) < WEBAUTHN_CHALLENGE_SIZE;
    if (ok)
        memcpy(out, text, strlen(text) + 1);
    else if (v)
        err_field(e, ERR_INPUT, "clientDataJSON", "has no challenge");
    cJSON_Delete(v);
    return ok;
}

static bool is(const cJSON *v, const char *name, const char *want)
{
    const char *text = json_text(v, name);
    return text && !strcmp(text, want);
}

/* Not signed for this: another page's, another ceremony's, or in a frame of another page. */
bool webauthn_check_client(const struct webauthn_site *site, struct webauthn_bytes client_data,
                           const char *type, struct err *e)
{
    cJSON *v = parse(client_data, e);
    const cJSON *cross = v ? cJSON_GetObjectItemCaseSensitive(v, "crossOrigin") : NULL;
    bool ok = false;
    if (!v)
        return false;
    if (!is(v, "type", type))
        err_field(e, ERR_INPUT, "clientDataJSON", "was made for something else than %s", type);
    else if (!is(v, "origin", site->origin))
        err_field(e, ERR_INPUT, "clientDataJSON", "was made for another origin than %s",
                  site->origin);
    else if ((cross && !cJSON_IsFalse(cross)) || json_member(v, "topOrigin"))
        err_field(e, ERR_INPUT, "clientDataJSON", "was made in a frame of another page");
    else
        ok = true;
    cJSON_Delete(v);
    return ok;
}
