/* Database maintenance that the recorder does beside writing answers: it checkpoints the WAL and
 * truncates it now and then, and removes deleted content from the database file, the WAL and the
 * folders of attachments, and once an hour the rows of the audit log that are older than the
 * setting audit_days allows. It works in short steps, because answers wait meanwhile. Thread: the
 * recorder's. Times are clock_ms. */
#pragma once
#include <stdbool.h>

struct store;

struct db_maintenance {
    struct store *store;
    bool cleared;    /* deleted rows were erased, but the WAL still holds their content */
    int next_folder; /* the attachments' folder to sweep next */
    double next_checkpoint, next_truncate, next_clear, next_audit;
};

/* The store belongs to the caller and must outlive *m. */
void db_maintenance_init(struct db_maintenance *m, struct store *s, double now);
/* Does what is due. busy: answers are running. */
void db_maintenance_run(struct db_maintenance *m, bool busy, double now);
/* When something is due next. */
double db_maintenance_next(const struct db_maintenance *m);
/* Something may have been deleted: the next run looks for it at once. */
void db_maintenance_request(struct db_maintenance *m);
/* Truncates the WAL when the recorder ends. */
void db_maintenance_finish(struct db_maintenance *m);
