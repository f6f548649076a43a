/* Waiting awake for what came soon of late. A process that sleeps costs its peer a wake-up, and
 * where the kernel has halted the core meanwhile (a virtual machine's, above all) 30 to 60 us; one
 * that yields its core instead lets the peer run on it and goes on without. Where waits are longer
 * than a few hundred microseconds, as for any answer that is computed, nothing is done awake; and
 * what was waited awake in vain is at most 2 % of the time that passes. Several waits may run at
 * once. One thread owns it. */
#pragma once
#include <stdbool.h>

#define BUSY_POLL_US 400.0 /* longer waits are slept through */
/* Where one request follows another, and that one took longer, a wake-up is nothing beside it: the
 * wait between them is slept through. */
#define BUSY_POLL_AFTER_MS 2.0

struct busy_poll {     /* zeroed: nothing is known, and every wait sleeps */
    double usual_us;   /* how long waits took, the last ones most; 0: not known */
    double credit_us;  /* that may yet be waited in vain */
    double counted_ms; /* clock_ms until which the credit has grown */
};

/* A wait begins: does it pay to be awake, at first? Then it counts as one in vain until its end
 * says otherwise. */
bool busy_poll_begin(struct busy_poll *b, double now_ms);
/* After a wait that was not given up. awake: what its beginning said. A core that others keep busy
 * makes waits long too: who yields it gets it back late, and sleeps the next times. */
void busy_poll_end(struct busy_poll *b, bool awake, double us);
