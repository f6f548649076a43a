/* reply_stream.h: the head is sent at once, and each piece is written as it comes. */
#include "fcgi/http/reply_stream.h"

#include <fcgiapp.h>
#include <sys/socket.h>

#include "engine/base/clock.h"
#include "fcgi/http/reply.h"
#include "fcgi/http/reply_head.h"
#include "fcgi/http/request.h"

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
