/* A file given to sluice-reader (reader/reader.h): what it is, and its text. What the reader says
 * is checked here as if a stranger said it. Any thread; a file may take a core and a gigabyte, so
 * callers pass the gate of slow work (WORK_FILE) where others share their process. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "engine/base/buf.h"
#include "engine/base/err.h"

enum file_form { FILE_TEXT, FILE_DOCUMENT, FILE_IMAGE, FILE_FORM__N };

struct file_reading { /* zeroed = empty; owner calls file_reading_fini */
    enum file_form form;
    char type[128];    /* media type */
    char note[160];    /* how it was read, in words; "": nothing to say */
    struct buf text;   /* UTF-8 without NUL, lines ended by \n; not of images */
    bool refused_type; /* with ERR_UNSUPPORTED: such files are not taken at all */
};

/* fd: a file, read from its beginning; best one that can't be written. client: the connection of
 * who waits for it, whose end ends the reading (ERR_CANCELLED); -1: none. ERR_UNSUPPORTED: of a
 * type that is not taken; ERR_INPUT: damaged, protected, without text; ERR_LIMIT: too much text,
 * time or memory. The words go well after the file's name.
 * without_landlock: also where the kernel has none, which hides other files from the reader. */
bool file_reading_run(int fd, int client, bool without_landlock, struct file_reading *out,
                      struct err *e);
void file_reading_fini(struct file_reading *f);
