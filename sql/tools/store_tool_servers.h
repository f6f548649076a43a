/* Servers of tools: a user's own and everyone's, with what they listed, and which tools a user lets
 * run without being asked. Every function takes the user's id, and the SQL itself compares it.
 * Rules as in sql/core/store.h. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/err.h"
#include "sql/core/store.h"

struct arena;

#define STORE_TOOL_SERVERS_MAX 50 /* of a user, and of everyone's */
#define STORE_TOOL_NAME 24        /* characters of a server's name */
#define STORE_TOOL_URL 1000       /* bytes */
#define STORE_TOOL_SECRET 4096    /* bytes */
#define STORE_TOOL_HASH 64        /* hexadecimal digits of a tool's definition */

struct store_tool_server {
    int64_t id, user_id; /* user_id 0: the admins' */
    const char *name, *url, *header;
    struct store_sealed sealed; /* the header's value; bytes NULL: none */
    bool enabled;
    const char *tools;             /* JSON array, as the caller made it */
    const char *allowed;           /* JSON array of names of tools that this user lets run */
    bool everyone;                 /* of an admin's: false: for admins and the members of */
    const char *groups;            /* a JSON array of ids */
    const struct store_ids *only;  /* store_tool_server_add: these groups; NULL: everyone */
    int64_t listed_at, created_at; /* listed_at 0: never yet */
    /* Of a server that wants a sign-in (store_tool_sign_ins.h); NULL: none of this */
    const char *client_id; /* that somebody entered; "": this server registers itself */
    bool has_client_secret;
    const char *account; /* this user's, JSON; NULL: not signed in */
    const char *wanted;  /* scopes that a call of theirs missed; "" or NULL: none */
};

typedef bool (*store_tool_server_fn)(void *context, const struct store_tool_server *server);
/* The user's own, and the admins' that are for everyone or for a group of the user's (an admin sees
 * all of these), in the order of their names. */
bool store_tool_server_list(struct store *s, int64_t user_id, store_tool_server_fn fn,
                            void *context, struct err *e);
/* One of these; ERR_NOTFOUND. */
bool store_tool_server_get(struct store *s, struct arena *a, const struct store_ref *server,
                           struct store_tool_server *out, struct err *e);
/* One at which the user is signed in, whether or not they see it still; ERR_NOTFOUND. */
bool store_tool_server_signed(struct store *s, struct arena *a, const struct store_ref *server,
                              struct store_tool_server *out, struct err *e);
/* Of *server: user_id, name, url, header, tools, listed_at, only. secret NULL: no header.
 * ERR_CONFLICT, field name: whoever sees it sees another of this name already; ERR_LIMIT: there are
 * too many; ERR_INPUT, field groups. */
bool store_tool_server_add(struct store *s, const struct store_tool_server *server,
                           const char *secret, int64_t *id, struct err *e);
/* Puts *server in the place of its row (id and user_id say which), which must still be as *was was
 * read. secret NULL: `sealed` stays as it is; "": none. Permissions of tools that are described
 * differently now are taken back; with another url everybody's sign-ins go. ERR_CONFLICT as above,
 * or with the reason tool_server_changed. */
bool store_tool_server_change(struct store *s, const struct store_tool_server *was,
                              const struct store_tool_server *server, const char *secret,
                              struct err *e);
/* Its tools and listed_at alone, while name, url and header are what they were when it was asked;
 * ERR_CONFLICT with the reason tool_server_changed. Permissions as above. */
bool store_tool_server_relist(struct store *s, const struct store_tool_server *server,
                              struct err *e);
/* Whom one of the admins' is for: everyone (groups NULL), or the members of groups. ERR_NOTFOUND,
 * or ERR_INPUT with the field "groups". */
struct store_ids;
bool store_tool_server_set_groups(struct store *s, int64_t id, const struct store_ids *groups,
                                  struct err *e);
/* user_id 0: everyone's. */
bool store_tool_server_remove(struct store *s, const struct store_ref *server, struct err *e);
/* The header's value in the arena; NULL: none. False: it can't be opened. */
bool store_tool_server_secret(struct store *s, struct arena *a,
                              const struct store_tool_server *server, const char **out,
                              struct err *e);

struct store_tool_permission {
    int64_t user_id, server_id;
    const char *tool, *definition; /* definition: STORE_TOOL_HASH digits */
};
bool store_tool_permission_add(struct store *s, const struct store_tool_permission *p,
                               struct err *e);
/* Is it allowed, for the tool as it is described now? */
bool store_tool_permission_find(struct store *s, const struct store_tool_permission *p,
                                bool *allowed, struct err *e);
/* tool NULL: all of the server's. */
bool store_tool_permission_remove(struct store *s, const struct store_tool_permission *p,
                                  struct err *e);
