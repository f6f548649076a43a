/* What a process that locked itself in can still do: each test runs in a process of its own, whose
 * exit status is the line of the first expectation that failed. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "tests/unit/support/sanitized.h"

#define CONFINED_CALLS                                                                             \
    (!SANITIZED) /* sanitizers trace the process themselves: nothing is filtered */

/* In the child: `what` must hold. */
#define CONFINED_EXPECT(what)                                                                      \
    do                                                                                             \
        if (!(what))                                                                               \
            confined_failed(__LINE__);                                                             \
    while (0)
/* And the call must fail so. */
#define CONFINED_REFUSED(call, error)                                                              \
    do {                                                                                           \
        errno = 0;                                                                                 \
        if ((call) >= 0 || errno != (error))                                                       \
            confined_failed(__LINE__);                                                             \
    } while (0)

_Noreturn void confined_failed(int line);
/* Runs it in a child; 0, the line that failed, or -1: it died. */
int confined_run(void (*body)(void *context), void *context);
/* Opens a file of a folder by name. */
int confined_open(const char *folder, const char *name, int flags);
