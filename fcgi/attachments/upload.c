/* upload.h: the body goes to a temporary file first; of a form, the file in it is then copied to a
 * second one. */
#include "fcgi/attachments/upload.h"

#include <string.h>

#include "engine/base/file.h"
#include "fcgi/http/multipart.h"
#include "fcgi/http/request.h"
#include "sql/files/store_attachments.h"

#define FORM_BYTES ((size_t)64 << 10) /* what a form has besides the file */

static bool too_large(struct request *r, size_t limit, struct err *e)
{
    r->error_override.status = 413;
    r->error_override.code = "file_too_large";
    err_field(e, ERR_LIMIT, "file", "is larger than %zu bytes, the limit", limit);
    err_reason(e, "file_over");
    return err_param(e, "limit", (int64_t)limit);
}

/* The whole body into a temporary file. */
static bool save_body(struct request *r, size_t limit, struct store_upload *u, struct err *e)
{
    size_t len = 0, done = 0;
    char piece[65536];
    if (!request_body_begin(r, limit, &len, e) || !store_upload_begin(r->store, u, e))
        return false;
    while (done < len) {
        size_t n =
            request_body_read(r, piece, len - done < sizeof piece ? len - done : sizeof piece);
        if (!n)
            return err_set(e, ERR_INPUT, "the body ended after %zu of %zu bytes", done, len);
        if (!store_upload_write(u, piece, n, e))
            return false;
        done += n;
    }
    return true;
}

/* Replaces the form in *u by the file that is in it. */
static bool extract_file(struct request *r, size_t limit, struct store_upload *u,
                         char name[FILE_NAME_SIZE], struct err *e)
{
    struct store_upload form = *u;
    struct file_map m;
    struct multipart_part file;
    *u = (struct store_upload){.fd = -1};
    bool ok = file_map(form.path, &m, e);
    if (ok) {
        ok = multipart_find((const char *)m.data, m.size, request_header(r, "Content-Type"), &file,
                            e);
        if (ok && file.len > limit)
            ok = too_large(r, limit, e);
        ok = ok && store_upload_begin(r->store, u, e) &&
             store_upload_write(u, file.data, file.len, e);
        if (ok)
            file_name_clean(file.file_name, strlen(file.file_name), name);
        file_unmap(&m);
    }
    store_upload_drop(&form);
    return ok;
}

bool upload_take(struct request *r, size_t limit, struct store_upload *u, char name[FILE_NAME_SIZE],
                 struct err *e)
{
    const char *given = request_query(r, "name");
    const bool form = multipart_is(request_header(r, "Content-Type"));
    if (!save_body(r, limit + (form ? FORM_BYTES : 0), u, e))
        return false;
    file_name_clean(given ? given : "", given ? strlen(given) : 0, name);
    return !form || extract_file(r, limit, u, name, e);
}
