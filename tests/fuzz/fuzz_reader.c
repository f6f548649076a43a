/* What sluice-reader does with a file: as plain text, as an archive, and as a document's XML in
 * pieces. Without libmagic, which is others' to fuzz: its verdict comes from the first byte. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/utf8.h"
#include "reader/content.h"
#include "reader/reader.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_xml(enum document_kind kind, const uint8_t *data, size_t size, struct content *c,
                     struct buf *out)
{
    struct document *d = document_create(kind, out);
    size_t piece = 1 + size / 3;
    bool ok = d != NULL;
    for (size_t at = 0; ok && at < size; at += piece)
        ok = document_feed(d, (const char *)data + at, at + piece < size ? piece : size - at,
                           at + piece >= size, c);
    document_destroy(&d);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const charsets[] = {"us-ascii", "utf-8", "utf-16le", "iso-8859-1"};
    struct buf out = {0};
    if (!size)
        return 0;
    struct content c = {.type = data[0] & 4 ? "application/zip"
                                            : "application/vnd.oasis.opendocument.text"};
    strcpy(c.charset, charsets[data[0] & 3]);
    const int what = data[0] >> 6;
    data++;
    size--;
    bool ok = true;
    if (what == 0)
        ok = content_plain(data, size, &c, &out);
    else if (what == 1)
        content_zip(data, size, &c, &out);
    else
        read_xml(what == 2 ? DOCUMENT_DOCX : DOCUMENT_ODT, data, size, &c, &out);
    if (out.len > READER_TEXT_BYTES ||
        (ok && out.len && utf8_valid((const unsigned char *)out.data, out.len) != out.len))
        abort();
    buf_fini(&out);
    return 0;
}
