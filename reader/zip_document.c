/* DOCX and ODT: ZIP archives with the body as one XML file. Nothing is unpacked but that, and that
 * in pieces. */
#include <string.h>

#include "engine/base/zip_reader.h"
#include "reader/content.h"
#include "reader/reader.h"

#define MAX_ENTRIES 10000
#define MAX_XML_BYTES ((size_t)64 << 20) /* of the body, unpacked: a bomb ends here */

/* "word/document.xml"; some programs number it. */
static bool is_docx_body(const char *name)
{
    if (strncmp(name, "word/document", 13))
        return false;
    name += 13 + strspn(name + 13, "0123456789");
    return !strcmp(name, ".xml");
}

static bool read_body(struct zip_reader *z, enum document_kind kind, struct content *c,
                      struct buf *out)
{
    struct document *d = document_create(kind, out);
    char piece[16384];
    size_t total = 0;
    bool ok = d || content_refuse(c, "damaged", "can't be read: memory ran out");
    for (int64_t n = 1; ok && n;) {
        n = zip_reader_read(z, piece, sizeof piece, NULL);
        if (n < 0)
            ok = content_refuse(c, "damaged", "can't be unpacked: it is damaged or encrypted");
        else if ((total += (size_t)n) > MAX_XML_BYTES)
            ok = content_refuse(c, "large", "unpacks to more than %zu bytes", MAX_XML_BYTES);
        else
            ok = document_feed(d, piece, (size_t)n, n == 0, c);
    }
    document_destroy(&d);
    return ok;
}

/* The body is wherever the archive has it; ODT's name for it counts only after the mark that comes
 * first in an ODT. */
static bool find_body(struct zip_reader *z, struct content *c, struct buf *out)
{
    struct zip_reader_entry entry;
    bool odt = !strcmp(c->type, "application/vnd.oasis.opendocument.text");
    int rc, n = 0;
    while ((rc = zip_reader_next(z, &entry, NULL)) == 1) {
        const char *name = entry.name;
        if (++n > MAX_ENTRIES)
            return content_refuse(c, "damaged", "is an archive of more than %d files", MAX_ENTRIES);
        if (!name)
            continue;
        const bool docx = is_docx_body(name);
        if (!docx && !(odt && !strcmp(name, "content.xml")))
            continue;
        if (entry.encrypted)
            return content_refuse(c, "damaged", "is protected by a password");
        c->type = docx ? "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
                       : c->type;
        return read_body(z, docx ? DOCUMENT_DOCX : DOCUMENT_ODT, c, out);
    }
    if (rc < 0)
        return content_refuse(c, "damaged", "is a damaged archive");
    return strcmp(c->type, "application/zip")
               ? content_refuse(c, "damaged",
                                "has no text body where a document of its type has it")
               : content_refuse(c, "type", "is a ZIP archive; unpack it and attach the files");
}

bool content_zip(const unsigned char *data, size_t len, struct content *c, struct buf *out)
{
    struct zip_reader *z = zip_reader_open_memory(data, len, NULL);
    const bool ok = z ? find_body(z, c, out) : content_refuse(c, "damaged", "is a damaged archive");
    zip_reader_close(&z);
    return ok;
}
