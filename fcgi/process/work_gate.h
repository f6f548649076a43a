/* How many threads of a process slow work may hold, so that the rest of them always serve what is
 * quick. Each kind of work has a share, of which some run and the others wait for their turn;
 * whoever comes beyond is refused at once. No kind takes from another one, and nobody gets the
 * whole of a share: half of it is for those who have nothing of it yet, and so is one turn. Those
 * who have kept the process busy lately (work_use.h) get one place each, leave the last one to
 * others, and run one at a time, however many they are. Thread-safe; what waits, waits in its own
 * thread. */
#pragma once
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "fcgi/process/work_use.h"

enum work_kind {
    WORK_PASSWORD, /* argon2id: 64 MiB each */
    WORK_TEXT,     /* tokenizing what may be megabytes */
    WORK_FILE,     /* sluice-reader: a core and a gigabyte each */
    WORK_SHARE,    /* a shared conversation, made in memory */
    WORK_SIGN_IN,  /* a provider of sign-ins is asked, however slow it is */
    WORK_TOOL,     /* a tool server is asked, however slow it is */
    WORK__N
};
const char *work_kind_name(enum work_kind kind);

#define WORK_HELD_MAX 5 /* the largest share, with what is reserved of it */
#define WORK_THREADS 25 /* what all shares hold together */

struct work_gate {
    pthread_mutex_t lock; /* guards the rest */
    pthread_cond_t ended;
    int held[WORK__N], running[WORK__N];
    struct work_holder {
        int64_t owner;   /* 0: none */
        double began_ms; /* of its turn, clock_ms; 0: it waits */
    } holders[WORK__N][WORK_HELD_MAX];
    struct work_use use; /* of kinds but passwords, sign-ins and tools */
};
#define WORK_GATE_INIT {.lock = PTHREAD_MUTEX_INITIALIZER, .ended = PTHREAD_COND_INITIALIZER}

enum work_answer {
    WORK_TAKEN,
    WORK_FULL,      /* the share, or what all kinds may hold, is taken */
    WORK_FULL_OWNER /* this owner has as much of it as one may have */
};
struct work_owner {
    int64_t id; /* a user, or a stranger's address as a number; not 0 */
    bool known; /* gets one of the places that are reserved when a crowd of strangers has the rest
                 */
};
/* A thread of the share; it may run after work_gate_turn. Never waits. */
enum work_answer work_gate_take(struct work_gate *g, enum work_kind kind,
                                const struct work_owner *o);
/* Waits at most wait_ms for a turn. True: it runs. */
bool work_gate_turn(struct work_gate *g, enum work_kind kind, int64_t owner, int wait_ms);
/* Ends what work_gate_take began. ran: its turn had come. */
void work_gate_give(struct work_gate *g, enum work_kind kind, int64_t owner, bool ran);
