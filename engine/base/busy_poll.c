/* busy_poll.h: a mean in which a wait counts a quarter, a very long one not for ever. */
#include "engine/base/busy_poll.h"

#define MOST_US (4 * BUSY_POLL_US) /* two short waits later it pays again */

void busy_poll_note(struct busy_poll *b, double us)
{
    const double of_wait = us < 1 ? 1 : us < MOST_US ? us : MOST_US;
    b->usual_us = b->usual_us > 0 ? 0.75 * b->usual_us + 0.25 * of_wait : of_wait;
}

bool busy_poll_pays(const struct busy_poll *b)
{
    return b->usual_us > 0 && b->usual_us < BUSY_POLL_US;
}
