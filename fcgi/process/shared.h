/* Memory that all worker processes of all pools map: counters for /metrics, the pools' scoreboards,
 * login throttling, keys' limits. One file in the state folder, made anew when its layout differs.
 * Every field that changes is a C11 atomic, so a reader never sees a torn one. Counters are added
 * to in relaxed order: one may be seen a moment before another. What processes agree by (states,
 * owners, tickets, limits) is read and written in sequentially consistent order, as a plain access
 * does. */
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "engine/base/err.h"
#include "engine/base/mapped_file.h"
#include "fcgi/process/work_gate.h"

#define SHARED_ROUTES 256 /* rows for routes; the last one counts requests without a route */
#define SHARED_STATUSES 26
#define SHARED_BUCKETS 20
#define SHARED_CHILDREN 512      /* processes of one pool */
#define SHARED_THROTTLE_TABLES 4 /* a kind of guesses never pushes out those of another */
#define SHARED_THROTTLES 8192
#define SHARED_LIMITS 1024
#define SHARED_AUDITED 512 /* users whose rows of the audit log are counted at a time */
#define SHARED_LOCALS                                                                              \
    32                    /* models of this machine beside the first; sql: STORE_LOCAL_MODELS_MAX  \
                           */
#define SHARED_USED 8     /* users, keys and days of a process's answers in a second */
#define SHARED_KNOWN 1024 /* of a kind; the one that was noted longest ago makes room */

struct shared_histogram { /* count[i]: values <= shared_bounds[i] (in seconds), not cumulative; the
                             last one: above */
    _Atomic uint64_t count[SHARED_BUCKETS];
    _Atomic uint64_t sum_ns;
};

/* A pool is a socket and its processes: a stream may hold its process for minutes. */
enum worker_pool { POOL_SHORT, POOL_STREAM, POOL_RECORD, POOL_RELAY, POOL__N };
const char *worker_pool_name(enum worker_pool p);

enum child_state { CHILD_NONE, CHILD_STARTING, CHILD_IDLE, CHILD_BUSY, CHILD_LEAVING };

enum stream_state {
    STREAM_NONE,
    STREAM_OPEN,    /* a stream is open on the connection, at the end of an event */
    STREAM_WRITING, /* and an event may be half written */
};

/* What a process's answers used, until somebody counts it: usage_ledger.h. An answer is added to
 * the sums that are not valid, and one store makes them valid: of a process that was killed
 * meanwhile it is there or not, never half. */
struct shared_sums {
    _Atomic int64_t requests, prompt_tokens, cached_tokens, completion_tokens;
};
struct shared_used {
    _Atomic int64_t user_id; /* 0: free */
    _Atomic int64_t key_id, day;
    _Atomic uint64_t newest; /* `answer` of the one added last, shifted left by one; the lowest bit:
                                which sums are valid */
    struct shared_sums sums[2];
};
struct shared_usage {
    _Atomic uint64_t holder; /* who reads or changes the rest; 0: nobody */
    _Atomic uint64_t batch; /* the number under which it goes to the database, and as long as it has
                               one nothing is added to it; 0: none */
    _Atomic int32_t any;    /* 0: all are free. Set before the first one is used */
    struct shared_used used[SHARED_USED];
};

struct shared_child {
    _Atomic int32_t pid;
    _Atomic int64_t
        born; /* when the process that writes here began, as shared_process_gone has it */
    _Atomic int32_t orphan;   /* a process of a killed master that still writes here: the row is not
                                 given to another; 0: none */
    _Atomic int32_t state;    /* enum child_state; a threaded child stays IDLE */
    _Atomic int64_t since_ms; /* Unix time of the last change */
    _Atomic uint64_t requests;
    _Atomic int32_t waits_local; /* 1: the request waits until a local model is loaded */
    _Atomic int32_t stream;      /* enum stream_state: see stream_abort.h */
    _Atomic int32_t dialect; /* of the stream, for its error event if the process dies: an index of
                                http/dialect.h. Set before `stream` */
    /* The inference that runs in it, see usage.h and limits.h. What a killed process leaves here is
     * counted by another. */
    _Atomic int64_t user_id, key_id; /* user_id 0: nothing to count */
    _Atomic int32_t usage_pid;       /* who wrote this, */
    _Atomic int64_t usage_born;      /* and when that process began */
    _Atomic int32_t prompt_tokens, cached_tokens, completion_tokens;
    _Atomic uint64_t answer;      /* its number in this row */
    struct shared_usage usage[2]; /* those that have ended; while one is being counted the other
                                    one is written to */
    _Atomic int32_t jobs;         /* of the key and of its user */
    _Atomic int64_t jobs_user;    /* the user */
    _Atomic uint64_t ticket; /* 0: none, 1: being drawn, else the order in which inferences came */
};

struct shared_pool {
    _Atomic int32_t master_pid;
    _Atomic int32_t n_rows; /* of `child` that were ever given out, the first ones: the others hold
                               nothing, and to look through all takes 10 us */
    _Atomic uint64_t started, crashed, killed; /* children */
    struct shared_child child[SHARED_CHILDREN];
};

struct shared_throttle {
    _Atomic uint64_t key; /* hash of a name or an address; 0: free */
    _Atomic uint32_t failures, free_failures;
    _Atomic int64_t last_ms;
};

struct shared_limit {
    _Atomic int64_t key_id; /* a key, or with a minus a user; 0: free */
    _Atomic int64_t requests_full_us,
        tokens_full_us; /* Unix time at which the key's minute is whole again */
};

/* What proved itself a while ago. */
enum shared_known_kind {
    KNOWN_READER,  /* keys and sessions of those who may read the figures */
    KNOWN_ADDRESS, /* from where a password was right: http/client_address.h */
    KNOWN__N
};
struct shared_known {
    _Atomic uint64_t key; /* as shared_throttle_hash has it; 0: free */
    _Atomic int64_t last_ms;
};

struct shared_audited {
    _Atomic int64_t user_id;  /* 0: free */
    _Atomic int64_t since_ms; /* when the minute began, of which `rows` were written */
    _Atomic uint32_t rows;
    _Atomic uint32_t suppressed;   /* and not yet told of in the audit log */
    _Atomic int64_t suppressed_ms; /* since when */
};

/* An engine beside the first, see local_model.h. `sluice up` alone writes it, but for what is
 * wanted. */
enum local_state { LOCAL_COLD, LOCAL_LOADING, LOCAL_READY, LOCAL_LEAVING, LOCAL_FAILED, LOCAL__N };
enum local_reason { LOCAL_FINE, LOCAL_NO_ROOM, LOCAL_BROKEN };
struct shared_local {
    _Atomic int64_t id;       /* of the model's row; 0: free */
    _Atomic int32_t state;    /* enum local_state */
    _Atomic int32_t reason;   /* enum local_reason, of LOCAL_FAILED */
    _Atomic int64_t since_ms; /* Unix time of the last change of the state */
    _Atomic int64_t heard_ms; /* what was wanted until then has got what there is: the model was
                                 ended, or can't be loaded */
    _Atomic uint64_t needed, free; /* bytes, of LOCAL_NO_ROOM */
    _Atomic int64_t wanted_ms;     /* by anyone, the last time */
    _Atomic int64_t unload_ms;     /* when an admin asked for its end */
};

struct shared {
    struct mapped_header head;
    _Atomic uint64_t requests[SHARED_ROUTES][SHARED_STATUSES];
    _Atomic uint64_t
        http_errors; /* of these, 5xx: but a probe's 503 only tells how the engine is */
    struct shared_histogram overhead, duration_short, duration_stream, first_byte;
    _Atomic uint64_t client_gone, engine_lost, auth_failed, login_throttled, bytes_out;
    _Atomic uint64_t limited[5]; /* refused: enum limit_kind */
    _Atomic uint64_t work_refused[WORK__N];
    _Atomic uint64_t next_ticket;
    _Atomic int32_t model_gate;           /* enum model_gate: whether jobs may be submitted */
    _Atomic uint64_t settings_generation; /* of the server's settings: counts their changes */
    _Atomic uint64_t usage_counter; /* who counts what the rows hold, as in shared_usage_take */
    _Atomic uint64_t usage_moves;   /* odd: the batch of this number goes to the database */
    struct shared_pool pool[POOL__N];
    _Atomic uint64_t throttle_key[2]; /* drawn when the file is made: nobody can compute names whose
                                         rows would push out another's */
    _Atomic uint64_t via_id; /* drawn likewise: by what this server knows itself (relay_via.h) */
    struct shared_throttle throttle[SHARED_THROTTLE_TABLES][SHARED_THROTTLES];
    struct shared_limit limit[SHARED_LIMITS];
    struct shared_known known[KNOWN__N][SHARED_KNOWN];
    struct shared_audited audited[SHARED_AUDITED];
    struct shared_local local[SHARED_LOCALS];
};

/* Maps the file read-write, making it when it is missing or of another layout. */
struct shared *shared_open(const char *path, struct err *e);
void shared_close(struct shared **s);

extern const double shared_bounds[SHARED_BUCKETS - 1];
void shared_observe(struct shared_histogram *h, uint64_t ns);
/* route: index of route_find, -1: none. */
void shared_count_request(struct shared *s, int route, int status);
int shared_status_at(int column); /* HTTP status of a column of `requests` */

/* Whose guesses are counted: a name or an address, as shared_throttle_hash has it. */
struct shared_throttle_subject {
    int table;
    uint64_t key; /* not 0 */
    int free_failures;
};
uint64_t shared_throttle_hash(const struct shared *s, const void *data, size_t len);
/* How many milliseconds the subject must wait; 0: may try. */
int64_t shared_throttle_wait(struct shared *s, const struct shared_throttle_subject *t);
/* False: nothing was counted, because all places of the subject are taken by others that must wait,
 * and those are never pushed out. */
bool shared_throttle_fail(struct shared *s, const struct shared_throttle_subject *t);
/* One failure less. */
void shared_throttle_undo(struct shared *s, const struct shared_throttle_subject *t);
void shared_throttle_clear(struct shared *s, const struct shared_throttle_subject *t);
#define SHARED_THROTTLE_MAX_MS ((int64_t)60 * 1000)

/* key: as shared_throttle_hash has it. */
void shared_known_note(struct shared *s, enum shared_known_kind kind, uint64_t key);
void shared_known_forget(struct shared *s, enum shared_known_kind kind, uint64_t key);
/* Was it noted within the last so many milliseconds? */
bool shared_known_within(const struct shared *s, enum shared_known_kind kind, uint64_t key,
                         int64_t ms);

#define SHARED_AUDIT_ROWS 60 /* of the audit log, of one user in a minute */
/* May the user's action have a row of its own? If not, it is counted. */
bool shared_audit_take(struct shared *s, int64_t user_id, int64_t now_ms);
/* A user some of whose rows were suppressed a minute ago, and how many since; NULL: none. Once they
 * are told of, the caller subtracts as many. */
struct shared_audited *shared_audit_due(struct shared *s, int64_t now_ms);

/* A key's minute, as a bucket of per_minute units that fills evenly. It is one number, the time at
 * which the bucket is full again, changed by compare and swap: exact between processes, and nothing
 * is held by one that is killed. */
struct shared_limit *shared_limit_row(struct shared *s, int64_t key_id);
struct shared_minute {
    int64_t remaining, reset_us; /* units left now; time until all are there again */
    int64_t wait_us;             /* refused: until it may be tried again */
};
struct shared_minute_units {
    int64_t per_minute; /* that the bucket holds */
    int64_t n;          /* taken; negative: given back */
    bool force;         /* also takes what is not there, as a debt of at most an hour */
};
/* False: the units are not there. More than a whole minute's are let through when the bucket is
 * full, and leave a debt. */
bool shared_minute_take(_Atomic int64_t *full_us, const struct shared_minute_units *u,
                        int64_t now_us, struct shared_minute *out);
struct shared_jobs_claim {
    int64_t key_id; /* 0: the page */
    int64_t user_id;
    int jobs;        /* 0: an aside, of which a user has one at a time */
    int64_t key_max; /* of the key's jobs in all processes; 0: no limit */
};
/* Registers the jobs of a key and its user in this process's slot. False: the key would have more
 * than key_max, or the user two asides. */
bool shared_jobs_enter(struct shared *s, struct shared_child *mine,
                       const struct shared_jobs_claim *c);
/* Jobs of the same user in other processes that came before those of `mine`. */
int64_t shared_jobs_of_user(struct shared *s, const struct shared_child *mine);
void shared_jobs_leave(struct shared_child *mine);

/* Rows of a pool whose master was killed: its children end the streams that they have, and go on
 * writing into their rows. A new master calls inherit once, then settle now and then; only a row
 * that is vacant may have a new process. */
void shared_rows_inherit(struct shared_pool *board);
void shared_rows_settle(struct shared_pool *board);
bool shared_row_vacant(const struct shared_child *c);
/* A new child before it writes anything else: is the row its own? Not when its master died before
 * it began. */
bool shared_row_claim(struct shared_child *c, pid_t mine);
/* born: clock ticks from the machine's start to the process's. The number alone may be another
 * process's by now: after a restart of the machine, and in a container as a rule, the same numbers
 * are given out again. */
bool shared_process_gone(pid_t pid, int64_t born);
int64_t shared_process_born(pid_t pid);
/* Takes what *holder stands for, for this process; false: a living one has it. */
bool shared_usage_take(_Atomic uint64_t *holder, pid_t mine, int64_t born);
void shared_usage_give(_Atomic uint64_t *holder);
