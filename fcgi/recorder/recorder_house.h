/* What the recorder does for the database beside writing answers: the WAL is checked in, and emptied now and then; what was
 * deleted goes from the file, the WAL and the folders of attachments. In short steps, since answers wait meanwhile. The
 * recorder's thread. Times are clock_ms. */
#pragma once
#include <stdbool.h>

struct store;

struct house {
    struct store *store;
    bool cleared;    /* rows were, and the WAL still holds what stood in them */
    int next_folder; /* of the attachments' to sweep */
    double next_checkpoint, next_truncate, next_clear;
};

/* The store is the caller's and outlives the house. */
void house_init(struct house *h, struct store *s, double now);
/* What is due; busy: answers are running. */
void house_keep(struct house *h, bool busy, double now);
/* When something is due next. */
double house_next(const struct house *h);
/* Something may have been removed: it is looked for at once. */
void house_hurry(struct house *h);
/* The WAL is emptied, at the end. */
void house_leave(struct house *h);
