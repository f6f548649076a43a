/* Usage and settings, written within a transaction of another file. Inside sql/ only. */
#pragma once
#include "sql/core/store.h"

/* Inside a write transaction of the caller. */
bool server_add_usage(struct store *s, const struct store_usage *u, struct err *e);
bool server_set_setting(struct store *s, const char *name, const char *json, struct err *e);
/* Where rights were taken away: tokens of those who see their tool server no more. */
bool server_forget_unseen(struct store *s, struct err *e);
