/* Each thing that the server needs, whether it is there, and what mends it: shared by `sluice doctor` and by the admin's
 * page. Nothing is changed. Any thread; check_database reads the whole file. */
#pragma once
#include <stdbool.h>

struct status_page;
struct store;

enum check_verdict { CHECK_FINE, CHECK_WARNING, CHECK_FAILURE, CHECK__N };

/* One finding: what was looked at, what was found, what to do about it (NULL: nothing). */
typedef void (*check_report)(void *context, enum check_verdict v, const char *what, const char *found, const char *fix);

struct checks {
    check_report report;
    void *context;
};

void check_system(const struct checks *c); /* kernel, memory, file limit */
void check_instructions(const struct checks *c);
void check_sqlite(const struct checks *c);
/* The folder itself, its mode, the room on its disk. False: it can't be used, so what lies in it need not be looked at. */
bool check_state_folder(const struct checks *c, const char *state_dir);
void check_database(const struct checks *c, const char *path);
/* page NULL: it was never started here. */
void check_engine(const struct checks *c, const struct status_page *page);
/* Size of the write-ahead log, and when it was last moved into the database. */
void check_wal(const struct checks *c, struct store *store);
const char *check_verdict_name(enum check_verdict v); /* "ok", "warning", "failed" */
