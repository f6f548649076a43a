/* mcp.h: JSON-RPC messages, one request of HTTP each, or one line to a program. */
#include "fcgi/tools/mcp.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "config.h"
#include "engine/base/buf.h"
#include "engine/base/clock.h"
#include "engine/base/json/json.h"
#include "engine/base/utf8.h"
#include "fcgi/tools/mcp_events.h"

#define CLOSE_MS 1000.0
#define REPLY_MS 3000.0
#define MAX_PAGES 16
#define MAX_VALUES 100000 /* of a message: each costs 64 bytes, however short its text */
#define MAX_REPLIES 8     /* to requests of the server's, in one exchange */

/* The newest is asked for. */
static const char *const versions[] = {"2025-06-18", "2025-03-26", "2024-11-05", NULL};

/* One message and what comes back. */
struct exchange {
    struct mcp_session *session;
    int64_t id; /* 0: a notification, which has no answer */
    struct mcp_events events;
    struct buf whole; /* an answer that is no stream */
    cJSON *answer;    /* the message with the id */
    int replies;
    bool too_large;
};

static bool post(struct mcp_session *s, const char *method, const char *body, double until,
                 struct exchange *x, struct tool_http_answer *answer, struct err *e);

static bool has_id(const cJSON *m, int64_t id)
{
    const cJSON *v = json_member(m, "id");
    return cJSON_IsNumber(v) && v->valuedouble == (double)id;
}

/* A request of the server's: the answer goes out beside the stream that it came with. */
static void reply_to(struct exchange *x, const cJSON *request)
{
    struct buf body = {0};
    struct tool_http_answer ignored;
    struct err unheard;
    const double until = clock_ms() + REPLY_MS;
    const bool ping = !strcmp(json_text(request, "method"), "ping");
    if (++x->replies > MAX_REPLIES)
        return;
    buf_puts(&body, "{\"jsonrpc\":\"2.0\",\"id\":");
    json_write(&body, json_member(request, "id"));
    buf_puts(&body, ping ? ",\"result\":{}}"
                         : ",\"error\":{\"code\":-32601,\"message\":\"not offered here\"}}");
    if (!body.failed)
        post(x->session, "POST", body.data,
             until < x->session->server->until ? until : x->session->server->until, NULL, &ignored,
             &unheard);
    buf_fini(&body);
}

/* False: the answer has come: m itself, which is the exchange's then. */
static bool take_one(struct exchange *x, cJSON *m)
{
    if (json_text(m, "method")) {
        if (json_member(m, "id"))
            reply_to(x, m);
        return true;
    }
    if (!has_id(m, x->id) || (!json_member(m, "result") && !json_member(m, "error")))
        return true;
    x->answer = m;
    return false;
}

/* m is taken. False: the answer has come. Old servers send several messages as one array. */
static bool take_message(struct exchange *x, cJSON *m)
{
    bool more = true;
    while (more && cJSON_IsArray(m) && m->child) {
        cJSON *one = cJSON_DetachItemFromArray(m, 0);
        more = take_one(x, one);
        if (more)
            cJSON_Delete(one);
    }
    if (!cJSON_IsArray(m) && !take_one(x, m))
        return false;
    cJSON_Delete(m);
    return more;
}

static bool take_text(void *context, const char *text, size_t len)
{
    struct exchange *x = context;
    const struct json_limits limits = {
        .max_bytes = TOOL_HTTP_BYTES, .allow_duplicates = true, .allow_nul = true};
    x->too_large = json_count_values(text, len) > MAX_VALUES;
    cJSON *m = x->too_large ? NULL : json_parse(text, len, &limits, NULL);
    return m && take_message(x, m);
}

static bool take_bytes(void *context, const char *type, const char *data, size_t len)
{
    struct exchange *x = context;
    if (!x->id)
        return true;
    if (strncasecmp(type, "text/event-stream", 17) != 0)
        return buf_append(&x->whole, data, len);
    return mcp_events_feed(&x->events, data, len);
}

/* What is no message is passed over: some programs also print words for people. */
static bool take_line(void *context, const char *line, size_t len)
{
    struct exchange *x = context;
    take_text(x, line, len);
    return !x->answer && !x->too_large;
}

/* A message to a program; x: what comes back is for it. */
static bool say(struct mcp_session *s, const char *body, struct exchange *x,
                struct tool_http_answer *answer, struct err *e)
{
    *answer = (struct tool_http_answer){.status = 200};
    return !body || (tool_pipe_send(&s->pipe, body, e) &&
                     (!x || !x->id || tool_pipe_read(&s->pipe, take_line, x, e)));
}

static bool is_stopped(void *context)
{
    const struct exchange *x = context;
    const struct mcp_server *server = x->session->server;
    return server->stopped && server->stopped(server->context);
}

/* Sends a body; what comes back goes to x, where it is not NULL. */
static bool post(struct mcp_session *s, const char *method, const char *body, double until,
                 struct exchange *x, struct tool_http_answer *answer, struct err *e)
{
    const struct mcp_server *server = s->server;
    if (s->pipe.fd >= 0)
        return say(s, body, x, answer, e);
    struct buf secret = {0}, session = {0}, version = {0};
    struct tool_http h = {.url = server->url,
                          .method = method,
                          .body = body,
                          .anywhere = server->anywhere,
                          .until = until,
                          .stopped = x ? is_stopped : NULL,
                          .take = x ? take_bytes : NULL,
                          .context = x};
    if (server->secret) {
        buf_printf(&secret, "%s: %s", server->header, server->secret);
        h.lines[0] = secret.data;
    }
    if (s->id[0]) {
        buf_printf(&session, "Mcp-Session-Id: %s", s->id);
        h.lines[1] = session.data;
    }
    if (s->version[0]) {
        buf_printf(&version, "MCP-Protocol-Version: %s", s->version);
        h.lines[2] = version.data;
    }
    const bool ok = secret.failed || session.failed || version.failed
                        ? err_set(e, ERR_NOMEM, "no memory to ask the tool server")
                        : tool_http_ask(&h, answer, e);
    buf_fini(&secret);
    buf_fini(&session);
    buf_fini(&version);
    return ok;
}

static bool check_status(const struct exchange *x, const struct tool_http_answer *answer,
                         struct err *e)
{
    const long status = answer->status;
    if (status == 200 || (!x->id && status >= 200 && status < 300))
        return true;
    if (status == 401 || status == 403) {
        struct mcp_refusal *refusal = &x->session->refusal;
        refusal->status = status;
        memcpy(refusal->challenge, answer->challenge, sizeof refusal->challenge);
        return err_set(e, ERR_UNAVAILABLE, "the tool server refuses the secret (HTTP %ld)",
                       status) ||
               err_reason(e, "tool_refused");
    }
    err_set(e, ERR_UNAVAILABLE, "the tool server answers with HTTP %ld", status);
    err_reason(e, "tool_status");
    return err_param(e, "status", status);
}

/* The result of the answer, taken out of it. */
static cJSON *take_result(struct exchange *x, struct err *e)
{
    const cJSON *error = json_member(x->answer, "error");
    cJSON *result = cJSON_DetachItemFromObjectCaseSensitive(x->answer, "result");
    if (cJSON_IsObject(result))
        return result;
    cJSON_Delete(result);
    if (x->too_large) {
        err_set(e, ERR_LIMIT, "the tool server's answer holds more than %d values", MAX_VALUES);
        err_reason(e, "tool_too_large");
        return NULL;
    }
    if (error) {
        const char *words = json_text(error, "message");
        err_set(e, ERR_UNAVAILABLE, "the tool server says: %.200s", words ? words : "an error");
        e->text[utf8_valid((const unsigned char *)e->text, strlen(e->text))] = '\0'; /* where cut */
        err_reason(e, "tool_error");
        return NULL;
    }
    err_set(e, ERR_UNAVAILABLE, "what the tool server answers is not the Model Context Protocol");
    err_reason(e, "tool_rubbish");
    return NULL;
}

/* body: a JSON-RPC message with the exchange's id. NULL for a notification that went well, too. */
static cJSON *exchange(struct exchange *x, const char *body, struct tool_http_answer *answer,
                       struct err *e)
{
    cJSON *result = NULL;
    *e = (struct err){0};
    x->events = (struct mcp_events){.event = take_text, .context = x};
    x->whole.limit = TOOL_HTTP_BYTES;
    const bool sent = post(x->session, "POST", body, x->session->server->until, x, answer, e);
    x->session->refusal.near = answer->near;
    if (sent && check_status(x, answer, e) && x->id) {
        if (x->whole.len)
            take_text(x, x->whole.data, x->whole.len);
        result = take_result(x, e);
    }
    mcp_events_fini(&x->events);
    buf_fini(&x->whole);
    cJSON_Delete(x->answer);
    return result;
}

/* params: an object, which is taken; NULL: no memory. */
static cJSON *request(struct mcp_session *s, const char *method, cJSON *params,
                      struct tool_http_answer *answer, struct err *e)
{
    struct buf body = {0};
    struct exchange x = {.session = s, .id = ++s->last_id};
    cJSON *result = NULL;
    buf_printf(&body,
               "{\"jsonrpc\":\"2.0\",\"id\":%lld,\"method\":\"%s\",\"params\":", (long long)x.id,
               method);
    if (params && json_write(&body, params) && buf_putc(&body, '}'))
        result = exchange(&x, body.data, answer, e);
    else
        err_set(e, ERR_NOMEM, "no memory to ask the tool server");
    cJSON_Delete(params);
    buf_fini(&body);
    return result;
}

static bool take_version(struct mcp_session *s, const cJSON *result, struct err *e)
{
    const char *version = json_text(result, "protocolVersion");
    for (int i = 0; version && versions[i]; i++)
        if (!strcmp(version, versions[i])) {
            snprintf(s->version, sizeof s->version, "%s", version);
            return true;
        }
    return err_set(e, ERR_UNAVAILABLE,
                   "the tool server speaks a version of the protocol that is not known here") ||
           err_reason(e, "tool_protocol");
}

static bool is_plain(const char *session)
{
    for (; *session; session++)
        if ((unsigned char)*session < 0x21 || (unsigned char)*session > 0x7e)
            return false;
    return true;
}

bool mcp_open(struct mcp_session *s, const struct mcp_server *server, struct err *e)
{
    struct tool_http_answer answer;
    struct exchange note = {.session = s};
    const char *program = tool_pipe_program(server->url);
    *s = (struct mcp_session){.server = server,
                              .pipe = {.fd = -1,
                                       .until = server->until,
                                       .stopped = server->stopped,
                                       .context = server->context}};
    if (program && !tool_pipe_open(&s->pipe, server->run_dir, program, e))
        return false;
    cJSON *params = cJSON_CreateObject();
    cJSON_AddStringToObject(params, "protocolVersion", versions[0]);
    cJSON_AddObjectToObject(params, "capabilities");
    cJSON *info = cJSON_AddObjectToObject(params, "clientInfo");
    cJSON_AddStringToObject(info, "name", "sluice");
    cJSON_AddStringToObject(info, "version", PACKAGE_VERSION);
    cJSON *result = request(s, "initialize", params, &answer, e);
    if (!result)
        return mcp_close(s), false;
    if (is_plain(answer.session))
        memcpy(s->id, answer.session, sizeof s->id);
    const bool ok = take_version(s, result, e);
    cJSON_Delete(result);
    if (ok)
        exchange(&note, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}", &answer,
                 e);
    if (ok && !e->code)
        return true;
    mcp_close(s);
    return false;
}

void mcp_close(struct mcp_session *s)
{
    struct tool_http_answer ignored;
    struct err unheard;
    if (s->id[0])
        post(s, "DELETE", NULL, clock_ms() + CLOSE_MS, NULL, &ignored, &unheard);
    s->id[0] = '\0';
    tool_pipe_close(&s->pipe);
}

/* Moves a page's tools into the list. False: it is full, or the page holds none. */
static bool take_page(cJSON *list, cJSON *result, struct err *e)
{
    cJSON *tools = cJSON_GetObjectItemCaseSensitive(result, "tools");
    if (!cJSON_IsArray(tools))
        return err_set(e, ERR_UNAVAILABLE,
                       "what the tool server answers is not the Model Context Protocol") ||
               err_reason(e, "tool_rubbish");
    while (tools->child && cJSON_GetArraySize(list) < MCP_TOOLS_MAX)
        cJSON_AddItemToArray(list, cJSON_DetachItemFromArray(tools, 0));
    return true;
}

cJSON *mcp_list_tools(struct mcp_session *s, struct err *e)
{
    struct tool_http_answer answer;
    cJSON *list = cJSON_CreateArray(), *page = NULL;
    bool ok = list != NULL || err_set(e, ERR_NOMEM, "no memory for a list of tools");
    const char *cursor = NULL;
    for (int n = 0; ok && n < MAX_PAGES && (n == 0 || cursor); n++) {
        cJSON *params = cJSON_CreateObject();
        if (cursor)
            cJSON_AddStringToObject(params, "cursor", cursor);
        cJSON_Delete(page);
        page = request(s, "tools/list", params, &answer, e);
        ok = page && take_page(list, page, e);
        cursor =
            ok && cJSON_GetArraySize(list) < MCP_TOOLS_MAX ? json_text(page, "nextCursor") : NULL;
    }
    cJSON_Delete(page);
    if (ok)
        return list;
    cJSON_Delete(list);
    return NULL;
}

cJSON *mcp_call_tool(struct mcp_session *s, const char *name, const cJSON *arguments, struct err *e)
{
    struct tool_http_answer answer;
    cJSON *params = cJSON_CreateObject(),
          *own = arguments ? cJSON_Duplicate(arguments, true) : cJSON_CreateObject();
    cJSON_AddStringToObject(params, "name", name);
    if (!cJSON_AddItemToObject(params, "arguments", own))
        cJSON_Delete(own);
    return request(s, "tools/call", params, &answer, e);
}
