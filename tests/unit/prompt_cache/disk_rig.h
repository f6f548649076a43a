/* A disk cache in a folder of its own, records whose content follows from their number, and the
 * rows that a recorder would keep of them. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/cache/disk/disk_cache.h"

#define RIG_BLOCK 3000u
#define RIG_STATE 5000u
#define RIG_IDENTITY 0xfeedu
#define RIG_ROWS 4096

struct disk_rig {
    char dir[64];
    struct record_feed *feed;
    struct disk_cache *cache;
    uint64_t ram_budget;                 /* of the next disk_rig_open */
    struct prompt_seal seal;             /* of what is written and loaded */
    struct stored_ref rows[RIG_ROWS];    /* by record; place.bytes 0: there is none */
    uint64_t read;                       /* number of the last event that was read */
    int32_t gone, forgotten, reconciled; /* events, since they were last looked at */
};

void disk_rig_init(struct disk_rig *g);
void disk_rig_open(struct disk_rig *g, uint64_t budget, uint64_t identity);
void disk_rig_close(struct disk_rig *g);
void disk_rig_kill(struct disk_rig *g); /* nobody reads the events that wait */
void disk_rig_fini(struct disk_rig *g); /* and removes the folder */
/* Record i continues record i - 1, except that every 64th begins a chain of its own. */
void disk_rig_about(int32_t i, struct record_about *about);
bool disk_rig_has_state(int32_t i);
unsigned char disk_rig_byte(int32_t i, uint32_t at); /* of its content */
/* True: it was handed over. */
bool disk_rig_write(struct disk_rig *g, int32_t i);
/* Reads events into rows, and acknowledges them. */
void disk_rig_read_events(struct disk_rig *g);
void disk_rig_settle(struct disk_rig *g); /* waits until all that was handed over has ended */
void disk_rig_write_many(struct disk_rig *g, int32_t first, int32_t n); /* and settles */
/* Closes and opens it, as a restart does. */
void disk_rig_again(struct disk_rig *g, uint64_t budget, uint64_t identity);
/* Loads n records from i on by rows; how many came, each checked byte by byte. */
int32_t disk_rig_load(struct disk_rig *g, int32_t i, int32_t n);
void disk_rig_forget(struct disk_rig *g, int32_t i);
void disk_rig_reconcile(struct disk_rig *g);
struct disk_counters disk_rig_counters(struct disk_rig *g);
/* The file that a record is in. */
void disk_rig_path(const struct disk_rig *g, int32_t i, char path[160]);
/* Bytes that this file takes on the disk. */
uint64_t disk_rig_blocks(const struct disk_rig *g, int32_t i);
