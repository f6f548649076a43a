/* Measuring one model on one backend: prefill and decode at several lengths, depths and batch
 * sizes, each repeated in turn (never all repeats of one case in a row, so that a machine that
 * warms up or is disturbed shows in all of them), with the bytes that the steps had to read beside
 * the time. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/buf.h"
#include "engine/base/err.h"
#include "engine/experts/streaming.h"
#include "engine/tokenizer/tokenizer.h"
#include "fcgi/cli/bench/bench_disk.h"
#include "fcgi/cli/bench/routing.h"
#include "fcgi/cli/cli_run.h"

#define BENCH_MAX_REPEATS 64
#define BENCH_MAX_LIST 16
#define BENCH_MAX_CASES (2 * BENCH_MAX_LIST * BENCH_MAX_LIST)
#define BENCH_LEAD                                                                                 \
    16 /* tokens of its own that each sequence of a batch reads before it decodes                  \
        */

enum bench_kind {
    BENCH_PREFILL,
    BENCH_DECODE,
    BENCH_ROWS /* several rows of one sequence in each step, as drafted tokens are verified */
};

struct bench_case {
    enum bench_kind kind;
    int32_t depth;                       /* tokens in KV before */
    int32_t batch;                       /* sequences of a step (PREFILL, ROWS: 1) */
    int32_t rows;                        /* of each sequence in a step (PREFILL, DECODE: 1) */
    int32_t tokens;                      /* PREFILL: length; DECODE, ROWS: steps */
    double ms[BENCH_MAX_REPEATS];        /* of one repeat */
    double bandwidth[BENCH_MAX_REPEATS]; /* with bench.beside: around each repeat */
    int32_t n_ms;
    /* of the last repeat, from the backend's counters */
    uint64_t steps, weight_bytes, kv_bytes;
    uint64_t split_hits, split_misses, split_on_cpu, bus_bytes,
        copied_bytes;               /* hybrid: struct backend_counters says what they are */
    struct bench_disk disk;         /* where experts are streamed: of all repeats */
    struct backend_profile profile; /* with bench.profiles: of one step, behind the others */
};

struct bench {
    struct cli_run run;
    const int32_t *prompt; /* [n_prompt] real or random ids; sequences begin at different places */
    int32_t n_prompt;
    struct bench_case *cases;
    int32_t n_cases, n_repeats;
    bool profiles;           /* each case's step is also timed operation by operation */
    bool beside;             /* the bandwidth is measured around each repeat of each case too, and
                                stderr says when one begins */
    bool warms;              /* a GPU's clocks are to rise before each timed case */
    int32_t *filled;         /* [sequences] tokens of its own text that each has in its cache */
    struct routing *routing; /* NULL: the model's router chooses */
    double bandwidth;        /* bytes/s as measured; 0: unknown */
    double disk_bandwidth;   /* where experts are streamed: bench_disk_bandwidth */
    struct memory_rates
        rates[BENCH_MAX_REPEATS]; /* measured between the repeats, for the planner's estimate */
    int32_t n_rates;
};

struct bench_lists { /* of numbers, as text: "1,2,4" */
    const char *prompts, *depths, *batches, *rows;
};
/* The cases of all these lists, with so many steps of decoding each. */
bool bench_cases(struct bench *b, const struct bench_lists *lists, int32_t steps, struct err *e);
const char *bench_kind_name(enum bench_kind kind);
/* Tokens per sequence and states that the cases need. */
int32_t bench_positions(const struct bench *b);
int32_t bench_sequences(const struct bench *b);
/* cli_run_params.route and guess; context is the struct bench. */
void bench_guess(void *context, int32_t layer, int32_t sequence, int32_t position, int32_t *ids);
void bench_route(void *context, int32_t layer, int32_t sequence, int32_t position, int32_t *ids);
/* Runs all cases n_repeats times, after one repeat that is not counted; each with draws of its own
 * where routing is a trace. */
bool bench_run(struct bench *b, struct err *e);

/* tokens/s of all sequences together: of repeat i (sorted ascending by time when asked for), i <
 * n_ms. */
struct bench_rate {
    double median, min, max;
};
struct bench_rate bench_rate(const struct bench_case *c);
/* Bytes of weights that a decode step reads by the plan's own arithmetic: exactly at batch 1, with
 * independent uniform routing else. */
double bench_planned_weights(const struct cli_run *r, int32_t batch);
/* Where experts are streamed: share of the best possible time, the longer of computing with all
 * experts resident and of reading the needed bytes at the disk's full rate; 0 where the former was
 * not measured. */
double bench_disk_share(const struct bench *b, const struct bench_case *c);
/* Median time of a step. */
double bench_step_ms(const struct bench_case *c);
/* Prints what steps of several rows cost beside those of one. */
void bench_rows_print(const struct bench *b);
/* What the planner says of one stream at the case's depth: tokens/s, the median over the rates
 * measured between repeats. 0: not known, or no decoding at batch 1. hit_rate < 0: as the planner
 * expects it. */
double bench_estimate(const struct bench *b, const struct bench_case *c, double hit_rate);
/* Of the experts that the case wanted, the share that no read was needed for; -1: nothing is
 * streamed. */
double bench_hit_rate(const struct bench_case *c);
/* Share of the bandwidth bound that the median reached; 0 when the bandwidth is unknown. Where it
 * was measured around each repeat, the median of the repeats' shares. */
double bench_share(const struct bench *b, const struct bench_case *c);
/* The median of what was measured around the case's repeats; 0: nothing was. */
double bench_bandwidth(const struct bench *b, const struct bench_case *c);

struct bench_prompt_params {
    const char *model;
    int32_t n_vocab;
    int32_t n; /* ids at least */
};
/* Ids to feed: passages of text (bench_text.c) through the model's tokenizer, repeated with changes
 * until there are n; pseudo-random ids where the model has no tokenizer. *real says which. */
bool bench_prompt(const struct bench_prompt_params *p, struct ids *out, bool *real, struct err *e);

/* Appends lines that measure the same cases, at the same lengths, with llama.cpp's tools. */
void bench_peer_lines(const struct bench *b, const char *model, struct buf *out);

/* What the profiles say, printed as tables, and as a member of a case's JSON. */
void bench_profile_print(const struct bench *b);
void bench_profile_json(const struct bench_case *c);

/* Measures constrained decoding over the model's vocabulary and prints it; needs no weights. */
bool bench_grammar(const char *model, bool json, struct err *e);
