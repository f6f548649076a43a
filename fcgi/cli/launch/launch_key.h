/* The API key of a launched client: made in the state folder's database where this user may open
 * it, under the client's name and for inference alone, and removed by --restore. One thread. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/err.h"
#include "sql/core/secret.h"

struct arena;

struct launch_key {
    char text[SECRET_KEY_SIZE];
    int64_t id;        /* 0: not made here */
    const char *state; /* NULL: the usual folder; "" in a record: not made here */
    const char *user;  /* NULL: the only one there is, else the first admin */
};

/* Named "launch CLIENT"; k->state and k->user say where and whose. scopes: of enum store_scope. */
bool launch_key_make(struct launch_key *k, struct arena *a, const char *client, int64_t scopes,
                     struct err *e);
/* From the first line of a file, "-": standard input. */
bool launch_key_read(struct launch_key *k, const char *file, struct err *e);
/* Removes one that was made here; none is fine. */
bool launch_key_remove(const struct launch_key *k, struct arena *a, struct err *e);
