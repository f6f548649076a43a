/* A program of the server locks itself in, once it has opened what it needs: by Landlock which
 * files it reaches, by seccomp which system calls it may make. Neither can be taken back, and both
 * hold for what the program starts. Whoever breaks into it then has its open files and its sockets,
 * and little else.
 *
 * Called before threads are made, but for confine_further. */
#pragma once
#include <stdbool.h>

#include "engine/base/err.h"
#include "engine/confine/call_filter.h"

struct confine {
    const char *who;       /* for the log: "engine" */
    unsigned leave;        /* enum call_filter_leave */
    bool without_landlock; /* as told by an option: */
    bool without_seccomp;
};

/* From here on programs gain no rights by being run (setuid), no other process of the same user may
 * trace this one or read its memory, root has given up what only root may do, Landlock's rules are
 * in force (taken over; -1: there are none, or a process made later has its own), and so is the
 * filter of system calls. What holds is logged. A kernel without Landlock is warned of; one that
 * takes no filter is an error, because an option says that there may be none. */
bool confine_enter(const struct confine *c, int rules, struct err *e);
/* Takes away more in all threads, where filters are used at all: what only a start needs. */
void confine_further(unsigned leave, bool without_seccomp);

/* The system's own files that programs read at any time: libraries, tables, time zones, figures of
 * the kernel. No homes, no /etc but what is named, no /var. Ends with NULL. */
extern const char *const confine_system_files[];
/* Devices without a device. */
extern const char *const confine_null_devices[];
