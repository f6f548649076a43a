/* Groups of users: who is in them, and what they carry for their members: models and tool servers
 * that not everyone may use, and limits. An admin makes them; nobody is in one who was not put
 * there, and there is no group of everyone (what holds for everyone is a server setting, or
 * `everyone` of a model). All of it is read with each request, so a change holds from the next one
 * on. Rules as in sql/core/store.h. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/err.h"
#include "sql/users/store_limits.h"

struct arena;
struct store;

#define STORE_GROUPS_MAX 200
#define STORE_GROUP_NAME 64         /* characters */
#define STORE_GROUP_DESCRIPTION 200 /* characters, as of `claim` */

struct store_group {
    int64_t id;
    const char *name, *description;
    const char *claim; /* what the sign-in provider calls it; "": by its name */
    int64_t created_at, n_members;
    const char *models, *tool_servers; /* JSON arrays of ids */
    struct store_user_limits limits;   /* STORE_LIMIT_UNSAID where it says nothing */
};
typedef bool (*store_group_fn)(void *context, const struct store_group *g); /* false: enough */
/* By name. */
bool store_group_list(struct store *s, store_group_fn fn, void *context, struct err *e);
/* Those that a user is in. */
bool store_groups_of_user(struct store *s, int64_t user_id, store_group_fn fn, void *context,
                          struct err *e);
/* Texts into the arena. ERR_NOTFOUND. */
bool store_group_get(struct store *s, struct arena *a, int64_t id, struct store_group *out,
                     struct err *e);
/* *id: of the group with this name, whatever its case. ERR_NOTFOUND. */
bool store_group_by_name(struct store *s, const char *name, int64_t *id, struct err *e);

struct store_ids {
    const int64_t *at;
    int n;
};
struct store_group_change { /* NULL leaves what is there */
    const char *name;       /* 1 to STORE_GROUP_NAME characters; needed by store_group_add */
    const char *description, *claim;
    const struct store_user_limits *limits; /* all five */
    const struct store_ids *models, *tool_servers;
};
/* ERR_INPUT or ERR_CONFLICT with the field; ERR_LIMIT: there are STORE_GROUPS_MAX. */
bool store_group_add(struct store *s, const struct store_group_change *c, int64_t *id,
                     struct err *e);
bool store_group_change(struct store *s, int64_t id, const struct store_group_change *c,
                        struct err *e);
/* Its members lose what it carried, and projects that were shared with it. ERR_NOTFOUND. */
bool store_group_remove(struct store *s, int64_t id, struct err *e);

struct store_group_member {
    int64_t user_id;
    const char *name;
    bool provider; /* by the sign-in provider's word, which may take it back */
};
struct store_group_page {
    int64_t group_id, after; /* only ids of users above it */
    int limit;
};
typedef bool (*store_group_member_fn)(void *context, const struct store_group_member *m);
bool store_group_members(struct store *s, const struct store_group_page *page,
                         store_group_member_fn fn, void *context, struct err *e);
struct store_group_moves {
    int64_t group_id;
    struct store_ids add, remove;                              /* users */
    void (*moved)(void *context, int64_t user_id, bool added); /* after the commit, each change */
    void *context;
};
/* All or nothing. Who is in it, or not, already is no error. ERR_NOTFOUND: the group; ERR_INPUT,
 * field "add": one is no user. */
bool store_group_move(struct store *s, const struct store_group_moves *m, struct err *e);

/* What the sign-in provider says of a user: a JSON array of texts. Memberships by its word are
 * these afterwards, and those made by hand stay. Each change is told after the commit. */
struct store_group_claim {
    int64_t user_id;
    const char *names;
    void (*moved)(void *context, int64_t group_id, bool added);
    void *context;
};
bool store_group_claimed(struct store *s, const struct store_group_claim *c, struct err *e);
