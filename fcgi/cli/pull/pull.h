/* sluice pull: what its parts share. A pull makes OUT from a hub's files in a stage folder,
 * OUT.part:
 *
 *   ask      the list of files, then each file's size and hash               pull_list.c,
 * pull_hub_list.c, pull_http.c load     ranges of several files at once into NAME.part pull_http.c
 *   verify   size and sha256 of what is on the disk, in a thread of its own  pull_verify.c
 *   install  the stage becomes OUT by one rename                             pull_disk.c
 *
 * The stage holds a manifest of what is there, so that the next run resumes where this one was cut
 * off. One thread owns all of it except the file that the verifier is reading. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "engine/base/buf.h"
#include "engine/base/err.h"
#include "sql/core/digest.h"

enum {
    PULL_FILES_MAX = 10000,
    PULL_SEGMENTS_MAX = 1 << 16, /* about, of all files: --segment grows with them */
    PULL_NAME_MAX = 512,
    PULL_PATH_SIZE = 4096,
    PULL_REPO_SIZE = 256,
    PULL_LIST_MAX = 64 << 20, /* bytes of the hub's answer */
    PULL_TRIES = 6,           /* failures of one range in a row, without a byte between them */
    PULL_RESTARTS = 2,        /* of one file from its first byte */
};
#define PULL_SIZE_MAX ((int64_t)1 << 44)
#define PULL_MANIFEST ".sluice-pull.json"

enum pull_state {
    PULL_ASK,
    PULL_ASKED,
    PULL_LOAD,
    PULL_VERIFY,
    PULL_READY /* in the stage */,
    PULL_KEPT /* in OUT */
};

struct pull_segment {        /* one request's worth of a file */
    int64_t start, len, got; /* got: bytes on the disk, from start on */
    uint64_t not_before;     /* clock_ns: a failed one waits */
    int fails;
    bool active;
};

struct pull_file {
    char *name;
    int64_t size;                             /* -1: not known yet */
    char etag[128], sha256[DIGEST_TEXT_SIZE]; /* "": the hub gives none */
    enum pull_state state;
    struct pull_segment *segments;
    size_t n_segments;
    struct pull_segment ask; /* the HEAD request's tries */
    int n_active, fd, restarts;
    bool restart;     /* from its first byte, once its requests have ended */
    bool whole;       /* the hub knows no ranges of it: one request */
    bool renamed_url; /* url replaces the ordinary address of the HEAD request */
    char url[2048];
};

struct pull {
    const char *endpoint, *repo, *revision, *include, *out, *proxy;
    const char *progress; /* file that says how far it is; NULL: none */
    const char *quant;    /* only the GGUF files of it ("": of a usual one); NULL: every file */
    const char *chosen;   /* the usual one that was taken for ""; NULL: it did not need one */
    /* Called when each file's size is known and nothing of them was loaded; *more false: enough. */
    bool (*before)(void *context, struct pull *p, bool *more, struct err *e);
    void *before_context;
    char token[1024];
    int64_t jobs, segment_bytes, timeout_s;
    char commit[128]; /* what the revision stands for now: all files come from it */
    char stage[4096];
    struct pull_file *files;
    size_t n_files;
    int lock;                 /* of the stage; -1 */
    bool planned, quiet;      /* quiet: standard output is for who called */
    const volatile int *stop; /* set by a signal */
};

/* ---- pull_run.c */
void pull_catch_signals(struct pull *p); /* they set *p->stop */
bool pull_check_endpoint(const char *url, struct err *e);
/* OUT and its stage: p->out, else a folder called name. out is the caller's memory for p->out. */
bool pull_set_folders(struct pull *p, char *out, size_t size, const char *name, struct err *e);
/* All of it; what was loaded before resumes. pull_disk_close is the caller's. */
bool pull_run(struct pull *p, struct err *e);

/* ---- pull_choose.c */
/* Leaves of p's files those of one quantization; ERR_NOTFOUND names what there is. */
bool pull_choose(struct pull *p, const char *quant, struct err *e);

/* ---- pull_list.c */
struct pull_repo {
    char repo[PULL_REPO_SIZE], revision[PULL_REPO_SIZE]; /* "OWNER/NAME", "main" */
    const char *name;                                    /* points into repo: its last part */
};
/* Splits "OWNER/NAME[@REV]" and checks the parts. */
bool pull_repo_split(const char *text, struct pull_repo *out, struct err *e);
/* A relative path that stays below the folder it is put in, with nothing that could deceive a
 * terminal. */
bool pull_name_ok(const char *name);
/* Fills files and commit from the hub's JSON. */
bool pull_list_read(struct pull *p, const char *json, size_t len, struct err *e);
/* Appends the hub's address, without slashes at its end. */
void pull_url_begin(const struct pull *p, struct buf *b);
/* The address of the list (name NULL) or of a file. Caller frees; NULL: no memory. */
char *pull_url(const struct pull *p, const char *name);
/* 64 hexadecimal digits to lower case in out; false leaves it alone. */
bool pull_sha256_text(const char *text, char out[DIGEST_TEXT_SIZE]);

/* ---- pull_hub_list.c, pull_http.c */
/* False: stopped meanwhile. */
bool pull_wait(const struct pull *p, double s);
/* The hub's answer to one request, asked again where that may help; *body is the caller's to free.
 */
bool pull_http_get(struct pull *p, const char *url, struct buf *body, struct err *e);
bool pull_http_list(struct pull *p, struct err *e); /* list and commit */
bool pull_http_ask(struct pull *p, struct err *e);  /* each file's size, ETag and hash */
/* Loads, verifies and stages all that is not there. ERR_CANCELLED when stopped. */
bool pull_http_load(struct pull *p, struct err *e);

/* ---- pull_disk.c */
/* Whether OUT is free for this repository: it holds nothing that was pulled from another. Names of
 * folders have no owner in them, and one's files must not become another's. ERR_CONFLICT. */
bool pull_disk_is_of(const char *out, const char *repo, struct err *e);
/* What is in OUT or in the stage already decides each file's state; makes and locks the stage if it
 * is needed. */
bool pull_disk_plan(struct pull *p, int64_t *missing, struct err *e);
bool pull_disk_space(const struct pull *p, int64_t missing, struct err *e);
bool pull_disk_prepare(struct pull *p, struct pull_file *f,
                       struct err *e); /* NAME.part is open, segments are made */
bool pull_disk_write(struct pull_file *f, int64_t at, const void *data, size_t len, struct err *e);
bool pull_disk_save(struct pull *p, struct err *e); /* data first, then the manifest */
bool pull_disk_staged(struct pull *p, struct pull_file *f,
                      struct err *e);       /* NAME.part becomes NAME */
void pull_disk_forget(struct pull_file *f); /* its bytes are worth nothing */
bool pull_disk_install(struct pull *p, struct err *e);
void pull_disk_close(struct pull *p);
/* FOLDER/NAMETAIL. */
bool pull_disk_path(const char *folder, const char *name, const char *tail,
                    char out[PULL_PATH_SIZE], struct err *e);

/* ---- pull_verify.c: one thread that hashes finished files */
struct pull_verify;
struct pull_verify *pull_verify_create(void (*wake)(void *), void *context);
void pull_verify_destroy(struct pull_verify **v); /* leaves what it is at */
/* The verifier reads f's path alone; f stays the caller's. */
bool pull_verify_put(struct pull_verify *v, struct pull_file *f, const char *path);
/* A file that is done; sum is "" when it could not be read (and *e says why). NULL: none now. */
struct pull_file *pull_verify_take(struct pull_verify *v, char sum[DIGEST_TEXT_SIZE],
                                   struct err *e);
bool pull_sha256_file(const char *path, const volatile int *stop, char sum[DIGEST_TEXT_SIZE],
                      struct err *e);

/* ---- pull_progress.c */
struct pull_progress {
    struct {
        uint64_t ns;
        int64_t got;
    } past[32]; /* of the last seconds, for the rate */
    int n_past;
    uint64_t shown, told;
    FILE *to; /* standard output, or error where that is for who called */
    bool terminal, drawn;
    int64_t total, got; /* bytes of all files to load; of them on the disk */
    int64_t fresh;      /* received by this run, also what had to be thrown away */
    size_t n_files, n_done;
};
void pull_progress_begin(struct pull_progress *g, const struct pull *p);
/* Draws when it is time for it (or at once). */
void pull_progress_show(struct pull_progress *g, const struct pull *p, bool now);
/* A whole line of text that the bar must not run into. */
void pull_progress_say(struct pull_progress *g, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
void pull_progress_end(struct pull_progress *g);
/* The last word of the progress file: all is there. */
void pull_progress_done(const struct pull *p);
