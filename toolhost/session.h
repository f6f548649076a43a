/* One connection and the program behind it. One thread. */
#pragma once
#include <stdbool.h>
#include <sys/types.h>

#include "toolhost/programs.h"

#define SESSION_MS 180000.0 /* a call and the listing of tools have shorter limits of their own */

struct session {
    int fd;    /* -1: this place is free */
    pid_t pid; /* 0: its name has not come yet */
    int pidfd;
    struct program *program;
    char name[PROGRAM_NAME + 2];
    size_t n_name;
    double began; /* clock_ms */
    bool ending;  /* told to end; killed at kill_at */
    double kill_at;
};

struct session_options {
    struct programs *programs;
    bool without_landlock, without_seccomp;
};

void session_begin(struct session *s, int fd);
/* Something came while the name is awaited. False: the connection is over. */
bool session_read(struct session *s, const struct session_options *o);
/* A connection that has no place: it is told why, and closed. */
void session_refuse(int fd, const char *why);
/* The other side has left, or its time is over: the program is asked to end, then killed. */
void session_stop(struct session *s, double now);
/* It has ended: the connection is closed, and how it ended remembered. */
void session_reap(struct session *s, double now);
void session_kill(struct session *s);
