/* The last layer computes what is asked for: once keys and values of all rows are kept, only those
 * go on whose logits or hidden state somebody wants. Of a prompt that is its last row, of a chunk
 * before its end none. */
#pragma once
#include "engine/cpu/cpu_worker.h"

/* Rows of those that are there with which this layer will end: its experts see no others. */
int32_t wanted_rows_left(const struct backend *b, int32_t layer);
/* Whether that is fewer. */
bool wanted_rows_fewer(const struct backend *b, int32_t layer);
/* Whether this row is among them. */
bool wanted_rows_stays(const struct backend *b, int32_t layer, int32_t row);
/* Leaves the wanted rows in b->x and b->rows, one behind the other. Ends with a barrier. */
void wanted_rows_leave(struct worker *w);
/* Rows of the step's sequence i that are there. */
int32_t wanted_rows_of(const struct backend *b, int32_t i);
