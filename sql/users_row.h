/* What store_users.c and store_sessions.c share. Inside sql/ only. */
#pragma once
#include <sqlite3.h>

#include "sql/store_users.h"

/* Names of users and keys: the rule is in store_users.h. */
bool check_name(const char *name, const char *field, struct err *e);
/* A row of the columns id, name, role, disabled, password, settings, created_at; texts into the arena. */
bool copy_user(sqlite3_stmt *q, struct arena *a, struct store_user *u, struct err *e);
/* Inside a write transaction of the caller. */
bool insert_key(struct store *s, const struct store_key *k, const unsigned char *hash, int64_t *id, struct err *e);
