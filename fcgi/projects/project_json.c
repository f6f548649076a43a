/* project_json.h: the JSON of a project. */
#include "fcgi/projects/project_json.h"

#include "sql/projects/store_project_shares.h"

static void put_file(struct buf *out, const struct store_project_file *f)
{
    buf_printf(out, "%s{\"id\":\"%lld\"", buf_ends_with(out, '[') ? "" : ",", (long long)f->id);
    buf_json_member(out, "name", f->name);
    buf_json_member(out, "type", f->type);
    buf_json_member(out, "sha256", f->sha256);
    buf_json_member(out, "model", f->model);
    buf_json_member(out, "note", f->note);
    buf_printf(out, ",\"bytes\":%lld,\"tokens\":%lld,\"indexing\":%s}", (long long)f->bytes,
               (long long)f->tokens, f->indexing ? "true" : "false");
}

void project_json(struct buf *out, const struct store_project *p,
                  const struct project_json_more *more)
{
    static const char *const access[] = {"reader", "editor", "owner"};
    const struct store_project_files *files = more->files;
    buf_printf(out, "{\"id\":\"%lld\"", (long long)p->id);
    buf_json_member(out, "name", p->name);
    buf_printf(out, ",\"colour\":%d", p->colour);
    buf_json_member(out, "instructions", p->instructions);
    buf_printf(out,
               ",\"chats\":%lld,\"n_files\":%lld,\"indexing\":%s,\"created_at\":%lld,"
               "\"updated_at\":%lld",
               (long long)p->n_chats, (long long)p->n_files, p->indexing ? "true" : "false",
               (long long)p->created_at, (long long)p->updated_at);
    buf_json_member(out, "access", access[p->access]);
    if (p->access == STORE_PROJECT_OWNER)
        buf_printf(out, ",\"shares\":%lld", (long long)p->n_shares);
    else
        buf_json_member(out, "owner", p->owner_name);
    buf_json_member(out, "search", more->by_meaning ? "meaning" : "words");
    if (files) {
        buf_printf(out, ",\"meaning_waiting\":%lld", (long long)more->waiting);
        buf_puts(out, ",\"files\":[");
        for (int i = 0; i < files->n; i++)
            put_file(out, &files->at[i]);
        buf_putc(out, ']');
    }
    buf_putc(out, '}');
}
