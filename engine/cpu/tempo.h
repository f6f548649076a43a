/* How many threads the next step should use: all, or one.
 *
 * Threads that meet at sixty barriers a step are slower together than one alone when the machine is busy
 * with something else, since each barrier may wait for a thread that is not running. Results do not depend on
 * the number of threads, so the faster way is found by trying: steps of like size are timed both ways, the
 * slower way rarely. Owner thread only. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#define TEMPO_CLASSES 3 /* 1 row, 2..4, 5..16; larger steps always use all threads */

struct tempo_class {
    bool alone;        /* what is used now */
    double ns[2];      /* moving mean of a row's time: [0] all threads, [1] one; 0: not tried */
    int32_t steps;     /* since the other way was tried */
    int32_t interval;  /* steps between tries; doubles while they confirm the choice */
};

struct tempo {
    struct tempo_class classes[TEMPO_CLASSES];
};

/* True: one thread. */
bool tempo_alone(struct tempo *t, int32_t rows);
/* What a step took that ran as `alone` says. */
void tempo_note(struct tempo *t, int32_t rows, bool alone, uint64_t ns);
