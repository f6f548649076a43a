/* passkeys.h: the challenge is taken before anything of an answer is believed, so that each answer
 * costs a challenge whether it is right or not. */
#include "fcgi/auth/passkeys.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/json/json.h"
#include "fcgi/auth/throttle.h"
#include "fcgi/config/server_settings.h"
#include "fcgi/http/audit.h"
#include "fcgi/http/request.h"
#include "sql/core/base64.h"
#include "sql/users/store_users.h"

/* ---- where ---- */

static bool put_origin(struct request *r, char *out, size_t size, struct err *e)
{
    const char *set = server_setting_text(r, SETTING_PASSKEY_ORIGIN);
    const char *host = request_header(r, "Host");
    const int n = *set ? snprintf(out, size, "%s", set)
                       : snprintf(out, size, "%s%s", request_secure(r) ? "https://" : "http://",
                                  host ? host : "");
    for (char *c = out; *c; c++)
        *c = (char)tolower((unsigned char)*c);
    return (size_t)n < size || err_set(e, ERR_INPUT, "the host's name is too long for passkeys");
}

bool passkeys_site(struct request *r, struct webauthn_site *out, struct err *e)
{
    char origin[WEBAUTHN_ORIGIN_SIZE];
    if (!server_setting_bool(r, SETTING_PASSKEYS)) {
        r->error_override.code = "passkeys_off";
        return err_set(e, ERR_FORBIDDEN, "passkeys are turned off on this server");
    }
    if (put_origin(r, origin, sizeof origin, e) && webauthn_site_of(origin, out, e))
        return true;
    e->code = ERR_CONFLICT; /* the request is right, its address is not */
    r->error_override.code = "passkeys_unavailable";
    return false;
}

void passkeys_put_state(struct request *r, cJSON *o)
{
    struct webauthn_site site;
    struct err why = {0};
    const bool ok = passkeys_site(r, &site, &why);
    const char *code = r->error_override.code;
    r->error_override.code = NULL;
    cJSON_AddBoolToObject(o, "available", ok);
    cJSON_AddItemToObject(o, "reason", ok || !code ? cJSON_CreateNull() : cJSON_CreateString(code));
}

/* ---- what is asked ---- */

static struct store_challenge challenge_of(const struct passkeys_asker *who, const char *text)
{
    struct store_challenge c = {.challenge = text, .purpose = who->purpose};
    memcpy(c.asked_by, who->by, sizeof c.asked_by);
    return c;
}

cJSON *passkeys_options(struct request *r, const struct passkeys_asker *who,
                        const struct webauthn_site *site, struct err *e)
{
    char text[SECRET_TOKEN_SIZE]; /* 32 random bytes, as an authenticator is sent them */
    secret_token(text);
    const struct store_challenge c = challenge_of(who, text);
    if (!store_challenge_add(r->store, &c, e))
        return NULL;
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "challenge", text);
    cJSON_AddNumberToObject(o, "timeout", (double)STORE_CHALLENGE_MS);
    if (strcmp(who->purpose, "register")) {
        cJSON_AddStringToObject(o, "rpId", site->rp_id);
        cJSON_AddStringToObject(o, "userVerification", "required");
    }
    return o;
}

static void put_transports(cJSON *list, const char *words)
{
    for (size_t n; *words; words += n + (words[n] == ' ')) {
        char word[STORE_PASSKEY_TRANSPORTS_MAX + 1];
        n = strcspn(words, " ");
        snprintf(word, sizeof word, "%.*s", (int)n, words);
        cJSON_AddItemToArray(list, cJSON_CreateString(word));
    }
}

static bool describe(void *context, const struct store_passkey *p)
{
    char id[BASE64_CHARS(STORE_PASSKEY_ID_MAX)];
    cJSON *o = cJSON_CreateObject();
    base64_encode_url(p->credential_id, p->credential_id_len, id, sizeof id);
    cJSON_AddStringToObject(o, "type", "public-key");
    cJSON_AddStringToObject(o, "id", id);
    put_transports(cJSON_AddArrayToObject(o, "transports"), p->transports);
    return cJSON_AddItemToArray(context, o);
}

bool passkeys_describe(struct request *r, int64_t user_id, cJSON *list, struct err *e)
{
    return store_passkey_list(r->store, user_id, describe, list, e);
}

bool passkeys_handle(struct request *r, int64_t user_id, char out[PASSKEYS_HANDLE_SIZE],
                     struct err *e)
{
    struct store_user user;
    unsigned char hash[SECRET_HASH_BYTES];
    char text[80];
    if (!store_user_by_id(r->store, r->arena, user_id, &user, e))
        return false;
    snprintf(text, sizeof text, "passkeys of %lld, made at %lld", (long long)user.id,
             (long long)user.created_at);
    secret_hash(text, hash);
    base64_encode_url(hash, sizeof hash, out, PASSKEYS_HANDLE_SIZE);
    return true;
}

/* ---- what is answered ---- */

struct answer {
    struct webauthn_bytes id, client_data, auth_data, signature;
    const char *user_handle; /* NULL: none was sent */
};

static bool take_bytes(struct request *r, const cJSON *o, const char *name,
                       struct webauthn_bytes *out, struct err *e)
{
    const char *text = NULL;
    if (!json_get_string(o, name, &text, e))
        return false;
    if (!text)
        return err_field(e, ERR_INPUT, name, "is needed");
    const size_t len = strlen(text), size = BASE64_BYTES(len);
    unsigned char *to = arena_alloc(r->arena, size);
    if (!to)
        return err_set(e, ERR_NOMEM, "no memory for a passkey");
    out->data = to;
    return base64_decode_url(text, len, to, size, &out->len) ||
           err_field(e, ERR_INPUT, name, "is not base64url without padding");
}

/* The answer as the browser sent it, well formed; nothing of it is checked yet. */
static bool take_answer(struct request *r, const cJSON *body, bool signed_by_it, struct answer *a,
                        struct err *e)
{
    const cJSON *passkey = NULL, *response = NULL;
    *a = (struct answer){0};
    if (!json_get_object(body, "passkey", &passkey, e) ||
        !json_get_object(passkey, "response", &response, e))
        return false;
    if (!response)
        return err_field(e, ERR_INPUT, "passkey", "needs an id and a response");
    return take_bytes(r, passkey, "id", &a->id, e) &&
           take_bytes(r, response, "clientDataJSON", &a->client_data, e) &&
           take_bytes(r, response, "authenticatorData", &a->auth_data, e) &&
           (!signed_by_it || take_bytes(r, response, "signature", &a->signature, e)) &&
           json_get_string(response, "userHandle", &a->user_handle, e);
}

/* It is gone after this. */
static bool take_challenge(struct request *r, const struct answer *a,
                           const struct passkeys_asker *who, struct err *e)
{
    char text[WEBAUTHN_CHALLENGE_SIZE];
    bool good;
    if (!webauthn_challenge(a->client_data, text, e))
        return false;
    const struct store_challenge c = challenge_of(who, text);
    return store_challenge_take(r->store, &c, &good, e) &&
           (good || err_field(e, ERR_INPUT, "clientDataJSON",
                              "answers no challenge that waits: it was used, has expired, or "
                              "somebody else was asked"));
}

bool passkeys_register(struct request *r, const cJSON *body, const struct passkeys_asker *who,
                       struct webauthn_credential *out, struct err *e)
{
    struct webauthn_site site;
    struct answer a;
    return passkeys_site(r, &site, e) && take_answer(r, body, false, &a, e) &&
           take_challenge(r, &a, who, e) &&
           webauthn_register(&site,
                             &(struct webauthn_registration){.client_data = a.client_data,
                                                             .auth_data = a.auth_data},
                             out, e);
}

static bool find(struct request *r, const struct answer *a, int64_t user_id,
                 struct store_passkey *out, struct err *e)
{
    char handle[PASSKEYS_HANDLE_SIZE];
    struct err why = {0};
    if (!store_passkey_find(r->store, r->arena, a->id.data, a->id.len, out, &why)) {
        *e = why;
        return why.code == ERR_NOTFOUND &&
               err_field(e, ERR_INPUT, "id", "is no passkey that is known here");
    }
    if (user_id && out->user_id != user_id)
        return err_field(e, ERR_INPUT, "id", "is no passkey of this account");
    return passkeys_handle(r, out->user_id, handle, e) &&
           (!a->user_handle || !strcmp(a->user_handle, handle) ||
            err_field(e, ERR_INPUT, "userHandle", "is not that of the passkey's account"));
}

/* Whose passkey it is, where it is known: who logs in is nobody yet. */
static void audit(struct request *r, const struct store_passkey *p, const char *action)
{
    struct store_user user = {.name = ""};
    struct err unused = {0};
    char target[48];
    snprintf(target, sizeof target, "passkey:%lld", (long long)p->id);
    if (p->user_id && !store_user_by_id(r->store, r->arena, p->user_id, &user, &unused))
        user = (struct store_user){.name = ""};
    audit_record(r, user.id, user.name, action, p->id ? target : "passkey");
}

static bool check_counter(struct request *r, struct store_passkey *p, struct err *e)
{
    bool ahead;
    if (!store_passkey_use(r->store, p, &ahead, e))
        return false;
    if (ahead)
        return true;
    audit(r, p, "passkey.counter_back");
    return err_field(e, ERR_INPUT, "authenticatorData",
                     "has a counter that stepped back: there may be a copy of this passkey");
}

struct proof {
    const struct webauthn_site *site;
    const struct answer *answer;
    const struct passkeys_asker *who;
    int64_t user_id; /* 0: anyone's */
};

static bool verify(struct request *r, const struct proof *p, struct store_passkey *out,
                   struct err *e)
{
    const struct answer *a = p->answer;
    uint32_t counter;
    if (!take_challenge(r, a, p->who, e) || !find(r, a, p->user_id, out, e))
        return false;
    const struct webauthn_assertion assertion = {
        .client_data = a->client_data,
        .auth_data = a->auth_data,
        .signature = a->signature,
        .algorithm = (int)out->algorithm,
        .public_key = {out->public_key, out->public_key_len}};
    if (!webauthn_verify(p->site, &assertion, &counter, e))
        return false;
    out->counter = counter;
    return check_counter(r, out, e);
}

bool passkeys_verify(struct request *r, const cJSON *body, const struct passkeys_asker *who,
                     struct store_passkey *out, struct err *e)
{
    struct webauthn_site site;
    struct answer a;
    struct throttle t;
    struct err why = {0};
    char action[48];
    const struct proof p = {&site, &a, who, r->who.user_id};
    if (!passkeys_site(r, &site, e) || !take_answer(r, body, true, &a, e) ||
        !throttle_enter(r, THROTTLE_PASSKEY, "", &t, e))
        return false;
    *out = (struct store_passkey){0};
    if (verify(r, &p, out, &why)) {
        throttle_forgive(r, &t);
        return true;
    }
    *e = why;
    if (why.code != ERR_INPUT)
        return false;
    snprintf(action, sizeof action, "%s.fail", who->purpose);
    audit(r, out, action);
    r->error_override.code = "invalid_passkey";
    e->code = ERR_AUTH;
    return false;
}
