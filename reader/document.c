/* Reads the words of a document's XML by expat. No document type declaration is taken, so there are
 * no entities to expand and nothing outside to fetch. */
#include <expat.h>
#include <stdlib.h>
#include <string.h>

#include "reader/content.h"
#include "reader/reader.h"

#define MAX_DEPTH 512
#define SEPARATOR '|' /* "namespace|name" */

struct document {
    XML_Parser parser;
    enum document_kind kind;
    struct buf *out;
    int depth;
    int skip_from; /* depth of the element whose inside does not count; 0: none */
    int text_from; /* depth of the outermost element whose characters are words; 0: none */
    bool declares, too_deep;
};

/* Elements, by namespace's end and name. */
enum action { SKIP = 1, TEXT, LINE, TAB, SPACES, HEADING, END_LINE, END_CELL };
struct element_row {
    const char *space, *name;
    enum action begin, end;
};
#define WORD "/main" /* .../wordprocessingml/2006/main and .../wordprocessingml/main */
static const struct element_row docx_rows[] = {
    {WORD, "t", TEXT, 0},
    {WORD, "tab", TAB, 0},
    {WORD, "br", LINE, 0},
    {WORD, "cr", LINE, 0},
    {WORD, "noBreakHyphen", 0, 0},
    {WORD, "p", 0, END_LINE},
    {WORD, "tc", 0, END_CELL},
    {WORD, "tr", 0, END_LINE},
    {WORD, "tabs", SKIP, 0}, /* stops of tabs, not tabs */
    {WORD, "del", SKIP, 0},
    {WORD, "moveFrom", SKIP, 0},                        /* tracked: no longer there */
    {"markup-compatibility/2006", "Fallback", SKIP, 0}, /* the same again, for older programs */
    {0}};
static const struct element_row odt_rows[] = {{":text:1.0", "p", TEXT, END_LINE},
                                              {":text:1.0", "h", TEXT, END_LINE},
                                              {":text:1.0", "tab", TAB, 0},
                                              {":text:1.0", "line-break", LINE, 0},
                                              {":text:1.0", "s", SPACES, 0},
                                              {":table:1.0", "table-cell", 0, END_CELL},
                                              {":table:1.0", "table-row", 0, END_LINE},
                                              {":text:1.0", "tracked-changes", SKIP, 0},
                                              {":office:1.0", "annotation", SKIP, 0},
                                              {0}};

static bool ends_with(const char *text, size_t len, const char *end)
{
    size_t n = strlen(end);
    return len >= n && !memcmp(text + len - n, end, n);
}

static const struct element_row *row_of(const struct document *d, const char *full)
{
    const char *name = strrchr(full, SEPARATOR);
    if (!name)
        return NULL;
    for (const struct element_row *r = d->kind == DOCUMENT_DOCX ? docx_rows : odt_rows; r->name;
         r++)
        if (!strcmp(r->name, name + 1) && ends_with(full, (size_t)(name - full), r->space))
            return r;
    return NULL;
}

/* A cell's paragraph ends the line before the cell does: one separator, not two. */
static void end_line(struct document *d, char mark)
{
    struct buf *b = d->out;
    if (mark == '\t' || (b->len && b->data[b->len - 1] == '\t'))
        while (b->len &&
               (b->data[b->len - 1] == '\n' || (mark == '\n' && b->data[b->len - 1] == '\t')))
            b->data[--b->len] = '\0';
    buf_putc(b, mark);
}

static void put_spaces(struct document *d, const char **attributes)
{
    long n = 1;
    for (; *attributes; attributes += 2)
        if (ends_with(attributes[0], strlen(attributes[0]), "|c"))
            n = strtol(attributes[1], NULL, 10);
    for (n = n < 1 ? 1 : n > 1000 ? 1000 : n; n > 0; n--)
        buf_putc(d->out, ' ');
}

static void on_begin(void *context, const char *name, const char **attributes)
{
    struct document *d = context;
    if (++d->depth > MAX_DEPTH) {
        d->too_deep = true;
        XML_StopParser(d->parser, false);
    }
    const struct element_row *r = d->skip_from ? NULL : row_of(d, name);
    switch (r ? r->begin : 0) {
    case SKIP:
        d->skip_from = d->depth;
        break;
    case TEXT:
        d->text_from = d->text_from ? d->text_from : d->depth;
        break;
    case LINE:
        buf_putc(d->out, '\n');
        break;
    case TAB:
        buf_putc(d->out, '\t');
        break;
    case SPACES:
        put_spaces(d, attributes);
        break;
    default:
        break;
    }
}

static void on_end(void *context, const char *name)
{
    struct document *d = context;
    const struct element_row *r = d->skip_from ? NULL : row_of(d, name);
    if (r && r->end)
        end_line(d, r->end == END_CELL ? '\t' : '\n');
    if (d->skip_from == d->depth)
        d->skip_from = 0;
    if (d->text_from == d->depth)
        d->text_from = 0;
    d->depth--;
}

static void on_text(void *context, const char *text, int len)
{
    struct document *d = context;
    if (d->skip_from || !d->text_from)
        return;
    /* ODT's XML is laid out in lines, which are only spaces in it */
    for (int i = 0; i < len; i++)
        buf_putc(d->out,
                 d->kind == DOCUMENT_ODT && (text[i] == '\n' || text[i] == '\t') ? ' ' : text[i]);
    if (d->out->failed)
        XML_StopParser(d->parser, false);
}

static void on_declaration(void *context, const char *name, const char *system, const char *public,
                           int internal)
{
    struct document *d = context;
    d->declares = true;
    XML_StopParser(d->parser, false);
}

struct document *document_create(enum document_kind kind, struct buf *out)
{
    struct document *d = calloc(1, sizeof *d);
    if (!d || !(d->parser = XML_ParserCreateNS("UTF-8", SEPARATOR))) {
        free(d);
        return NULL;
    }
    d->kind = kind;
    d->out = out;
    out->limit = READER_TEXT_BYTES;
    XML_SetUserData(d->parser, d);
    XML_SetElementHandler(d->parser, on_begin, on_end);
    XML_SetCharacterDataHandler(d->parser, on_text);
    XML_SetStartDoctypeDeclHandler(d->parser, on_declaration);
    return d;
}

bool document_feed(struct document *d, const char *data, size_t len, bool last, struct content *c)
{
    bool ok = XML_Parse(d->parser, data, (int)len, last) == XML_STATUS_OK;
    if (d->out->failed)
        return content_refuse(c, "large", "has more than %zu bytes of text", READER_TEXT_BYTES);
    if (d->declares)
        return content_refuse(
            c, "damaged",
            "has a document type declaration in its XML, which documents do not have");
    if (d->too_deep)
        return content_refuse(c, "damaged", "is nested more than %d deep", MAX_DEPTH);
    return ok || content_refuse(c, "damaged", "can't be read: its XML is not well-formed");
}

void document_destroy(struct document **d)
{
    if (*d)
        XML_ParserFree((*d)->parser);
    free(*d);
    *d = NULL;
}
