/* What answers used, on its way into the database: a process adds it to its row of shared memory,
 * which costs no commit, and the row is counted once a second by the recorder, and before that by
 * whoever asks for figures or comes near a limit. So an answer's client never waits for the disk,
 * and what is there is there for all. A process that is killed leaves its row to the others. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/err.h"

struct shared;
struct shared_child;
struct store;
struct store_usage;

/* slot: this process's, when it serves one request at a time; NULL: the row is counted at once. */
bool usage_ledger_add(struct shared_child *slot, struct store *store, const struct store_usage *row,
                      struct err *e);
/* Was the slot's present answer added? Of a slot whose process is dead. */
bool usage_ledger_has(const struct shared_child *slot);
/* Is the slot's present answer still this one, of a process that is dead? While somebody looks, the
 * next process may have taken it over and begun its own. */
bool usage_ledger_is_left(const struct shared_child *slot, uint64_t answer);
/* Takes over this answer of a slot whose process is dead, unless another was faster: it stands in
 * the slot's row from then on, so that who takes it may be killed as well. False: there is no room,
 * and nothing has changed. */
bool usage_ledger_adopt(struct shared_child *slot, uint64_t answer, const struct store_usage *row);
/* Counts what stands in the rows of all processes. False (*e): it can't be written, and stays
 * there. store NULL: nothing happens. Any thread. */
bool usage_ledger_count(struct shared *s, struct store *store, struct err *e);

struct usage_of {
    int64_t user_id, day;
};
/* The user's tokens of a day that are still to be counted, or just being counted. */
int64_t usage_ledger_due(struct shared *s, const struct usage_of *of);
/* The user's tokens of a day, those included that are still to be counted. */
bool usage_ledger_used(struct shared *s, struct store *store, const struct usage_of *of,
                       int64_t *tokens, struct err *e);
