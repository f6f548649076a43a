/* shared.h: what answers used, until it is in the database. Who holds a row is named by its
 * process's number and birth, so that one that was killed meanwhile holds nothing. */
#include "fcgi/process/shared.h"

#define PID_BITS 22 /* the kernel's largest number of a process */

static uint64_t name_of(pid_t pid, int64_t born)
{
    return (uint64_t)born << PID_BITS | (uint64_t)pid;
}

static bool is_gone(uint64_t name)
{
    return shared_process_gone((pid_t)(name & ((1u << PID_BITS) - 1)), (int64_t)(name >> PID_BITS));
}

bool shared_usage_take(_Atomic uint64_t *holder, pid_t mine, int64_t born)
{
    const uint64_t me = name_of(mine, born);
    uint64_t held = 0;
    return atomic_compare_exchange_strong(holder, &held, me) ||
           (is_gone(held) && atomic_compare_exchange_strong(holder, &held, me));
}

void shared_usage_give(_Atomic uint64_t *holder)
{
    *holder = 0;
}
