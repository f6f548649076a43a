/* Names in an answer what its request asked for and this server does not do: in the header
 * x-sluice-ignored (names, separated by commas) and in the member "warnings" ([{"field",
 * "message"}]) of the object or of a stream's first event. Clients send fields of many servers:
 * refusing those would break the client, and dropping them silently would mislead its user.
 *
 * The lists live in the request's arena; at most IGNORED_MAX fields are named, the rest is counted.
 * Thread: the request's. */
#pragma once
#include <stdbool.h>

#include "engine/base/buf.h"
#include "engine/base/err.h"

struct request;

#define IGNORED_MAX 48
#define IGNORED_FIELD_BYTES 64    /* of a field's name; longer ones are cut */
#define IGNORED_MESSAGE_BYTES 160 /* of a message; likewise */

struct ignored_field {
    char field[IGNORED_FIELD_BYTES];
    char message[IGNORED_MESSAGE_BYTES];
    bool dropped; /* without effect; else it was honoured in another way */
};

/* What request_begin zeroes. */
struct ignored {
    struct ignored_field *at; /* NULL until the first one */
    int n;
    int more; /* fields that were not named any more */
};

/* True: `field` is named as ignored in this request's answer. False: parameters are strict here
 * (the server's setting strict_parameters, or the key's): *e is the ERR_UNSUPPORTED that names it.
 * `why` is one clause. */
bool ignored_add(struct request *r, const char *field, const char *why, struct err *e);
/* The same for a value that is honoured in another way ("clamped to high") or that has no effect by
 * its nature: never an error, in strict mode neither. dropped: it stands in x-sluice-ignored too.
 */
void ignored_warn(struct request *r, const char *field, const char *message, bool dropped);
/* Does this request refuse what it does not know? */
bool ignored_strict(const struct request *r);

/* Appends ,"warnings":[...] when there are some, else nothing. */
void ignored_write(struct buf *b, const struct request *r);
/* Adds the header; called where a reply's head is written. */
void ignored_header(struct request *r);
