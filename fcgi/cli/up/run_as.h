/* Who the programs of `sluice up` run as, when root starts it: the supervisor itself changes to a
 * user, and may keep the right to start the engine as another one. One thread. */
#pragma once
#include <stdbool.h>
#include <sys/types.h>

#include "engine/base/err.h"

struct run_as {
    bool given;
    uid_t uid;
    gid_t gid;
    char name[64]; /* "" if there is no account: then it is in no other group */
};

/* "sluice", or "UID:GID" for users without an account. option: what an error names. Not root. NULL
 * is nobody: *out is not given. */
bool run_as_find(const char *text, const char *option, struct run_as *out, struct err *e);
/* As root: the state folder is made for who is to own it, where there is none; one of somebody else
 * is refused with the command that hands it over. */
bool run_as_own_folder(const struct run_as *who, const char *folder, struct err *e);
/* The calling process becomes who it is, for good. starts_others: it keeps the right to start and
 * signal programs of other users. Who it is already may become that without being root. */
bool run_as_become(const struct run_as *who, bool starts_others, struct err *e);
/* In a process that is about to run a program as *who: it needs what starts_others left. */
bool run_as_take(const struct run_as *who);
