/* attachment.h: an attachment's bytes as a reply. */
#include <stdio.h>
#include <string.h>

#include "engine/base/file.h"
#include "fcgi/attachments/attachment.h"
#include "fcgi/http/file_name.h"
#include "fcgi/http/reply.h"
#include "fcgi/http/request.h"
#include "sql/files/store_attachments.h"

/* Foreign bytes from our own origin: no script, no guess at the type, no use by other sites. nginx
 * says nosniff. */
static void guard_headers(struct request *r, const char *etag)
{
    reply_header(r, "Content-Security-Policy",
                 "default-src 'none'; sandbox; frame-ancestors 'none'");
    reply_header(r, "Cross-Origin-Resource-Policy", "same-origin");
    reply_header(r, "Cache-Control", "private, no-cache");
    reply_header(r, "ETag", etag);
}

static bool is_known(const struct request *r, const char *etag)
{
    const char *has = request_header(r, "If-None-Match");
    return has && strstr(has, etag);
}

bool attachment_send(struct request *r, const struct store_attachment *a, struct err *e)
{
    struct file_map m = {0};
    char path[STORE_PATH_SIZE], etag[DIGEST_TEXT_SIZE + 2], disposition[FILE_DISPOSITION_SIZE];
    if (!store_attachment_path(r->store, a->sha256, path, e))
        return false;
    snprintf(etag, sizeof etag, "\"%s\"", a->sha256);
    guard_headers(r, etag);
    if (is_known(r, etag))
        return reply_empty(r, 304);
    if (!file_map(path, &m, e))
        return err_set(e, ERR_IO, "the attachment's file is missing");
    file_name_disposition(attachment_is_picture(a->type) ? "inline" : "attachment", a->name,
                          disposition);
    reply_header(r, "Content-Disposition", disposition);
    reply_bytes(r, 200, attachment_is_picture(a->type) ? a->type : "application/octet-stream",
                (const char *)m.data, m.size);
    file_unmap(&m);
    return true;
}
