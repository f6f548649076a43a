/* Time. Monotonic for durations, wall for timestamps; both thread-safe. */
#pragma once
#include <stdint.h>
#include <time.h>

uint64_t clock_ns(void);          /* monotonic */
double clock_ms(void);            /* monotonic, with fraction */
int64_t clock_wall_ms(void);      /* Unix time in milliseconds */
int64_t clock_wall_s(void);       /* Unix time in seconds */
void clock_sleep_us(uint32_t us); /* or until a signal comes */
/* The clock's time in so many milliseconds, for pthread_cond_timedwait. */
struct timespec clock_deadline(clockid_t clock, double ms);
