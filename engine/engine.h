/* The engine's client interface. It has two nouns: a job (one prompt, one answer) and the status
 * page.
 *
 * The engine is another process behind a unix socket (0660; peers checked by SO_PEERCRED). One
 * connection is one job (engine_relay: one at a time); closing it cancels the job, unless it was
 * submitted detached: then it goes on, keeps its events, and engine_attach reads them from the
 * first one on. Beside engine/base and engine/text this is the only engine header that fcgi/
 * includes.
 *
 * A struct engine_job belongs to one thread. engine_status_* is thread-safe. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/err.h"
#include "engine/wire/prompt_cache.h"

#define ENGINE_PROTOCOL_VERSION 11
#define ENGINE_MAX_PROMPT (2 << 20) /* tokens */
#define ENGINE_MAX_STOP 16
#define ENGINE_MAX_STOP_BYTES 512
#define ENGINE_MAX_TOP_LOGPROBS 20
#define ENGINE_MAX_BIAS 1024
#define ENGINE_MAX_STOP_IDS 256
#define ENGINE_MAX_ALLOWED_IDS 16384
#define ENGINE_MAX_BANNED 8192
#define ENGINE_KEY_SIZE 48
#define ENGINE_VIA_SIZE 512
#define ENGINE_MAX_EXPERTS_PER_TOKEN 1024
#define ENGINE_MAX_GRAMMAR_BYTES ((uint32_t)8 << 20)
#define ENGINE_MAX_PREDICTION 65536 /* tokens */
#define ENGINE_MAX_TEXTS 2048       /* of one embedding job */
#define ENGINE_MAX_DRAFT 16         /* tokens of a job that one step verifies */

/* Where drafts of the next tokens come from. They never change an answer, only its speed. */
enum engine_speculate {
    ENGINE_SPECULATE_SERVER, /* a job: as the engine runs */
    ENGINE_SPECULATE_AUTO,   /* any drafter that is there, as far as it pays */
    ENGINE_SPECULATE_OFF,
    ENGINE_SPECULATE_NGRAM,  /* text that stood before in prediction, prompt or answer, as far as it
                                pays */
    ENGINE_SPECULATE_DRAFT,  /* a smaller model of the same vocabulary, as far as it pays */
    ENGINE_SPECULATE_MTP,    /* the model's own next-token layer, as far as it pays */
    ENGINE_SPECULATE_DFLASH, /* a DFlash drafter made for the model, as far as it pays */
    ENGINE_SPECULATE__N
};

/* What an engine's model is for, and what a job asks of it. */
enum engine_task {
    ENGINE_TASK_TEXT,  /* an answer */
    ENGINE_TASK_EMBED, /* a vector of each text */
    ENGINE_TASK_SCORE, /* how well each text, a query and a document, fits together: 0 to 1 */
    ENGINE_TASK__N
};
const char *engine_task_name(enum engine_task task); /* "text", "embed", "score" */

struct engine_bias {
    int32_t id;
    float bias;
};

struct engine_sampling {
    float temperature;        /* 0: greedy */
    float top_p;              /* (0, 1]; 1: off */
    float min_p;              /* [0, 1]; 0: off */
    int32_t top_k;            /* 0: off */
    float typical_p;          /* (0, 1) locally typical sampling; 0 and 1: off */
    float repetition_penalty; /* 1: off; over prompt and answer */
    float presence_penalty;   /* 0: off; over the answer, as OpenAI defines it */
    float frequency_penalty;  /* 0: off */
    int32_t penalty_window; /* penalties count this many last tokens of prompt and answer; 0: all */
    uint64_t seed;          /* the same job with the same seed gives the same answer */
    const struct engine_bias *bias;
    int32_t n_bias;
};

struct engine_job_params {
    const int32_t *prompt; /* [n_prompt], n_prompt >= 1 */
    int32_t n_prompt;
    int32_t max_tokens; /* 0: read the prompt only; the engine cuts it to what the context leaves */
    struct engine_sampling sampling;
    const char *const *stop; /* [n_stop] strings */
    int32_t n_stop;
    bool keep_stop; /* the stop string, or the text of the token in stop_ids, is the answer's end */
    const int32_t *stop_ids; /* [n_stop_ids] tokens that end the answer as an end of text does */
    int32_t n_stop_ids;
    int32_t min_tokens; /* nothing ends the answer earlier: ending tokens are not drawn (unless a
                           grammar allows nothing else), and stop strings are not matched */
    const int32_t *allowed_ids; /* [n_allowed_ids] no other token is drawn; 0: all may be */
    int32_t n_allowed_ids;
    const int32_t *banned; /* [n_banned] token sequences, each preceded by its length, that must
                              not appear in the answer */
    int32_t n_banned;
    char answer_format[24]; /* chat_traits.format: stop strings do not match in its reasoning; "":
                               plain text */
    int32_t answer_begins; /* enum content_begin (engine/chat/content_gate.h): where the prompt left
                              the answer */
    int32_t prompt_scores; /* 0: none; 1 + n: events PROMPT_SCORES give each token of the prompt but
                              the first with n alternatives, at most ENGINE_MAX_TOP_LOGPROBS; the
                              whole prompt is then computed, regardless of the prefix cache */
    int32_t top_logprobs;  /* -1: no logprobs; 0..ENGINE_MAX_TOP_LOGPROBS alternatives per token */
    bool ignore_eos;
    bool special_text; /* spell out special tokens in the text (harmony needs them) */
    bool detached;
    char key[ENGINE_KEY_SIZE];     /* detached: name chosen by the submitter, unique, at most 47
                                      characters */
    uint64_t user;                 /* for fair sharing; 0: no particular user */
    char scope[ENGINE_SCOPE_SIZE]; /* prompt cache's scope: jobs of another scope never share blocks
                                    */
    const struct stored_ref
        *stored; /* [n_stored] blocks of the prompt on disk, from its first on */
    int32_t n_stored;
    char cache_owner[ENGINE_CACHE_OWNER_SIZE]; /* told when the job's blocks are stored; "": nobody
                                                  in particular */
    struct prompt_seal cache_seal; /* of the job's blocks on disk. The scope says which key it is */
    int64_t cache_keep_seconds; /* told likewise; 0: as long as there is room; -1: none of the job's
                                   blocks is stored, and no other job drafts by them */
    int64_t cache_forgets_seen; /* told likewise: number of the last deletion before the job's text
                                   was read. 0: none was seen */
    char request_id[48];        /* for the log */
    int32_t priority; /* 0 normal, 1 background (runs only when nothing else wants the device) */
    int32_t experts_per_token; /* of a layer at most: fewer than the model's are faster and lossy;
                                  0: as the engine runs. ERR_INPUT if the model has fewer */
    enum engine_speculate speculate; /* ERR_INPUT where the engine can't */
    const int32_t *prediction; /* [n_prediction] what the answer is expected to be; may be none */
    int32_t n_prediction;
    const void *grammar; /* [n_grammar] bytes, a program of engine/grammar: the answer follows it to
                            its end; NULL: free */
    uint32_t n_grammar;
    /* EMBED and SCORE: the prompt is so many texts, one behind the other. What belongs to an answer
     * is ignored. */
    enum engine_task task;
    const int32_t *text_ends;   /* [n_texts] place behind each in the prompt, ascending */
    const int32_t *text_firsts; /* [n_texts] tokens of its first part, where the model tells two
                                   parts apart; 0: it has one */
    int32_t n_texts;
    int32_t dimensions; /* values of each vector, the first ones, scaled to length 1; 0: all */
};

struct engine_token {
    int32_t id;
    float logprob; /* natural log; of the model's distribution at temperature 1 */
    int32_t rank;  /* PROMPT_SCORES: 1 is the likeliest token of the vocabulary there; else 0 */
    int32_t n_top;
    struct {
        int32_t id;
        float logprob;
    } top[ENGINE_MAX_TOP_LOGPROBS];
};

enum engine_event_type {
    ENGINE_ACCEPTED,      /* queued: position in `queue_position` */
    ENGINE_PROGRESS,      /* prefill: done, total, cached tokens */
    ENGINE_PROMPT_SCORES, /* tokens of the prompt from position `done` on, with their log
                             probabilities */
    ENGINE_TOKENS,        /* new tokens and the text that may now be shown (either may be empty) */
    ENGINE_VECTORS,       /* vectors (or scores, of one value) of texts from `done` on */
    ENGINE_DONE,          /* finish reason, usage, timings; the last event */
    ENGINE_FAILED,        /* error; the last event */
};

enum engine_finish {
    ENGINE_STOP_EOS,
    ENGINE_STOP_STRING,
    ENGINE_LENGTH,
    ENGINE_CANCELLED,
    ENGINE_FINISH__N
};

/* A job's use of experts that are not all in one memory: counts of distinct experts per layer and
 * step, and bytes. Jobs that shared a step share its counts, so the sums over all jobs equal the
 * status page. */
enum engine_expert_count {
    ENGINE_EXPERT_READ_BYTES, /* from disk; this and the five below are 0 if no experts stay on disk
                               */
    ENGINE_EXPERT_ASKED,      /* hits + late + misses */
    ENGINE_EXPERT_HITS,       /* in memory */
    ENGINE_EXPERT_LATE,       /* being prefetched */
    ENGINE_EXPERT_MISSES,     /* read on demand */
    ENGINE_EXPERT_EVICTIONS,  /* evicted from memory */
    ENGINE_EXPERT_DEVICE_HITS, /* in slots of the device; this and those below are 0 if it has none
                                */
    ENGINE_EXPERT_DEVICE_MISSES,
    ENGINE_EXPERT_DEVICE_EVICTIONS,
    ENGINE_EXPERT_BUS_BYTES, /* read by the device from RAM */
    ENGINE_EXPERT__N
};

struct engine_memory { /* bytes of the engine at a job's end, as the status page has them */
    uint64_t resident, anonymous, mapped, locked, device;
};

struct engine_speculation {        /* what drafts did for a job */
    enum engine_speculate applied; /* OFF: it could have none */
    int32_t steps;                 /* that verified drafts of this job */
    int32_t drafted, accepted;     /* tokens */
    int32_t drafted_at[ENGINE_MAX_DRAFT], accepted_at[ENGINE_MAX_DRAFT]; /* by place in the draft */
    int32_t prediction_accepted, prediction_rejected; /* of them, taken from the job's prediction */
    double draft_ms;                                  /* making drafts */
    double
        verify_ms; /* what steps with its drafts took longer than plain ones, by measured times */
};

struct engine_usage {
    int32_t prompt_tokens, cached_tokens, completion_tokens;
    int32_t cached_from_ram, cached_from_disk; /* of cached_tokens; the rest was on the device */
    uint64_t cache_bytes;                      /* read from disk for this job */
    double cache_ms;                           /* waiting for it: a part of queue_ms */
    char cache_miss[32]; /* why the first whole block that was not in a cache was not: "unknown",
                            "slower than computing", "damaged", "no state", "off"; "": all were */
    double queue_ms, prefill_ms,
        decode_ms; /* waiting, also while preempted or for the disk; first row in to first token;
                      first token to last, both without what was waited */
    double prefill_tokens_per_s,
        decode_tokens_per_s; /* computed tokens only: cached ones are not counted */
    struct engine_speculation speculation;
    double experts[ENGINE_EXPERT__N];
    struct engine_memory memory;
    int32_t reduced_top_k; /* experts per token, if fewer than the model was trained with; else 0 */
    int32_t trained_top_k; /* experts per token that the model was trained with; 0: it has none */
};

struct engine_event {
    enum engine_event_type type;
    uint64_t job;
    int32_t queue_position;
    int32_t done, total, cached; /* PROGRESS; PROMPT_SCORES, VECTORS: done */
    int32_t n_vectors, dimensions;
    const float *values; /* VECTORS [n_vectors, dimensions]; valid as tokens are */
    const struct engine_token
        *tokens; /* TOKENS, PROMPT_SCORES; valid until the next call on this job */
    int32_t n_tokens;
    double decode_ms; /* TOKENS: engine time from the job's first token to this one, the same in
                         every replay */
    const char *text; /* whole UTF-8, not NUL-terminated */
    size_t text_len;
    enum engine_finish finish; /* DONE */
    const char *stop_string;   /* DONE by STOP_STRING: which one */
    struct engine_usage usage; /* DONE */
    struct err error;          /* FAILED */
};

struct engine_job;

#define ENGINE_OWN_JOBS "user" /* the field of a refusal for what the same user has waiting */

/* Connects, says HELLO, submits. ERR_UNAVAILABLE: nobody listens; ERR_BUSY: the queue is full (the
 * text says how long to wait), or with the field ENGINE_OWN_JOBS the user's share of it; ERR_LIMIT:
 * the prompt exceeds the context (the text has both numbers); ERR_INPUT names the field. */
struct engine_job *engine_submit(const char *socket_path, const struct engine_job_params *p,
                                 struct err *e);
/* An answer that another server gives. It is asked of the relay (fcgi/relay/relay.h), which speaks
 * this protocol on a socket of its own; the events are those of any job, and its text has the
 * format CHAT_RELAYED_FORMAT. */
struct engine_relay {
    int64_t model;       /* of the registry: sql/models/store_models.h */
    int64_t upstream;    /* the only one that may be asked; 0: whichever is best */
    const char *request; /* [n_request] a chat in OpenAI's form, without model and stream: an object
                            that begins with '{' and has members */
    size_t n_request;
    int64_t most_tokens;       /* that the answer may have, and be charged for; 0: not said */
    char via[ENGINE_VIA_SIZE]; /* the servers of this kind that it came through (relay_via.h) */
    uint64_t user;
    uint64_t affinity; /* the same for what begins alike: such jobs go to one server, as far as it
                          is not busier than the others; 0: none */
    bool text;         /* {"prompt": ...}, a text to go on with, in the place of a chat */
    bool logprobs;     /* it asks for them: an upstream without any is refused by that name */
    bool detached;
    char key[ENGINE_KEY_SIZE]; /* as of a job */
    char request_id[48];
};
/* As engine_submit. Where the job is not detached the relay waits a moment for the other server's
 * first word, so that its refusal is an error here: its field is ENGINE_RELAY_REASON and a reason
 * (relay_error.h). The relay takes one job after the other on one connection: kept (NULL: none is)
 * holds one whose last job is over, or NULL; engine_close puts it there, so it outlives the job.
 * One that the relay closed before it had read the request is replaced; later it is an error, as
 * the other server may have been asked. */
struct engine_job *engine_relay(const char *socket_path, const struct engine_relay *p,
                                struct engine_job **kept, struct err *e);
void engine_kept_close(struct engine_job **kept); /* accepts NULL in it */
/* Numbers of the relay's jobs begin here, so that they are none of the engine's (CANCEL by "#"). */
#define ENGINE_RELAYED_JOBS ((uint64_t)1 << 40)
#define ENGINE_RELAY_REASON "upstream:"
/* Reads a detached job's events from the first. ERR_NOTFOUND: unknown, or forgotten since. */
struct engine_job *engine_attach(const char *socket_path, const char *key, struct err *e);
/* The same without waiting for a reply: until engine_attach_poll returns 1, only engine_pending and
 * engine_job_fd may be used. ERR_UNAVAILABLE: nobody listens, or the backlog is full. */
struct engine_job *engine_attach_async(const char *socket_path, const char *key, struct err *e);
/* 1: attached; 0: no reply yet; -1: *e as engine_attach. */
int engine_attach_poll(struct engine_job *j, struct err *e);
/* Waits up to timeout_ms (-1: without limit) for the next event: 1 = *ev is filled, 0 = none yet,
 * -1 = *e (the connection broke: ERR_UNAVAILABLE). After DONE or FAILED nothing more comes. */
int engine_next(struct engine_job *j, struct engine_event *ev, int timeout_ms, struct err *e);
/* True when an event is complete in memory: call engine_next before polling the descriptor. */
bool engine_pending(const struct engine_job *j);
int engine_job_fd(const struct engine_job *j); /* for poll: POLLIN */
uint64_t engine_job_id(const struct engine_job *j);
/* Asks the engine to stop the job after the running step; events continue until DONE
 * (ENGINE_CANCELLED). */
bool engine_cancel(struct engine_job *j, struct err *e);
/* Cancels a job that another process submitted: by key (detached) or by id ("#42", admin).
 * ERR_UNAVAILABLE after 2 s if the engine hangs: the request is sent all the same, and is read when
 * the engine continues. */
bool engine_cancel_key(const char *socket_path, const char *key, struct err *e);
/* The same without waiting for a reply, so it does not tell whether there is such a job.
 * ERR_UNAVAILABLE: nobody listens, or the backlog is full. */
bool engine_cancel_async(const char *socket_path, const char *key, struct err *e);
/* Closes; cancels when the job is not detached and not finished. Accepts NULL, nulls *j. */
void engine_close(struct engine_job **j);

const char *engine_finish_name(enum engine_finish f); /* "stop", "stop", "length", "cancelled" */
const char *engine_speculate_name(enum engine_speculate s); /* as in --speculate; "server" */
/* ERR_INPUT, field "speculate": no such name. ERR_UNSUPPORTED: a drafter that is known but not
 * there, with the reason. */
bool engine_speculate_parse(const char *name, enum engine_speculate *out, struct err *e);
