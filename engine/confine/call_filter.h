/* Which system calls a process may make, by seccomp: a list of what is refused. An allow list would
 * be tighter, but drivers of GPUs and later C libraries call what nobody foresaw; the units'
 * SystemCallFilter= is one, where systemd starts the programs. sluice-reader, which does little,
 * has its own allow list (reader/sandbox.c).
 *
 * What is refused fails with an error (EPERM; EAFNOSUPPORT for sockets) and the process goes on: a
 * driver that tries something has its answer, where a kill would end everybody's requests, and an
 * attacker gains nothing by it. The kernel's audit log names each such call. */
#pragma once
#include <stdbool.h>

enum call_filter_leave { /* what is taken away as well, unless it is left: */
                         CALL_FILTER_NETWORK =
                             1, /* sockets other than unix ones: IPv4, IPv6, netlink */
                         CALL_FILTER_RUN = 2,    /* running programs */
                         CALL_FILTER_FORK = 4,   /* making processes; threads may always be made */
                         CALL_FILTER_SIGNAL = 8, /* signals to other processes, and their limits */
                         CALL_FILTER_RINGS =
                             16, /* io_uring, whose calls no filter sees; rings that exist stay */
                         CALL_FILTER_UNIX =
                             32, /* unix sockets that could be connected to somebody's path, which
                                    Landlock doesn't hide; pairs stay */
};

/* For the calling thread and all that it makes; every_thread: for those that exist too. A later
 * filter takes away more, never less. False: the kernel refuses, errno says why. Does nothing in a
 * build with sanitizers, which trace processes themselves. */
bool call_filter_enter(unsigned leave, bool every_thread);
/* In this build. */
bool call_filter_exists(void);
