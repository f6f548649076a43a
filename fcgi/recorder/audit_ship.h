/* Ships the audit log as JSON lines, the members of /api/admin/audit: to a file, to standard output
 * ("-") or to the machine's log ("syslog"). A cursor in the database says how far it is.
 *
 * A file is opened by its name for each batch, so it may be rotated by renaming at any time. It
 * gets each row exactly once, whenever the process is killed: with the cursor stands which file was
 * written and how long it was, so the next one finds what was written after the cursor, in the file
 * or where it was moved to in its folder. The other two may see the last batch again after a kill.
 * What can't be written is tried again; nothing is skipped. Thread: the recorder's; it never waits
 * for a reader. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

struct store;

struct audit_ship {
    struct store *store;
    const char *target; /* NULL: nowhere */
    bool ready;         /* the cursor was read */
    bool failing;       /* and the log says why */
    double next;        /* clock_ms */
    int64_t id;         /* of the last row that was shipped */
    uint64_t dev, ino;  /* of the file that it went to; 0: none */
    int64_t size;       /* of that file after it */
};

void audit_ship_init(struct audit_ship *a, struct store *s, const char *target);
/* Ships what is due. */
void audit_ship_run(struct audit_ship *a, double now);
