/* Counts the tokens that inferences use, per user, key and day, in the database.
 *
 * Each prompt counts once, even when n answers were requested, and so does each generated token.
 * For an answer that was broken off (by its client or by the engine) the part of the prompt that
 * was read counts (all of it once a token came; where another server was asked, all of it as it was
 * estimated), and the tokens that arrived. While an inference
 * runs, its figures stand in the process's slot in shared memory; the next process that looks
 * counts what a killed one left there. Figures are lost only when the database and the shared
 * memory both are: in a power cut. */
#pragma once
#include "engine/engine.h"

struct inference;
struct request;
struct shared;
struct store;

/* The tokens so far: by the engine's count where a choice has ended, else those that arrived. */
struct engine_usage usage_so_far(const struct inference *x);
/* Writes them into the slot. It is cheap enough to do after each batch of events. */
void usage_track(const struct inference *x);
/* Adds them to what is to be counted (usage_ledger.h), once, and fills the log's fields of the
 * request. A failure is logged. An inference that the engine never accepted counts nothing. */
void usage_note(struct inference *x);
/* The same for a request without an answer: texts that were embedded or scored. */
void usage_note_texts(struct request *r, int64_t tokens);
/* Counts what the stream pool's ended answers used, and what dead processes left in their slots.
 * store NULL: nothing happens. */
void usage_sweep(struct shared *s, struct store *store);
/* The second of the two alone: a process that begins waits for no other's figures. */
void usage_sweep_dead(struct shared *s, struct store *store);
