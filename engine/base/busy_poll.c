/* busy_poll.h: a mean in which a wait counts a quarter, a very long one not for ever. */
#include "engine/base/busy_poll.h"

#define MOST_US (4 * BUSY_POLL_US) /* two short waits later it pays again */
#define SHARE 0.02
#define CREDIT_US (10 * BUSY_POLL_US) /* at most */

static void add(struct busy_poll *b, double us)
{
    b->credit_us += us;
    if (b->credit_us > CREDIT_US)
        b->credit_us = CREDIT_US;
}

bool busy_poll_begin(struct busy_poll *b, double now_ms)
{
    add(b, SHARE * 1e3 * (now_ms - b->counted_ms));
    b->counted_ms = now_ms;
    if (b->usual_us <= 0 || b->usual_us >= BUSY_POLL_US || b->credit_us < BUSY_POLL_US)
        return false;
    b->credit_us -= BUSY_POLL_US; /* until it ends in time: some never end */
    return true;
}

void busy_poll_end(struct busy_poll *b, bool awake, double us)
{
    const double of_wait = us < 1 ? 1 : us < MOST_US ? us : MOST_US;
    b->usual_us = b->usual_us > 0 ? 0.75 * b->usual_us + 0.25 * of_wait : of_wait;
    if (awake && us < BUSY_POLL_US)
        add(b, BUSY_POLL_US);
}
