/* `sluice launch`: the settings of clients that others wrote, made to point here and taken back.
 * launch_clients.c knows what each client's files must say, launch_text.c how a text of theirs is
 * changed, launch_files.c keeps what was there before and puts it back. One thread. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/buf.h"
#include "engine/base/err.h"

struct arena;

struct launch_server {
    const char *url, *key, *model; /* url without a slash at its end */
    int64_t context;               /* tokens */
};

enum { LAUNCH_FILES = 3 };

/* One file of a client, below the home folder. edit: out becomes the file with this server in it;
 * old is "" where there is none. */
struct launch_edit {
    const char *name;
    bool (*edit)(const struct launch_server *s, const char *old, struct buf *out, struct err *e);
};

struct launch_client {
    const char *name, *program, *install; /* install: the command that brings the program */
    struct launch_edit edits[LAUNCH_FILES];
};

/* NULL: unknown. */
const struct launch_client *launch_client_find(const char *name);
/* "codex, claude, opencode, aider" */
const char *launch_client_names(void);

/* ---- launch_text.c: lines that we write end with LAUNCH_MARK, so that they are known again */
#define LAUNCH_MARK "# by sluice launch"
/* Copies old without our own lines and without the table `table` (NULL: none) of TOML; a line that
 * sets one of the keys (NULL-terminated) at the top level is kept as a comment. assign: '=' or ':'.
 */
bool launch_text_without(const char *old, const char *const *keys, char assign, const char *table,
                         struct buf *out, struct err *e);
/* The lines that differ, as a diff shows them; the key is hidden. */
void launch_text_show(const char *old, const char *new_text, const char *key);

/* ---- launch_files.c */
struct launch_change {
    const char *name; /* below the home folder */
    char *path;       /* where it really lies, behind links */
    struct buf old, text;
    bool existed;
    unsigned mode;
};

struct launch_record {       /* of what was changed, from the client's folder of backups */
    struct arena *arena;     /* owns the strings */
    const char *home, *dir;  /* dir: the folder of backups */
    bool there;              /* there is one already */
    const char *url, *state; /* of the server; where its key was made, "" if it was not */
    int64_t key_id;
    const char *user; /* the key's */
};

/* Looks for the backups of an earlier launch. */
bool launch_record_open(struct launch_record *r, const char *client, struct err *e);
/* Works out one file's new text. */
bool launch_change_make(const struct launch_record *r, const struct launch_edit *edit,
                        const struct launch_server *s, struct launch_change *c, struct err *e);
void launch_change_fini(struct launch_change *c);
/* Keeps what is there, then writes; what an earlier launch kept stays kept. */
bool launch_record_apply(const struct launch_record *r, struct launch_change *changes, int n,
                         struct err *e);
/* Every file byte for byte as it was before the first launch. What somebody else changed since then
 * is kept beside it, and told. */
typedef void (*launch_told_fn)(void *context, const char *path, const char *what);
bool launch_record_restore(const struct launch_record *r, launch_told_fn told, void *context,
                           struct err *e);
