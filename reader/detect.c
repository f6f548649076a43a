/* Decides by libmagic what type a file has, and by a table whether files of that type are taken. */
#include <magic.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/utf8.h"
#include "reader/content.h"
#include "reader/reader.h"

const char *const content_form_names[CONTENT_FORM__N] = {"refused", "text", "document", "image"};

bool content_refuse(struct content *c, const char *code, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(c->text, sizeof c->text, fmt, ap);
    va_end(ap);
    c->form = CONTENT_REFUSED;
    c->code = code;
    return false;
}

/* Types that are more than text; the first row that fits. A type that ends in '*' is a beginning.
 */
static const struct type_row {
    const char *type;
    enum content_form form;
    enum content_reader reader;
    const char *refusal;
} rows[] = {
    {"application/pdf", CONTENT_DOCUMENT, READ_PDF, NULL},
    {"application/vnd.openxmlformats-officedocument.wordprocessingml.document", CONTENT_DOCUMENT,
     READ_ZIP, NULL},
    {"application/vnd.oasis.opendocument.text", CONTENT_DOCUMENT, READ_ZIP, NULL},
    {"application/vnd.openxmlformats-officedocument.spreadsheetml*", CONTENT_REFUSED, READ_NOTHING,
     "a spreadsheet; save it as CSV"},
    {"application/vnd.oasis.opendocument.spreadsheet*", CONTENT_REFUSED, READ_NOTHING,
     "a spreadsheet; save it as CSV"},
    {"application/vnd.openxmlformats-officedocument.presentationml*", CONTENT_REFUSED, READ_NOTHING,
     "a presentation; save it as PDF"},
    {"application/vnd.oasis.opendocument.presentation*", CONTENT_REFUSED, READ_NOTHING,
     "a presentation; save it as PDF"},
    {"application/zip", CONTENT_DOCUMENT, READ_ZIP, NULL}, /* perhaps a document after all */
    {"application/msword", CONTENT_REFUSED, READ_NOTHING,
     "an old Word document; save it as DOCX, ODT or PDF"},
    {"application/x-ole-storage", CONTENT_REFUSED, READ_NOTHING,
     "an old Office document; save it as DOCX, ODT or PDF"},
    {"application/CDFV2*", CONTENT_REFUSED, READ_NOTHING,
     "an old Office document; save it as DOCX, ODT or PDF"},
    {"text/rtf", CONTENT_REFUSED, READ_NOTHING, "rich text; save it as DOCX, ODT or PDF"},
    {"application/epub+zip", CONTENT_REFUSED, READ_NOTHING, "an e-book; convert it to PDF or text"},
    {"image/png", CONTENT_IMAGE, READ_NOTHING, NULL},
    {"image/jpeg", CONTENT_IMAGE, READ_NOTHING, NULL},
    {"image/webp", CONTENT_IMAGE, READ_NOTHING, NULL},
    {"image/gif", CONTENT_IMAGE, READ_NOTHING, NULL},
};

static const struct type_row *row_of(const char *type)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        size_t n = strcspn(rows[i].type, "*");
        if (!strncmp(rows[i].type, type, n) && (rows[i].type[n] == '*' || !type[n]))
            return &rows[i];
    }
    return NULL;
}

#define TAKEN "text, PDF, DOCX, ODT, PNG, JPEG, WebP and GIF are taken"

/* A media type is shown and sent as a header: nothing odd in it. */
static bool is_type(const char *t)
{
    size_t n =
        strspn(t, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789!#$&^_.+-/");
    return n == strlen(t) && n < 100 && strchr(t, '/') && strchr(t, '/') == strrchr(t, '/') &&
           t[0] != '/';
}

/* libmagic's word for the bytes under these flags, valid until the next call; NULL: it fails. */
static const char *magic_of(magic_t m, int flags, const unsigned char *data, size_t len)
{
    return magic_setflags(m, flags) == 0 ? magic_buffer(m, data, len) : NULL;
}

static bool ask(magic_t m, int flags, const unsigned char *data, size_t len, struct content *c)
{
    const char *type = magic_of(m, flags | MAGIC_MIME_TYPE, data, len);
    snprintf(c->own_type, sizeof c->own_type, "%s", type ? type : "");
    const char *charset = type ? magic_of(m, flags | MAGIC_MIME_ENCODING, data, len) : NULL;
    snprintf(c->charset, sizeof c->charset, "%s", charset ? charset : "");
    return charset != NULL;
}

/* libmagic takes no stand on a file of a few letters. */
static bool is_plain(const unsigned char *data, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if ((data[i] < ' ' && !strchr("\t\n\r\f", data[i])) || !data[i] || data[i] == 0x7f)
            return false;
    return utf8_valid(data, len) == len;
}

static bool decide(const unsigned char *data, size_t len, struct content *c)
{
    const struct type_row *row = row_of(c->own_type);
    if (row && row->refusal)
        return content_refuse(c, "type", "is %s", row->refusal);
    if (row) {
        c->form = row->form;
        c->reader = row->reader;
        return true;
    }
    const bool unknown = !is_type(c->own_type) || !strcmp(c->own_type, "application/octet-stream");
    const bool binary = !strcmp(c->charset, "binary") && !(unknown && is_plain(data, len));
    if (binary && unknown)
        return content_refuse(c, "type", "is binary data of an unknown kind; " TAKEN);
    if (binary)
        return content_refuse(c, "type", "is of the type %s; " TAKEN, c->own_type);
    c->form = CONTENT_TEXT;
    c->reader = READ_PLAIN;
    if (unknown || !strncmp(c->own_type, "inode/", 6))
        c->type = "text/plain";
    return true;
}

bool content_detect(const unsigned char *data, size_t len, struct content *c)
{
    const int flags = MAGIC_NO_CHECK_COMPRESS | MAGIC_NO_CHECK_ELF | MAGIC_ERROR;
    *c = (struct content){.type = c->own_type};
    if (!len)
        return content_refuse(c, "empty", "is empty");
    magic_t m = magic_open(flags);
    bool ok = m && magic_load(m, NULL) == 0 && ask(m, flags, data, len, c);
    if (m)
        magic_close(m);
    /* libmagic 5.46 knows no more than some archives by what is in them; what else begins so is
     * looked into all the same. */
    if (ok && len > 4 && !memcmp(data, "PK\3\4", 4) &&
        !strcmp(c->own_type, "application/octet-stream"))
        snprintf(c->own_type, sizeof c->own_type, "application/zip");
    return ok ? decide(data, len, c) : content_refuse(c, "damaged", "can't be recognised");
}
