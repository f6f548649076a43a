/* Chooses how many threads run the next step: all, or one.
 *
 * A step has some sixty barriers. On a machine that is busy with something else each barrier may
 * wait for a thread that is not running, and then all threads together are slower than one. Results
 * do not depend on the number of threads, so the faster way is found by trying: steps of similar
 * size are timed both ways, the slower way rarely. Owner thread only. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#define THREAD_TUNER_CLASSES 3 /* 1 row, 2..4, 5..16; larger steps always use all threads */

struct thread_tuner_class {
    bool single;      /* what is used now */
    double ns[2];     /* moving mean of a row's time: [0] all threads, [1] one; 0: not tried */
    int32_t steps;    /* since the other way was tried */
    int32_t interval; /* steps between tries; doubles while they confirm the choice */
    int32_t tried;    /* steps of the running try */
};

struct thread_tuner {
    struct thread_tuner_class classes[THREAD_TUNER_CLASSES];
};

/* True: the next step, of so many rows, runs on one thread. */
bool thread_tuner_single(struct thread_tuner *t, int32_t rows);
/* Records how long a step took on one thread or on all. */
void thread_tuner_record(struct thread_tuner *t, int32_t rows, bool single, uint64_t ns);
