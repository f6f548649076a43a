/* Tells what a file is, by its bytes (libmagic), and reads the text in it. Nothing here touches the
 * system; main.c does. One thread. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "engine/base/buf.h"

enum content_form {
    CONTENT_REFUSED,
    CONTENT_TEXT,
    CONTENT_DOCUMENT,
    CONTENT_IMAGE,
    CONTENT_FORM__N
};
extern const char *const content_form_names[CONTENT_FORM__N]; /* "text", ... */

enum content_reader { READ_PLAIN, READ_ZIP, READ_PDF, READ_NOTHING };

struct content {
    enum content_form form;
    enum content_reader reader;
    const char *type;   /* media type */
    const char *code;   /* refused: a word of READER_CODES */
    char text[256];     /* refused: why, for people; else a note, or "" */
    char charset[32];   /* READ_PLAIN: as libmagic says it */
    char own_type[128]; /* where `type` may point */
};

/* Always false, so that a refusal is one line. */
bool content_refuse(struct content *c, const char *code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* False: refused, *c says why. */
bool content_detect(const unsigned char *data, size_t len, struct content *c);
/* READ_PLAIN: UTF-8 into out, from whatever it is in. */
bool content_plain(const unsigned char *data, size_t len, struct content *c, struct buf *out);
/* READ_ZIP: DOCX or ODT by what is in it. */
bool content_zip(const unsigned char *data, size_t len, struct content *c, struct buf *out);

/* The XML of a document's body, in pieces. */
enum document_kind { DOCUMENT_DOCX, DOCUMENT_ODT };
struct document;
struct document *document_create(enum document_kind kind, struct buf *out);
bool document_feed(struct document *d, const char *data, size_t len, bool last, struct content *c);
void document_destroy(struct document **d);
