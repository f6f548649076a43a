/* What a request used, into the log's fields and the store's counters. */
#pragma once

struct request;
struct inference;

/* After the reply, so that nobody waits for the database. A failure is logged. */
void usage_note(struct request *r, const struct inference *x);
