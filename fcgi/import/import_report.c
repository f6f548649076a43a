/* The report of an import as JSON (docs/API-pages.md). */
#include <string.h>

#include "fcgi/import/import.h"

static void put_text(struct buf *out, const char *name, const char *text)
{
    buf_printf(out, ",\"%s\":", name);
    buf_json_string(out, text, strlen(text));
}

void import_report_json(struct buf *out, const struct import_report *r, bool dry_run,
                        const struct err *e)
{
    const int64_t named = r->n_problems < IMPORT_PROBLEMS ? r->n_problems : IMPORT_PROBLEMS;
    buf_printf(out, "{\"object\":\"import\",\"dry_run\":%s,\"complete\":%s",
               dry_run ? "true" : "false", e ? "false" : "true");
    buf_puts(out, ",\"format\":");
    if (r->format)
        buf_json_string(out, r->format, strlen(r->format));
    else
        buf_puts(out, "null");
    buf_printf(out,
               ",\"conversations\":%lld,\"imported\":%lld,\"duplicates\":%lld,\"failed\":%lld,"
               "\"messages\":%lld",
               (long long)r->conversations, (long long)r->imported, (long long)r->duplicates,
               (long long)r->failed, (long long)r->messages);
    buf_printf(out,
               ",\"attachments\":%lld,\"attachments_missing\":%lld,\"replaced_characters\":%lld,"
               "\"skipped_files\":%lld,\"without_project\":%lld,\"problems\":[",
               (long long)r->attachments, (long long)r->attachments_missing, (long long)r->replaced,
               (long long)r->skipped_files, (long long)r->without_project);
    for (int64_t i = 0; i < named; i++) {
        const struct import_problem *p = &r->problems[i];
        buf_puts(out, i ? ",{\"item\":" : "{\"item\":");
        buf_json_string(out, p->item, strlen(p->item));
        put_text(out, "path", p->path);
        put_text(out, "reason", p->reason);
        buf_putc(out, '}');
    }
    buf_printf(out,
               "],\"problems_left_out\":%lld,\"stopped\":", (long long)(r->n_problems - named));
    if (e)
        buf_json_string(out, e->text, strlen(e->text));
    else
        buf_puts(out, "null");
    buf_putc(out, '}');
}
