/* sluice-reader --unzip: lists and unpacks a ZIP archive for whoever imports it, entry by entry and
 * block by block, as it is asked. Standard input is the archive, a file; standard output is a
 * socket, on which one byte is an order and one frame, with the bytes that it announces, the reply.
 * The process opens no file at all, so it needs no Landlock; it ends when the socket does.
 *
 * Whoever reads this believes none of it beyond its form: lengths are checked against the bounds
 * below, and names and sizes are a stranger's word. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define UNZIP_OPTION "--unzip"
#define UNZIP_BLOCK 65536 /* bytes that one reply holds, at most */
#define UNZIP_NAME 4096   /* bytes of a name, at most */
#define UNZIP_CPU_S 900   /* for 16 GiB of contents, on a slow machine */
#define UNZIP_MEMORY_BYTES ((size_t)1 << 30)

enum unzip_order { UNZIP_NEXT = 'n', UNZIP_READ = 'r' };

enum unzip_reply {
    UNZIP_ENTRY,   /* NEXT: an entry; its name follows */
    UNZIP_DATA,    /* READ: of this entry; no bytes: it is at its end */
    UNZIP_END,     /* NEXT: there are no more */
    UNZIP_DAMAGED, /* either; why follows, in words */
    UNZIP__N
};
enum unzip_flags {
    UNZIP_REGULAR = 1,  /* ENTRY: a file, neither a folder nor a link */
    UNZIP_NAMELESS = 2, /* ENTRY */
    UNZIP_WHOLE = 4,    /* DAMAGED: the archive, not only this entry */
};
struct unzip_frame {
    uint32_t reply, flags;
    uint32_t len; /* bytes that follow */
    uint32_t zero;
    int64_t size; /* ENTRY: unpacked, as the archive says */
    int64_t at;   /* how far the archive has been read */
};

/* Locks the process in: no file may be opened, nothing run, nothing sent but on what is open.
 * False: *why says what the system refused. */
bool unzip_lock_in(const char **why);
/* Serves until the socket ends; the exit status. */
int unzip_serve(int archive, int socket);
