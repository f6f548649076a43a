/* Waiting awake for what came soon of late. A process that sleeps costs its peer a wake-up, and
 * where the kernel has halted the core meanwhile (a virtual machine's, above all) 30 to 60 us; one
 * that yields its core instead lets the peer run on it and goes on without. Where waits are longer
 * than a few hundred microseconds, as for any answer that is computed, nothing is done awake. One
 * thread owns it. */
#pragma once
#include <stdbool.h>

#define BUSY_POLL_US 400.0 /* longer waits are slept through */

struct busy_poll {   /* zeroed: nothing is known, and every wait sleeps */
    double usual_us; /* how long waits took, the last ones most; 0: not known */
};

/* After each wait, awake or asleep. A core that others keep busy makes waits long too: who yields
 * it gets it back late, and sleeps the next times. */
void busy_poll_note(struct busy_poll *b, double us);
/* Would the next wait end while it is awake? */
bool busy_poll_pays(const struct busy_poll *b);
