/* The recorder: the only process that writes running answers to SQLite and that checkpoints the
 * WAL.
 *
 * It attaches to the engine's detached job of every row that is `running` and writes what arrives,
 * the answers of one tick in one transaction. It does not depend on the workers, which may die. If
 * it dies itself, its successor reads every job again from the first event. A datagram tells it of
 * new answers; it also polls the table, so a lost datagram delays an answer but loses none.
 *
 * One thread. The check of the database at start, and vectors of passages (passage_follower.h),
 * have threads with connections of their own.
 */
#pragma once
#include <stdint.h>

struct shared;
struct side_model;

struct recorder_params {
    const char *db_path; /* made when it is missing */
    const char *engine_socket;
    const char *relay_socket; /* of jobs whose keys say so: process/worker.h */
    const char *engine_run;   /* folder of the engines of further models: process/local_model.h */
    const char *status_path;  /* the engine's */
    const char *run_dir;      /* of STATE_RECORD_SOCKET; the lock lies beside the database */
    const char *history_path; /* history.h: written once a second; NULL: not kept */
    const char *audit_log;    /* audit_ship.h; NULL: not shipped */
    const struct side_model *embeds; /* passage_follower.h; NULL: there is none */
    struct shared
        *shared; /* the workers' counters, for the history; users' minutes. NULL: neither */
};

/* Runs until SIGTERM or SIGUSR2; returns the exit status. A second recorder on one database waits
 * for the first to go. */
int recorder_run(const struct recorder_params *p);

/* Tells the recorder that there is work: a new answer, or something removed. Never waits; lost when
 * nobody listens. */
void recorder_notify(const char *run_dir, int64_t message_id);
