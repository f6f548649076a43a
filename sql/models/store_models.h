/* Models beside the one that `sluice up` was started with, which has no row: those that other
 * servers answer (store_upstreams.h) and those of this machine (store_local_models.h), and who may
 * use which. Rules as in sql/core/store.h. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/err.h"

struct arena;
struct store;

#define STORE_MODELS_MAX 512
#define STORE_MODEL_NAME_BYTES 128
#define STORE_MODEL_ALIASES 32

struct store_model {
    int64_t id;
    const char *name;
    const char *kind;              /* "chat", "embedding", "rerank" */
    int64_t context;               /* tokens; 0: not known */
    bool tools, vision, reasoning; /* the last: it reads its earlier reasoning */
    bool everyone; /* false: admins, users who are named, and members of groups that are */
    int64_t created_at;
    const char *aliases; /* a JSON array; ignored by store_model_add, as are: */
    const char
        *groups; /* a JSON array of ids: whose members may use it; NULL by store_model_find */
    /* of this machine; ignored by store_model_add */
    const char *path; /* a folder or a GGUF file; NULL: other servers answer */
    bool pinned, preload;
    int64_t idle_s;       /* unused for so long it is unloaded; 0: only for room */
    const char *defaults; /* a JSON object: what requests leave open; NULL: as the model says */
    const char *device;   /* as --device; NULL: as the server's says, and by store_model_find */
};
/* ERR_INPUT, ERR_CONFLICT (a model has that name already), ERR_LIMIT. */
bool store_model_add(struct store *s, const struct store_model *m, int64_t *id, struct err *e);
struct store_model_names {
    const char *const *at;
    int n;
};
struct store_model_change { /* -1 and NULL leave what is there */
    int64_t context, tools, vision, reasoning, everyone;
    int64_t pinned, preload, idle_s; /* these: of models of this machine only */
    const char *defaults;            /* "": as the model says */
    const char *device;              /* "": as the server's says */
    const struct store_model_names *aliases;
    const int64_t *users; /* [n_users] who may use it where not everyone may */
    int n_users;
    const int64_t *groups; /* [n_groups] whose members may, too */
    int n_groups;
};
/* Leaves all of it. */
#define STORE_MODEL_UNCHANGED                                                                      \
    .context = -1, .tools = -1, .vision = -1, .reasoning = -1, .everyone = -1, .pinned = -1,       \
    .preload = -1, .idle_s = -1
bool store_model_change(struct store *s, int64_t id, const struct store_model_change *c,
                        struct err *e);
bool store_model_remove(struct store *s, int64_t id, struct err *e);

/* Who asks for a model by name or alias; a model that this user may not use is not there. */
struct store_model_ask {
    int64_t user_id; /* 0: anyone */
    const char *name;
};
/* Texts are put into the arena. ERR_NOTFOUND. */
bool store_model_find(struct store *s, struct arena *a, const struct store_model_ask *ask,
                      struct store_model *out, struct err *e);
typedef bool (*store_model_fn)(void *context, const struct store_model *m);
/* Those that the user may use (0: all), by name. */
bool store_model_list(struct store *s, int64_t user_id, store_model_fn fn, void *context,
                      struct err *e);
typedef bool (*store_model_user_fn)(void *context, int64_t user_id);
bool store_model_users(struct store *s, int64_t model_id, store_model_user_fn fn, void *context,
                       struct err *e);
