/* How long write transactions keep others waiting. One that held the database for long is logged
 * with the statement that took most of it and what the processor worked (the rest is the disk's,
 * or of others who had the processor), and so is one that others kept waiting for long: the
 * operator sees what the one and the other were. */
#pragma once
#include <stdbool.h>

#include "sql/core/statement.h"

#define WRITE_LONG_MS 250.0  /* held so long, or waited for ... */
#define WRITE_SOME_MS 50.0   /* ... and so long: for who looks for the cause, at level debug */
#define WRITE_EVERY_MS 1000. /* one warning in so long, of each connection */

void write_watch_ask(struct store *s);             /* the lock is asked for */
void write_watch_begin(struct store *s, bool got); /* it is ours, or not to be had */
/* A statement was stepped since `from` (clock_ms). */
void write_watch_step(struct store *s, const sqlite3_stmt *q, double from);
void write_watch_end(struct store *s);
