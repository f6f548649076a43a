/* reply.h: FastCGI replies, and the only table from error codes to HTTP. */
#include "fcgi/http/reply.h"

#include <fcgiapp.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/json/json.h"
#include "fcgi/http/dialect.h"
#include "fcgi/http/reply_head.h"
#include "fcgi/http/request.h"
#include "fcgi/process/worker.h"

static const struct error_row {
    int status;
    const char *type, *code; /* code NULL: null in the object */
    int retry_after_s;       /* 0: no header */
} error_rows[ERR__N] = {
    [ERR_NONE] = {500, "server_error", "internal_error", 0},
    [ERR_NOMEM] = {503, "server_error", "out_of_memory", 5},
    [ERR_FORMAT] = {500, "server_error", "bad_file", 0},
    [ERR_IO] = {500, "server_error", "io_error", 0},
    [ERR_DEVICE] = {503, "server_error", "device_failed", 10},
    [ERR_BUSY] = {503, "server_error", "overloaded", 2},
    [ERR_LIMIT] = {400, "invalid_request_error", "limit_exceeded", 0},
    [ERR_AUTH] = {401, "authentication_error", "invalid_api_key", 0},
    [ERR_FORBIDDEN] = {403, "permission_error", "forbidden", 0},
    [ERR_NOTFOUND] = {404, "invalid_request_error", "not_found", 0},
    [ERR_CONFLICT] = {409, "invalid_request_error", "conflict", 0},
    [ERR_INPUT] = {400, "invalid_request_error", "invalid_value", 0},
    [ERR_CANCELLED] = {503, "server_error", "cancelled", 0},
    [ERR_UNAVAILABLE] = {503, "server_error", "engine_unavailable", 3},
    [ERR_UNSUPPORTED] = {400, "invalid_request_error", "unsupported_parameter", 0},
    [ERR_INTERNAL] = {500, "server_error", "internal_error", 0},
    [ERR_FULL] = {507, "server_error", "disk_full", 0},
    [ERR_READ_ONLY] = {507, "server_error", "disk_read_only", 0},
};

/* by rising status */
static const struct {
    int status;
    const char *reason;
} reasons[] = {
    {200, "OK"},
    {201, "Created"},
    {202, "Accepted"},
    {204, "No Content"},
    {303, "See Other"},
    {304, "Not Modified"},
    {308, "Permanent Redirect"},
    {400, "Bad Request"},
    {401, "Unauthorized"},
    {403, "Forbidden"},
    {404, "Not Found"},
    {405, "Method Not Allowed"},
    {408, "Request Timeout"},
    {409, "Conflict"},
    {411, "Length Required"},
    {413, "Content Too Large"},
    {415, "Unsupported Media Type"},
    {429, "Too Many Requests"},
    {500, "Internal Server Error"},
    {501, "Not Implemented"},
    {502, "Bad Gateway"},
    {503, "Service Unavailable"},
    {504, "Gateway Timeout"},
    {507, "Insufficient Storage"},
    {508, "Loop Detected"},
};

const char *reply_reason(int status)
{
    for (size_t i = 0; i < sizeof reasons / sizeof reasons[0]; i++)
        if (reasons[i].status == status)
            return reasons[i].reason;
    return "Unknown";
}

int reply_status_of(enum err_code code)
{
    return error_rows[code < ERR__N ? code : ERR_INTERNAL].status;
}

void reply_header(struct request *r, const char *name, const char *value)
{
    for (const char *c = value; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7F)
            return;
    buf_printf(&r->headers, "%s: %s\r\n", name, value);
}

bool reply_head(struct request *r, int status, const char *content_type)
{
    char head[256];
    const struct http_hooks *hooks = r->worker->hooks;
    const char *id_header = dialect_of(r)->request_id;
    if (hooks && hooks->on_head)
        hooks->on_head(r);
    ignored_header(r);
    int n = snprintf(head, sizeof head, "Status: %d %s\r\nX-Request-Id: %s\r\n%s%s%s", status,
                     reply_reason(status), r->id, content_type ? "Content-Type: " : "",
                     content_type ? content_type : "", content_type ? "\r\n" : "");
    if (id_header)
        reply_header(r, id_header, r->id);
    if (!r->headers.data || !strstr(r->headers.data, "Cache-Control: "))
        reply_header(r, "Cache-Control",
                     "no-store"); /* what people keep here is nobody's to keep on the way */
    r->replied = true;
    r->status = status;
    bool ok = FCGX_PutStr(head, n, r->fcgx->out) == n;
    if (ok && r->headers.len)
        ok = FCGX_PutStr(r->headers.data, (int)r->headers.len, r->fcgx->out) == (int)r->headers.len;
    return ok && FCGX_PutStr("\r\n", 2, r->fcgx->out) == 2;
}

void reply_finish(struct request *r)
{
    if (!r->replied)
        return;
    FCGX_FClose(r->fcgx->err); /* the last of the two that is closed ends the request */
    if (FCGX_FClose(r->fcgx->out) != 0)
        r->client_gone = true;
}

bool reply_bytes(struct request *r, int status, const char *content_type, const char *data,
                 size_t len)
{
    if (r->replied)
        return true;
    char length[24];
    snprintf(length, sizeof length, "%zu", len);
    reply_header(r, "Content-Length", length);
    bool ok = reply_head(r, status, content_type);
    if (ok && len && r->method != HTTP_HEAD)
        ok = FCGX_PutStr(data, (int)len, r->fcgx->out) == (int)len;
    ok = ok && FCGX_FFlush(r->fcgx->out) == 0;
    r->first_byte_ns = clock_ns();
    r->bytes_out += len;
    if (!ok)
        r->client_gone = true;
    return true;
}

bool reply_json_buf(struct request *r, int status, const struct buf *b)
{
    if (b->failed)
        return reply_error(r, &(struct err){.code = ERR_NOMEM, .text = "no memory for the answer"});
    return reply_bytes(r, status, "application/json", b->data ? b->data : "", b->len);
}

bool reply_json(struct request *r, int status, const cJSON *v)
{
    struct buf b = {0};
    if (!v || !json_write(&b, v))
        b.failed = true;
    reply_json_buf(r, status, &b);
    buf_fini(&b);
    return true;
}

bool reply_empty(struct request *r, int status)
{
    if (r->replied)
        return true;
    if (!reply_head(r, status, NULL) || FCGX_FFlush(r->fcgx->out) != 0)
        r->client_gone = true;
    r->first_byte_ns = clock_ns();
    return true;
}

void reply_error_object(struct buf *out, const struct request *r, const struct err *e)
{
    const struct error_row *row = &error_rows[e->code < ERR__N ? e->code : ERR_INTERNAL];
    const char *code = r->error_override.code ? r->error_override.code : row->code;
    const char *type = row->type;
    if (r->error_override.status == 429)
        type = "rate_limit_error";
    else if (r->error_override.status >= 400 && r->error_override.status < 500 &&
             row->status >= 500)
        type = "invalid_request_error";
    buf_puts(out, "{\"error\":{\"message\":");
    struct buf text = {0};
    bool names_field = e->field[0] && !r->error_override.context_tokens;
    buf_printf(&text, "%s%s%s", names_field ? e->field : "", names_field ? ": " : "", e->text);
    buf_json_string(out, text.data ? text.data : "", text.len);
    buf_fini(&text);
    buf_printf(out, ",\"type\":\"%s\",\"param\":", type);
    if (e->field[0])
        buf_json_string(out, e->field, strlen(e->field));
    else
        buf_puts(out, "null");
    buf_printf(out, ",\"code\":\"%s\"", code);
    if (e->reason[0])
        buf_printf(out, ",\"reason\":\"%s\"", e->reason);
    if (e->params[0])
        buf_printf(out, ",\"params\":{%s}", e->params);
    buf_printf(out, ",\"request_id\":\"%s\"}}", r->id);
}

void reply_error_detail(struct buf *out, const struct err *e)
{
    const char *code = error_rows[e->code < ERR__N ? e->code : ERR_INTERNAL].code;
    buf_printf(out, "{\"code\":\"%s\",\"params\":{%s}}", e->reason[0] ? e->reason : code,
               e->params);
}

static void refusal_headers(struct request *r, int status)
{
    if (status == 401)
        reply_header(r, "WWW-Authenticate", "Bearer realm=\"sluice\"");
    if (r->error_override.code &&
        !strcmp(r->error_override.code,
                "insufficient_scope")) /* RFC 6750; nginx reads it at /api/import */
        reply_header(r, "WWW-Authenticate",
                     "Bearer realm=\"sluice\", error=\"insufficient_scope\"");
}

int reply_error_status(const struct request *r, const struct err *e)
{
    return r->error_override.status ? r->error_override.status : reply_status_of(e->code);
}

bool reply_error(struct request *r, const struct err *e)
{
    const struct error_row *row = &error_rows[e->code < ERR__N ? e->code : ERR_INTERNAL];
    int status = reply_error_status(r, e);
    int retry =
        r->error_override.retry_after_s ? r->error_override.retry_after_s : row->retry_after_s;
    struct buf b = {0};
    if (retry) {
        char seconds[16];
        snprintf(seconds, sizeof seconds, "%d", retry);
        reply_header(r, "Retry-After", seconds);
    }
    refusal_headers(r, status);
    dialect_of(r)->error(&b, r, e);
    reply_bytes(r, status, "application/json", b.data ? b.data : "", b.len);
    buf_fini(&b);
    return true;
}

bool reply_refusal(struct request *r, const struct err *e)
{
    const int status = reply_error_status(r, e);
    if (status >= 500)
        return reply_empty(r, 204);
    struct buf b = {0};
    char number[16];
    snprintf(number, sizeof number, "%d", status);
    refusal_headers(r, status);
    dialect_of(r)->error(&b, r, e);
    reply_header(r, "X-Sluice-Status", number);
    reply_header(r, "X-Sluice-Refusal", b.data ? b.data : "");
    buf_fini(&b);
    reply_empty(r, status == 401 ? 401 : 403);
    r->status = status;
    return true;
}
