/* The one way that a function says why it failed.
 *
 * A fallible function returns bool (or a pointer, NULL on failure) and takes `struct err *` last.
 * The text says what, where, expected against found; it is shown to people and sent to clients, so
 * it never holds prompts, keys or paths that a client did not name itself. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

enum err_code {
    ERR_NONE,
    ERR_NOMEM,       /* memory ran out */
    ERR_FORMAT,      /* a file is not what it claims to be */
    ERR_IO,          /* the system refused a read, a write, a connection */
    ERR_DEVICE,      /* the GPU or its driver failed */
    ERR_BUSY,        /* a bounded queue is full; try again later */
    ERR_LIMIT,       /* over a stated limit (size, context length, rate) */
    ERR_AUTH,        /* who are you */
    ERR_FORBIDDEN,   /* known, but not allowed */
    ERR_NOTFOUND,    /* no such thing, or not yours */
    ERR_CONFLICT,    /* the thing changed or exists already */
    ERR_INPUT,       /* the request is wrong; `field` names where */
    ERR_CANCELLED,   /* someone asked to stop */
    ERR_UNAVAILABLE, /* the engine is down or still loading */
    ERR_UNSUPPORTED, /* right in itself, but not done here */
    ERR_INTERNAL,    /* our own fault */
    ERR_FULL,        /* the disk has no room, or a quota on it */
    ERR_READ_ONLY,   /* the disk takes no writes: mounted read-only, as after an error of its own */
    ERR__N
};

struct err {
    enum err_code code;
    char field[64]; /* request field, option or tensor that is at fault; "" for none */
    char text[320];
    /* For programs that say it in words of their own, as the page does in each language: what
     * happened, more exactly than `code` ("answer_running"; "" when `code` says it all), and the
     * numbers that belong to it, as members of a JSON object ("limit":100). */
    char reason[32];
    char params[160];
};

/* Always returns false, so that a failure is one line. A NULL `e` is allowed. */
bool err_set(struct err *e, enum err_code code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* The same, naming the field (dotted path, such as "messages[2].content"). */
bool err_field(struct err *e, enum err_code code, const char *field, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* Adds to a failure that was just set: its reason, and a number that belongs to it. Both always
 * return false. What does not fit is left out whole. */
bool err_reason(struct err *e, const char *reason);
bool err_param(struct err *e, const char *name, int64_t value);
/* Puts "prefix: " before the text that is there. Always returns false. */
bool err_prefix(struct err *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Appends ": strerror(errno)" after the formatted text, code ERR_IO (ERR_NOTFOUND for ENOENT,
 * ERR_NOMEM for ENOMEM, ERR_FULL for ENOSPC and EDQUOT, ERR_READ_ONLY for EROFS). */
bool err_errno(struct err *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

const char *err_code_name(enum err_code code);
