/* Accounts at tool servers: as which client this server is known to a tool server's authorization
 * server, who is signed in there, and sign-ins that are under way. Tokens and the client's secret
 * are sealed under names that hold whose they are and where they go, so that no row opens as
 * another, nor after its address was changed. Rules as in sql/core/store.h. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/err.h"
#include "sql/core/secret.h"
#include "sql/core/store.h"
#include "sql/tools/store_tool_servers.h"

struct arena;

#define STORE_TOOL_CLIENT 500             /* bytes of a client's id */
#define STORE_TOOL_ABOUT ((size_t)8192)   /* bytes of `about` */
#define STORE_TOOL_TOKENS ((size_t)32768) /* bytes of the tokens' JSON */
#define STORE_TOOL_FLOW_MS ((int64_t)10 * 60 * 1000)
#define STORE_TOOL_FLOWS_MAX 10000  /* under way at one time */
#define STORE_TOOL_FLOWS_SESSION 20 /* of one session; another takes the place of the oldest */

struct store_tool_client {
    bool typed;                                 /* somebody entered it */
    const char *client_id;                      /* "": none yet */
    const char *issuer, *redirect_uri, *secret; /* "": not known; secret NULL: none */
    int64_t secret_expires_at;                  /* Unix ms; 0: it does not end */
};
/* The server's; client_id NULL: it wants no sign-in. */
bool store_tool_client_get(struct store *s, struct arena *a, const struct store_tool_server *server,
                           struct store_tool_client *out, struct err *e);
/* In the place of what is there, as long as the server is at the url of *server. was: only as long
 * as this one is there, which nobody entered; NULL: whatever is. ERR_CONFLICT. */
bool store_tool_client_put(struct store *s, const struct store_tool_server *server,
                           const struct store_tool_client *was,
                           const struct store_tool_client *client, struct err *e);
/* The client that somebody entered is of client->issuer from now on. ERR_CONFLICT: it was changed,
 * or is of another. */
bool store_tool_client_bind(struct store *s, const struct store_tool_server *server,
                            const struct store_tool_client *client, struct err *e);
/* The server wants no sign-in any more: everybody's tokens go as well. */
bool store_tool_client_remove(struct store *s, int64_t server_id, struct err *e);

struct store_tool_sign_in {
    int64_t user_id;
    const char *about;  /* JSON: fcgi/oauth/oauth.h */
    const char *tokens; /* JSON */
    int64_t expires_at; /* Unix ms, of the access token; 0: not said */
    int64_t version;    /* grows with each change of the tokens */
    const char *wanted; /* scopes that a call missed; "": none */
    int64_t claimed;    /* until when, by store_tool_sign_in_claim */
};
/* The user's at the server; about NULL: there is none, or it can't be opened any more. */
bool store_tool_sign_in_get(struct store *s, struct arena *a,
                            const struct store_tool_server *server, int64_t user_id,
                            struct store_tool_sign_in *out, struct err *e);
/* In the place of the one that is there. ERR_CONFLICT as store_tool_client_put. */
bool store_tool_sign_in_put(struct store *s, const struct store_tool_server *server,
                            const struct store_tool_sign_in *x, struct err *e);
/* Who gets new tokens for this version: one at a time, and another after `ms` if nothing came of
 * it. Refresh tokens may be good only once. */
bool store_tool_sign_in_claim(struct store *s, int64_t server_id, struct store_tool_sign_in *x,
                              int64_t ms, bool *claimed, struct err *e);
/* Nothing came of it: the next one need not wait. */
bool store_tool_sign_in_release(struct store *s, int64_t server_id,
                                const struct store_tool_sign_in *x, struct err *e);
/* New tokens for x->version. *kept false: it was ended or replaced meanwhile. */
bool store_tool_sign_in_renew(struct store *s, const struct store_tool_server *server,
                              const struct store_tool_sign_in *x, bool *kept, struct err *e);
bool store_tool_sign_in_want(struct store *s, int64_t server_id, int64_t user_id,
                             const char *scopes, struct err *e);
/* Of this version; 0: any. *removed: there was one. */
bool store_tool_sign_in_remove(struct store *s, int64_t server_id,
                               const struct store_tool_sign_in *x, bool *removed, struct err *e);

struct store_tool_flow {
    unsigned char state_hash[SECRET_HASH_BYTES], browser_hash[SECRET_HASH_BYTES];
    unsigned char session_hash[SECRET_HASH_BYTES]; /* of the session that began it */
    int64_t server_id;
    const char *about;
};
/* Ends after STORE_TOOL_FLOW_MS; a power cut may undo it. ERR_BUSY: too many are under way. */
bool store_tool_flow_add(struct store *s, const struct store_tool_flow *f, struct err *e);
/* Takes it away and fills in what the hashes of state and browser do not say. ERR_NOTFOUND. */
bool store_tool_flow_take(struct store *s, struct arena *a, struct store_tool_flow *f,
                          struct err *e);
