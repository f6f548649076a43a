/* The client's side of OAuth 2.1 as the Model Context Protocol wants it (its chapter
 * Authorization, 2025-11-25): where a server's tokens are made (RFC 9728, RFC 8414, OpenID Connect
 * Discovery), as which client this server asks there (RFC 7591, or a document that describes it),
 * and tokens for a code or for a refresh token (PKCE, RFC 8707). Knows neither the database nor the
 * page: fcgi/tools keeps what comes of it.
 *
 * What others say is checked: who was asked by TLS sends us nowhere without; metadata are of the
 * issuer and of the resource that they were asked for; and no address is asked that may_connect
 * refuses. Errors: ERR_UNAVAILABLE or ERR_FORMAT with a reason that begins with tool_; texts hold
 * no token and no code. Blocks: only behind WORK_TOOL. Thread-safe, no state. */
#pragma once
#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "engine/base/arena.h"
#include "engine/base/buf.h"
#include "engine/base/err.h"
#include "fcgi/oauth/oauth_challenge.h"

#define OAUTH_CODE 4096  /* bytes of an authorization code */
#define OAUTH_TOKEN 8192 /* of a token */

/* Who asks, and within which bounds. */
struct oauth_ask {
    struct arena *arena;                                 /* of all texts that come out */
    double until;                                        /* clock_ms */
    bool (*may_connect)(const struct sockaddr *address); /* oidc_http.h */
    bool exact; /* metadata must be of the server's very URL, not of a path that it lies in */
};

enum oauth_method { OAUTH_NONE, OAUTH_BASIC, OAUTH_POST }; /* how the client shows its secret */

/* Where one server's tokens come from, and as whom they were asked for. oauth_about_write keeps
 * what a refresh needs; the rest is of the discovery alone. */
struct oauth_about {
    const char *resource; /* what the tokens are for */
    const char *issuer, *token_endpoint;
    const char *revocation_endpoint; /* NULL: none */
    const char *client_id, *redirect_uri;
    const char *scope; /* asked for, then granted; "": not said */
    const char *label; /* as whom one is signed in; "": it was not said */
    enum oauth_method method;
    bool names_itself; /* its answers carry `iss` (RFC 9207) */
    bool near;         /* the server is in a private network: its issuer may be, too */
    /* Of the discovery alone: */
    const char *authorization_endpoint, *registration_endpoint; /* the latter NULL: none */
    bool takes_none, takes_basic, takes_post;                   /* methods of the token endpoint */
    bool takes_documents; /* a client may be the address of its description */
};
bool oauth_about_write(struct buf *out, const struct oauth_about *about);
/* False: these are none. Texts in the arena. */
bool oauth_about_read(struct arena *a, const char *text, struct oauth_about *out);

/* What a server says about itself and its issuer. challenge: of its 401; it may be empty. */
bool oauth_discover(const struct oauth_ask *ask, const char *server_url,
                    const struct oauth_challenge *challenge, struct oauth_about *out,
                    struct err *e);

struct oauth_client_secret {
    const char *text;   /* NULL: the client has none */
    int64_t expires_at; /* Unix ms, client_secret_expires_at; 0: it does not end */
};
/* Registers this server by itself. Sets about's client_id and method. */
bool oauth_register(const struct oauth_ask *ask, struct oauth_about *about,
                    struct oauth_client_secret *secret, struct err *e);
/* How a client with (or without) a secret shows it at this issuer. */
enum oauth_method oauth_method_of(const struct oauth_about *about, bool has_secret);
/* This server as a client, for the registration and for the document. client_id NULL: none yet. */
cJSON *oauth_client_json(const char *client_id, const char *redirect_uri, enum oauth_method method);
/* Where the browser is to go. verifier: of PKCE. */
bool oauth_departure(struct buf *url, const struct oauth_about *about, const char *state,
                     const char *verifier);

struct oauth_tokens {
    const char *access, *refresh; /* refresh NULL: none */
    const char *secret;           /* the client's, which a refresh needs; NULL: none */
    int64_t expires_in;           /* seconds; 0: not said */
};
struct oauth_code {
    const char *code, *verifier, *secret; /* secret: the client's, or NULL */
};
/* Also sets about's scope to what was granted, and its label. ERR_FORBIDDEN with the reason
 * tool_grant: the code or refresh token is of no use any more. ERR_UNAVAILABLE with
 * tool_client_refused: the issuer does not take the client; with tool_issuer_refuses: it gives no
 * token for another reason. */
bool oauth_redeem(const struct oauth_ask *ask, struct oauth_about *about,
                  const struct oauth_code *code, struct oauth_tokens *out, struct err *e);
/* New tokens for `old`, whose refresh token counts as used. Errors as above. */
bool oauth_refresh(const struct oauth_ask *ask, struct oauth_about *about,
                   const struct oauth_tokens *old, struct oauth_tokens *out, struct err *e);
/* Tells the issuer that they are not used any more (RFC 7009), where it wants to know. */
bool oauth_revoke(const struct oauth_ask *ask, const struct oauth_about *about,
                  const struct oauth_tokens *tokens, struct err *e);
bool oauth_tokens_write(struct buf *out, const struct oauth_tokens *tokens);
bool oauth_tokens_read(struct arena *a, const char *text, struct oauth_tokens *out);

/* A JSON object of the answer, and its status; the caller frees it. NULL: *e. what: for the words
 * of the error. */
struct oidc_http;
cJSON *oauth_ask_json(const struct oauth_ask *ask, struct oidc_http *h, long *status,
                      struct err *e);
