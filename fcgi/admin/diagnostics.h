/* Diagnostics: looks at each thing that the server needs and reports how to mend what is wrong.
 * `sluice doctor` and the admin's page share it. Nothing is changed. Any thread;
 * diagnostics_database reads the whole file. */
#pragma once
#include <stdbool.h>

struct status_page;
struct store;

enum diagnostics_verdict {
    DIAGNOSTICS_OK,
    DIAGNOSTICS_WARNING,
    DIAGNOSTICS_FAILURE,
    DIAGNOSTICS__N
};

/* One finding, in English and by a code, so that the page has words of its own for it. */
struct diagnostics_finding {
    enum diagnostics_verdict verdict;
    const char *what;  /* was looked at: "disk" */
    const char *code;  /* of what was found: "disk"; NULL: English alone has it */
    const char *found; /* the same in words: "12 GB free" */
    const char *fix;   /* what to do about it; NULL: nothing */
    const char *text;  /* what the words depend on: a name, a path, an error; NULL: nothing */
    double n;          /* likewise a count, bytes or seconds; 0 where there is none */
};
typedef void (*diagnostics_report_fn)(void *context, const struct diagnostics_finding *f);

struct diagnostics {
    diagnostics_report_fn report;
    void *context;
};

/* Reports a finding; of what is fine without its fix. */
void diagnostics_say(const struct diagnostics *c, struct diagnostics_finding f);
void diagnostics_system(const struct diagnostics *c); /* kernel, memory, file limit */
void diagnostics_instructions(const struct diagnostics *c);
void diagnostics_sqlite(const struct diagnostics *c);
/* The folder itself, its mode, the room on its disk. False: it can't be used, so what lies in it
 * need not be looked at. */
bool diagnostics_state_folder(const struct diagnostics *c, const char *state_dir);
void diagnostics_database(const struct diagnostics *c, const char *path);
/* page NULL: the engine was never started here. */
void diagnostics_engine(const struct diagnostics *c, const struct status_page *page);
/* Size of the write-ahead log, and when it was last moved into the database. */
void diagnostics_wal(const struct diagnostics *c, struct store *store);
const char *diagnostics_verdict_name(enum diagnostics_verdict v); /* "ok", "warning", "failed" */
