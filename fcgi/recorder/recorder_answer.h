/* One running answer in the recorder: its connection to the engine, and what has been read from it.
 */
#pragma once
#include <stdbool.h>

#include "engine/engine.h"
#include "fcgi/inference/generation.h"
#include "sql/chats/store_record.h"

struct store;

struct recorder_answer {
    int64_t id, user_id;
    char key[ENGINE_KEY_SIZE];
    struct engine_job *job; /* NULL: not attached now */
    bool asked;             /* the engine has not said yet whether it knows the job */
    double asked_at;        /* clock_ms */
    struct generation g;    /* from the job's first event on, at each attachment anew */
    cJSON *tree;
    char *parser;
    struct buf tokens;  /* int32 ids of this job, since its first event */
    int64_t created_at; /* Unix ms */
    size_t written;     /* bytes of text in the row */
    int tokens_written;
    bool attached_once, cancelled, dirty;
    bool seen;           /* in the table's list at the last look */
    double lost_since;   /* clock_ms of the first failed attempt to attach; 0: none */
    double next_attach;  /* clock_ms */
    double broken_since; /* clock_ms of the first break that brought nothing new; 0: none */
    int tokens_at_break;
    double next_write; /* clock_ms: long answers are rewritten whole, so less often */
};

bool recorder_answer_open(struct recorder_answer *r, const struct store_running *row);
void recorder_answer_close(struct recorder_answer *r);
/* Tries to attach when it is time. It never waits, because other answers have to be written
 * meanwhile. A job that no longer exists ends the generation as failed. status_path: the engine's
 * status page, which tells when the engine started. */
void recorder_answer_attach(struct recorder_answer *r, const char *engine_socket,
                            const char *status_path, double now);
/* Reads up to `max` events that have arrived; true: there may be more. */
bool recorder_answer_read(struct recorder_answer *r, int max);
/* The answer has ended, and only its row is still to be written. */
bool recorder_answer_final(const struct recorder_answer *r);
/* When the row is due, by clock_ms; INFINITY: there is nothing to write, or a replay is still
 * behind the row's text. */
double recorder_answer_due(const struct recorder_answer *r);
/* Inside the recorder's transaction. *gone: the row is no longer running. */
bool recorder_answer_write(const struct recorder_answer *r, struct store *s, bool *gone,
                           struct err *e);
/* After the commit. */
void recorder_answer_written(struct recorder_answer *r, double now);
