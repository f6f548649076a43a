/* Which files and networks a process reaches, by Landlock (Linux 5.13): begin, allow each path,
 * end. From then on everything that no rule allows is refused with EACCES, for the calling thread,
 * the threads and processes that it makes, and all programs that these become. Nothing takes it
 * back.
 *
 * Whatever was open before stays usable. Called by one thread, before others exist. */
#pragma once
#include <stdbool.h>

enum landlock_rights {
    LANDLOCK_READ = 1,   /* files and lists of folders */
    LANDLOCK_WRITE = 2,  /* and everything else that is done to files, but running them */
    LANDLOCK_DEVICE = 4, /* open for reading and writing, and ioctl; nothing is made or removed */
    LANDLOCK_RUN = 8,    /* read and run */
};

/* The kernel's version of Landlock; 0: it has none. */
int landlock_version(void);
/* A set of rules to fill; -1: the kernel has no Landlock. network: TCP and abstract unix sockets
 * stay as they were, where the kernel could take them away (version 4 and 6). own_signals:
 * signals reach only processes that were made later (version 6). */
int landlock_begin(bool network, bool own_signals);
/* Allows a file or a folder with all that is in it, by enum landlock_rights. A path that does not
 * exist is passed over; a link counts as what it leads to. */
void landlock_allow(int rules, const char *path, unsigned rights);
/* Several paths, ended by NULL. */
void landlock_allow_all(int rules, const char *const *paths, unsigned rights);
/* The rules are in force, and the set is closed. False: errno. */
bool landlock_end(int rules);
