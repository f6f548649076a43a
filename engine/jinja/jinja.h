/* Jinja as chat templates use it: the language of Jinja2 with the environment of transformers
 * (trim_blocks, lstrip_blocks, loop controls, `generation` blocks, a sandbox), rendered with
 * provenance: for each byte of the output it is known whether the template or someone outside wrote
 * it.
 *
 * A compiled template is immutable; jinja_render is thread-safe. Called by chat_template.c and
 * `sluice template`. */
#pragma once
#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "engine/base/err.h"
#include "engine/jinja/rendered.h"

struct jinja;

/* ERR_FORMAT with "line N: ..." when the source is not a template; ERR_LIMIT when it is too large
 * or too deep. */
struct jinja *jinja_compile(const char *source, size_t len, struct err *e);
void jinja_destroy(struct jinja **t);
/* Does the template mention this variable, attribute or method anywhere? */
bool jinja_mentions(const struct jinja *t, const char *name);

struct jinja_variable {
    const char *name;
    const cJSON *json; /* its value; NULL: `text` if that is set, else none */
    const char *text;  /* a string of the server's own (bos_token): trusted */
    bool trusted;      /* json comes from the server, not from a client */
    bool messages;     /* json is the list of messages: a well-known `role` in it is trusted, since
                          templates build special tokens out of it */
};

enum jinja_outcome {
    JINJA_DONE,
    JINJA_RAISED,   /* the template called raise_exception; the text is its message */
    JINJA_RUNTIME,  /* undefined values, wrong types, division by zero ... */
    JINJA_SECURITY, /* an attribute that the sandbox hides */
    JINJA_LIMIT,    /* steps, memory, depth */
    JINJA_NOMEM
};

struct jinja_input { /* the variables outlive the call */
    const struct jinja_variable *variables;
    size_t n_variables;
    struct tm now; /* for strftime_now */
};

/* On failure `out` is empty and e tells why: ERR_INPUT, ERR_LIMIT or ERR_NOMEM. */
enum jinja_outcome jinja_render(const struct jinja *t, const struct jinja_input *in,
                                struct rendered *out, struct err *e);
