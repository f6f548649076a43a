/* sluice-reader: says what an uploaded file is and gives the text in it. One process per file,
 * started by a worker, because the parsers of foreign formats are where hostile files bite: it sees
 * the file as its standard input, locks itself in (sandbox.h) before it looks at the first byte,
 * and can then write to its standard output and to nothing else.
 *
 * What it writes: one line of JSON, then the text (UTF-8), to the end. Exit status 0: that was all
 * of it.
 *   {"type":"text/csv","form":"text","note":"read as Windows-1252, a guess"}
 *   {"type":"application/pdf","form":"document"}        also "image", without a text
 *   {"refused":"...","type":"application/zip","code":"type"}   nothing follows; codes: READER_CODES
 * Whoever reads this believes none of it beyond its form: the process may have been taken over by
 * the file. */
#pragma once

#define READER_TEXT_BYTES ((size_t)4 << 20) /* of text; a longer one is refused */
#define READER_HEAD_BYTES 1024              /* the first line, at most */
#define READER_CODES                                                                               \
    "type damaged empty large" /* a type that is not taken; can't be read; without text; too much  \
                                  of it */
#define READER_WITHOUT_LANDLOCK                                                                    \
    "--without-landlock" /* its only option: goes on where the kernel has none */
#define READER_CPU_S 15
#define READER_MEMORY_BYTES ((size_t)1 << 30)
/* Files that it and poppler's program read beside libraries and /usr, as members of a list. A
 * process that starts it must leave it these: a child reaches no more than its parent. */
#define READER_FILES                                                                               \
    "/bin", "/etc/fonts", "/etc/magic", "/etc/magic.mgc", "/var/cache/fontconfig",                 \
        "/var/lib/fontconfig"
