/* What inferences used, into the store's counters per user, key and day.
 *
 * Counted: each prompt once, though n answers were asked for, and each generated token. An answer that was broken off
 * (by its client, by the engine) counts its prompt as far as it was read, whole once a token came, and the tokens that
 * had arrived. While it runs the figures stand in the process's slot in shared memory; what a killed process leaves
 * there the next one that looks counts. Lost is only what both the database and the shared memory lose: a power cut. */
#pragma once
#include "engine/engine.h"

struct inference;
struct request;
struct shared;
struct store;

/* So far: as the engine said where it has ended, else as seen. */
struct engine_usage usage_so_far(const struct inference *x);
/* Into the slot. Cheap: after each batch of events. */
void usage_track(const struct inference *x);
/* At the end, once; also fills the log's fields of the request. A failure is logged. Nothing for an inference that the
 * engine never took. */
void usage_note(struct inference *x);
/* Counts what dead processes of the stream pool left in their slots. store NULL: nothing happens. */
void usage_sweep(struct shared *s, struct store *store);
