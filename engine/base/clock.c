/* Reads the monotonic and the wall clock, and sleeps for short times. */
#include "engine/base/clock.h"

static uint64_t read_ns(clockid_t id)
{
    struct timespec t;
    clock_gettime(id, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

uint64_t clock_ns(void)
{
    return read_ns(CLOCK_MONOTONIC);
}

double clock_ms(void)
{
    return (double)read_ns(CLOCK_MONOTONIC) / 1e6;
}

int64_t clock_wall_ms(void)
{
    return (int64_t)(read_ns(CLOCK_REALTIME) / 1000000u);
}

int64_t clock_wall_s(void)
{
    return (int64_t)(read_ns(CLOCK_REALTIME) / 1000000000u);
}

void clock_sleep_us(uint32_t us)
{
    const struct timespec t = {.tv_sec = us / 1000000, .tv_nsec = (long)(us % 1000000) * 1000};
    nanosleep(&t, NULL);
}

struct timespec clock_deadline(clockid_t clock, double ms)
{
    const uint64_t ns = read_ns(clock) + (uint64_t)(ms * 1e6);
    return (struct timespec){.tv_sec = (time_t)(ns / 1000000000u),
                             .tv_nsec = (long)(ns % 1000000000u)};
}
