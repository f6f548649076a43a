/* The server's settings: what an admin may change while it runs. One table in server_settings.c
 * says of each its name, type, limits, default and help; the values are rows of sluice.db (one JSON
 * value by name), a name without a row has its default.
 *
 * A value is read through the process's cache: cheap enough for every request (an atomic load and a
 * clock). A change by the API is seen by every worker process at its next look; one made in the
 * database by other means within a second. Thread-safe. Without a database, or before it was read,
 * the last values or the defaults are told. */
#pragma once
#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/err.h"

struct arena;
struct request;
struct setting_cache;
struct shared;
struct store;

/* A new setting: a word here and a row in the table; then read it where it counts. tests/lint looks
 * that someone does. */
enum server_setting {
    SETTING_BANNER,
    SETTING_BANNER_LEVEL,
    SETTING_SUGGESTIONS,         /* with | between them; admin/api_health.c */
    SETTING_DEFAULT_TEMPERATURE, /* the six defaults: null is the model's own */
    SETTING_DEFAULT_TOP_P,
    SETTING_DEFAULT_TOP_K,
    SETTING_DEFAULT_MIN_P,
    SETTING_DEFAULT_REPETITION_PENALTY,
    SETTING_DEFAULT_MAX_TOKENS,
    SETTING_MAX_ANSWER_TOKENS,   /* 0: no cap */
    SETTING_SIGN_UP,             /* "closed", "invite", "open" */
    SETTING_USER_TOKENS_PER_DAY, /* of users without limits of their own; 0: none */
    SETTING_USER_STORAGE_BYTES,
    SETTING_USER_MAX_JOBS,
    SETTING_USER_PROMPT_CACHE_BYTES, /* recorder/cache_follower.h; 0: none of its own */
    SETTING_PROMPT_CACHE_SEAL,       /* inference/sealed_prompt.h */
    SETTING_SHARE_LINKS,
    SETTING_MODEL_TITLES,
    SETTING_ATTACHMENT_BYTES,
    SETTING_IMPORT_BYTES,
    SETTING_AUDIT_DAYS,   /* db_maintenance.h; 0: for ever */
    SETTING_METRICS_OPEN, /* ROUTE_FIGURES */
    SETTING_STRICT_PARAMETERS,
    SETTING_GENERIC_TOOL_PROMPT,       /* prompt.h */
    SETTING_MODEL_ALIASES,             /* model_name.h */
    SETTING_MODEL_WAIT_SECONDS,        /* inference/local/local_gate.h */
    SETTING_KEYS_OPTIONAL_ON_LOOPBACK, /* loopback.h */
    SETTING_PASSKEYS,                  /* auth/passkeys.h */
    SETTING_PASSKEY_ORIGIN,            /* "": as the page was asked for */
    SETTING_OIDC_POLICY,               /* "off", "link", "create"; these: oidc/oidc_config.h */
    SETTING_OIDC_ISSUER,
    SETTING_OIDC_CLIENT_ID,
    SETTING_OIDC_CLIENT_SECRET,
    SETTING_OIDC_NAME,
    SETTING_OIDC_SCOPES,
    SETTING_OIDC_EMAIL_DOMAINS,
    SETTING_OIDC_GROUPS_CLAIM,
    SETTING_OIDC_PUBLIC_URL,
    SETTING_OIDC_SECOND_FACTOR,
    SETTING_TOOL_SERVERS,         /* "off", "admin", "users"; these: tools/tool_offer.h */
    SETTING_TOOL_SERVERS_PRIVATE, /* tools/tool_address.h */
    SETTING_TOOL_CALL_SECONDS,
    SETTING_TOOL_ROUNDS,
    SETTING_TOOL_RESULT_BYTES,
    SETTING_CONFIRM_MINUTES, /* confirmation.h; 0: each time */
    SETTING__N
};

enum setting_type {
    SETTING_TYPE_BOOL,
    SETTING_TYPE_INT,
    SETTING_TYPE_NUMBER,
    SETTING_TYPE_CHOICE,
    SETTING_TYPE_TEXT,
    SETTING_TYPE_SECRET /* a text that is kept sealed and never told again */
};

#define SETTING_IMPORT_MAX                                                                         \
    ((int64_t)1 << 30)          /* nginx takes no larger body: nginx/server.conf.in                \
                                 */
#define SETTING_TEXT_BYTES 1000 /* of a text, at most */
#define SETTING_SECRET_BYTES 500

struct setting_row {
    const char *name, *group; /* group: under which heading the page shows it */
    enum setting_type type;
    const char *fallback; /* JSON; "null" where it is allowed */
    double min, max; /* INT, NUMBER: both ends are allowed; TEXT, SECRET: bytes at most in max */
    const char *choices; /* CHOICE: "closed|invite|open" */
    const char *unit;    /* "tokens", "bytes"; NULL: none */
    bool nullable;
    const char *help;
};
const struct setting_row *setting_row(enum server_setting which);

/* The value now. The type is the row's; a null gives 0 (server_setting_given tells). */
bool server_setting_bool(const struct request *r, enum server_setting which);
int64_t server_setting_int(const struct request *r, enum server_setting which);
/* False: null, *out is left alone. */
bool server_setting_number(const struct request *r, enum server_setting which, double *out);
/* CHOICE and TEXT, copied into the request's arena; "" when there is no memory. */
const char *server_setting_text(const struct request *r, enum server_setting which);

/* A SECRET, opened; "": none is set. False: it can't be opened. The caller wipes it. */
bool server_setting_secret(const struct request *r, enum server_setting which,
                           char out[SETTING_SECRET_BYTES + 1], struct err *e);

/* For a process that answers no requests: read from the database itself, the default where it has
 * none. */
bool server_stored_setting_int(struct store *s, enum server_setting which, int64_t *out,
                               struct err *e);

/* One per process, made before its children are forked. */
struct setting_cache *setting_cache_create(void);
void setting_cache_destroy(struct setting_cache **c);

/* Is it a value of the row's type, within its limits? */
bool server_settings_check(const struct setting_row *row, const cJSON *v, struct err *e);
/* Would it change what keeps people out? Then it asks for a confirmation. */
bool server_settings_guarded(const cJSON *change);
/* All settings as the API lists them. Caller owns it. */
cJSON *server_settings_list(struct request *r, struct err *e);
/* Takes {name: value, ...}, null: back to the default. All or nothing; ERR_INPUT names the setting.
 * Writes the names that were given, separated by blanks, to changed[size], for the audit log. */
bool server_settings_change(struct request *r, const cJSON *change, char *changed, int size,
                            struct err *e);
