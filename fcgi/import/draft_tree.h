/* The order of a draft's nodes: for draft.c and its tests. */
#pragma once
#include <stdbool.h>

#include "fcgi/import/draft.h"

/* The nodes that are not hidden, parents before children, else by time and then as they came, as
 * d->out.messages (also *messages, to be written to) with d->out.leaf. ERR_INPUT: an id twice, a
 * parent that is not there, a circle, a second root where d->one_root. */
bool draft_order(struct draft *d, struct store_import_message **messages, struct err *e);
