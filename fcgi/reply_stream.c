/* reply_stream.h */
#include "fcgi/reply_stream.h"

#include <fcgiapp.h>
#include <string.h>
#include <sys/socket.h>

#include "engine/base/clock.h"
#include "fcgi/reply.h"
#include "fcgi/reply_head.h"
#include "fcgi/request.h"

bool reply_stream_begin(struct request *r, int status, const char *content_type)
{
    if (!reply_head(r, status, content_type) || FCGX_FFlush(r->fcgx->out) != 0)
        r->client_gone = true;
    r->first_byte_ns = clock_ns();
    return !r->client_gone;
}

bool reply_stream_write(struct request *r, const void *data, size_t len, struct err *e)
{
    if (r->method == HTTP_HEAD)
        return true;
    if (!r->client_gone && FCGX_PutStr(data, (int)len, r->fcgx->out) != (int)len)
        r->client_gone = true;
    if (r->client_gone)
        return err_set(e, ERR_CANCELLED, "the client has gone");
    r->bytes_out += len;
    return true;
}

void reply_stream_end(struct request *r)
{
    if (FCGX_FFlush(r->fcgx->out) != 0)
        r->client_gone = true;
}

void reply_stream_break(struct request *r)
{
    r->client_gone = true;
    shutdown(r->fcgx->ipcFd, SHUT_RDWR);
}

/* RFC 8187's attr-char. */
static bool plain(unsigned char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || (c && strchr("!#$&+-.^_`|~", c));
}

void reply_attachment(struct request *r, const char *name)
{
    struct buf v = {0};
    buf_puts(&v, "attachment; filename=\"");
    for (const unsigned char *p = (const unsigned char *)name; *p; p++)
        if ((*p & 0xc0) != 0x80) /* one for a letter, however many bytes it has */
            buf_putc(&v, *p < ' ' || *p > '~' || *p == '"' || *p == '\\' || *p == '%' ? '_' : (char)*p);
    buf_puts(&v, "\"; filename*=UTF-8''");
    for (const unsigned char *p = (const unsigned char *)name; *p; p++)
        buf_printf(&v, plain(*p) ? "%c" : "%%%02X", *p);
    if (!v.failed)
        reply_header(r, "Content-Disposition", v.data);
    buf_fini(&v);
}
