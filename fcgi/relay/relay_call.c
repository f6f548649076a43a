/* relay_call.h: an easy handle with a callback that splits what comes into lines, and lines into
 * objects. */
#include "fcgi/relay/relay_call.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/json/json.h"
#include "fcgi/relay/relay.h"
#include "fcgi/relay/relay_handle.h"

#define MAX_ERROR_BYTES ((size_t)16 << 10) /* of a refusal's body */
#define LINGER_MS 1000.0
#define ONE_PIECE ((size_t)32 << 10) /* of a request, copied behind its beginning */
#define MAX_ANSWER_BYTES ((size_t)256 << 20)

struct relay_call {
    struct relay_call_params p;
    struct relay_handle *handle;
    CURL *easy;        /* its */
    struct buf body;   /* what is sent, */
    const char *tail;  /* [n_tail] and after it */
    size_t n_tail, at; /* at: bytes that libcurl has taken */
    struct buf line;   /* what came of a line so far */
    struct buf event;  /* the data lines of an event so far */
    struct buf error;  /* the body of a refusal */
    char why[CURL_ERROR_SIZE], detail[200];
    long status;         /* 0: no head came */
    double begun, heard; /* clock_ms; heard 0: nothing came yet */
    size_t bytes;
    bool over;      /* the upstream said that nothing more comes */
    bool whole;     /* the answer came to its end */
    bool long_body; /* read by functions */
    struct err rubbish;
};

/* ---- lines */

static bool take_object(struct relay_call *c, const char *text, size_t len)
{
    const struct json_limits limits = {
        .max_bytes = RELAY_LINE_BYTES, .allow_duplicates = true, .allow_nul = true};
    struct err e = {0};
    if (len == 6 && !memcmp(text, "[DONE]", 6))
        return c->over = true;
    cJSON *o = json_parse(text, len, &limits, &e);
    bool ok = cJSON_IsObject(o) && c->p.to->dialect->take(c->p.answer, o, &c->over, &e);
    cJSON_Delete(o);
    if (!ok)
        err_set(&c->rubbish, ERR_FORMAT, "it sends what is no chunk of an answer: %.120s",
                e.text[0] ? e.text : "no object");
    return ok && !c->p.answer->failed.code;
}

static bool end_event(struct relay_call *c)
{
    bool ok = !c->event.len || c->over || take_object(c, c->event.data, c->event.len);
    buf_clear(&c->event);
    return ok;
}

/* A comment of another Sluice says how far the prompt is read. */
static void take_comment(struct relay_call *c, const char *text)
{
    long long done, total;
    if (sscanf(text, " prefill %lld/%lld", &done, &total) == 2)
        relay_answer_progress(c->p.answer, done, total, 0);
}

static bool take_line(struct relay_call *c, char *text, size_t len)
{
    if (len && text[len - 1] == '\r')
        len--;
    text[len] = 0;
    if (c->p.to->dialect->lines)
        return !len || c->over || take_object(c, text, len);
    if (!len)
        return end_event(c);
    if (text[0] == ':')
        take_comment(c, text + 1);
    if (strncmp(text, "data:", 5) != 0)
        return true; /* event, id, retry: the data say the same */
    const char *data = text + 5 + (text[5] == ' ');
    if (c->event.len)
        buf_putc(&c->event, '\n');
    buf_append(&c->event, data, len - (size_t)(data - text));
    if (c->event.len > RELAY_LINE_BYTES || c->event.failed)
        return err_set(&c->rubbish, ERR_FORMAT, "an event of its answer has no end");
    return true;
}

static bool take_bytes(struct relay_call *c, const char *data, size_t len)
{
    while (len) {
        const char *end = memchr(data, '\n', len);
        const size_t n = end ? (size_t)(end - data) : len;
        if (c->line.len + n > RELAY_LINE_BYTES)
            return err_set(&c->rubbish, ERR_FORMAT, "a line of its answer has no end");
        if (!buf_append(&c->line, data, n))
            return err_set(&c->rubbish, ERR_NOMEM, "no memory for its answer");
        if (!end)
            return true;
        if (!take_line(c, c->line.data, c->line.len))
            return false;
        buf_clear(&c->line);
        data += n + 1;
        len -= n + 1;
    }
    return true;
}

/* The last line may lack its end, and the last event its empty line. */
static void take_rest(struct relay_call *c)
{
    if (c->line.len && !take_line(c, c->line.data, c->line.len))
        return;
    buf_clear(&c->line);
    if (!c->p.to->dialect->lines)
        end_event(c);
}

static size_t take(char *data, size_t size, size_t n, void *context)
{
    struct relay_call *c = context;
    const size_t len = size * n;
    c->heard = clock_ms();
    c->bytes += len;
    if (!c->status)
        curl_easy_getinfo(c->easy, CURLINFO_RESPONSE_CODE, &c->status);
    if (c->status != 200) {
        if (c->error.len + len <= MAX_ERROR_BYTES)
            buf_append(&c->error, data, len);
        return c->bytes > 4 * MAX_ERROR_BYTES ? 0 : len;
    }
    bool ok = c->bytes <= MAX_ANSWER_BYTES && take_bytes(c, data, len);
    relay_answer_flush(c->p.answer);
    c->p.progress(c->p.context);
    return ok ? len : 0;
}

/* The head: a stream has begun, also where its first piece takes long. */
static size_t take_head(char *data, size_t size, size_t n, void *context)
{
    struct relay_call *c = context;
    (void)data;
    c->heard = clock_ms();
    curl_easy_getinfo(c->easy, CURLINFO_RESPONSE_CODE, &c->status);
    if (c->status == 200 && size * n <= 2)
        c->p.progress(c->p.context);
    return size * n;
}

/* ---- the request */

/* A request of one piece leaves in one packet with its head. A long one is not copied. */
static bool put_body(struct relay_call *c, struct err *e)
{
    const struct relay_dialect *d = c->p.to->dialect;
    if (c->p.text && !d->text_path)
        return err_field(e, ERR_UNSUPPORTED, "model", "this model's upstream takes chats only");
    if (d->put_begin) {
        d->put_begin(&c->body, c->p.remote);
        c->tail = c->p.chat + 1;
        c->n_tail = c->p.n_chat - 1;
        if (c->n_tail <= ONE_PIECE) {
            buf_append(&c->body, c->tail, c->n_tail);
            c->n_tail = 0;
        }
        return !c->body.failed || err_set(e, ERR_NOMEM, "no memory for the upstream's request");
    }
    cJSON *chat = json_parse(c->p.chat, c->p.n_chat, &(struct json_limits){.max_depth = 128}, e);
    bool ok = chat && d->put_request(&c->body, chat, c->p.remote, e);
    cJSON_Delete(chat);
    return ok;
}

static size_t give(char *out, size_t size, size_t n, void *context)
{
    struct relay_call *c = context;
    size_t given = 0;
    const size_t room = size * n;
    while (given < room && c->at < c->body.len + c->n_tail) {
        const bool first = c->at < c->body.len;
        const char *from = first ? c->body.data + c->at : c->tail + (c->at - c->body.len);
        size_t len = first ? c->body.len - c->at : c->n_tail - (c->at - c->body.len);
        len = len < room - given ? len : room - given;
        memcpy(out + given, from, len);
        given += len;
        c->at += len;
    }
    return given;
}

/* A kept connection that turns out to be closed is replaced: libcurl sends again. */
static int rewind_body(void *context, curl_off_t to, int origin)
{
    struct relay_call *c = context;
    if (origin != SEEK_SET || to < 0 || (size_t)to > c->body.len + c->n_tail)
        return CURL_SEEKFUNC_FAIL;
    c->at = (size_t)to;
    return CURL_SEEKFUNC_OK;
}

static bool set_body(struct relay_call *c)
{
    if (!c->n_tail)
        return !curl_easy_setopt(c->easy, CURLOPT_POSTFIELDS, c->body.data) &&
               !curl_easy_setopt(c->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)c->body.len);
    c->long_body = true;
    return !curl_easy_setopt(c->easy, CURLOPT_POSTFIELDS, NULL) && /* of the request before */
           !curl_easy_setopt(c->easy, CURLOPT_POST, 1L) &&
           !curl_easy_setopt(c->easy, CURLOPT_POSTFIELDSIZE_LARGE,
                             (curl_off_t)(c->body.len + c->n_tail)) &&
           !curl_easy_setopt(c->easy, CURLOPT_READFUNCTION, give) &&
           !curl_easy_setopt(c->easy, CURLOPT_READDATA, c) &&
           !curl_easy_setopt(c->easy, CURLOPT_SEEKFUNCTION, rewind_body) &&
           !curl_easy_setopt(c->easy, CURLOPT_SEEKDATA, c);
}

static bool prepare(struct relay_call *c)
{
    const struct relay_dialect *d = c->p.to->dialect;
    c->handle = relay_handle_take(c->p.to, c->p.text ? d->text_path : d->path, c->p.via);
    c->easy = c->handle ? c->handle->easy : NULL;
    return c->easy && set_body(c) && !curl_easy_setopt(c->easy, CURLOPT_WRITEFUNCTION, take) &&
           !curl_easy_setopt(c->easy, CURLOPT_WRITEDATA, c) &&
           !curl_easy_setopt(c->easy, CURLOPT_HEADERFUNCTION, take_head) &&
           !curl_easy_setopt(c->easy, CURLOPT_HEADERDATA, c) &&
           !curl_easy_setopt(c->easy, CURLOPT_ERRORBUFFER, c->why) &&
           !curl_easy_setopt(c->easy, CURLOPT_PRIVATE, c) &&
           !curl_multi_add_handle(c->p.multi, c->easy);
}

struct relay_call *relay_call_begin(const struct relay_call_params *p, struct err *e)
{
    struct relay_call *c = calloc(1, sizeof *c);
    if (!c) {
        err_set(e, ERR_NOMEM, "no memory for a request to an upstream");
        return NULL;
    }
    c->p = *p;
    c->begun = clock_ms();
    p->answer->asked_ms = c->begun;
    if (!put_body(c, e)) {
        relay_call_end(&c);
        return NULL;
    }
    if (!prepare(c)) {
        err_set(e, ERR_NOMEM, "no memory for a request to an upstream");
        relay_call_end(&c);
    }
    return c;
}

struct relay_call *relay_call_of(CURL *easy)
{
    struct relay_call *c = NULL;
    curl_easy_getinfo(easy, CURLINFO_PRIVATE, (char **)&c);
    return c;
}

void *relay_call_context(const struct relay_call *c)
{
    return c->p.context;
}

const char *relay_call_late(const struct relay_call *c, double now)
{
    /* A head, or a comment that tells how far the prompt is read, is a sign of life. */
    const double since = c->heard > c->begun ? c->heard : c->begun;
    if (!c->p.answer->any && now - since > (double)c->p.to->first_byte_ms)
        return "first";
    return c->heard && c->p.answer->any && now - c->heard > (double)c->p.to->idle_ms ? "next"
                                                                                     : NULL;
}

const char *relay_call_detail(const struct relay_call *c)
{
    return c->detail;
}

bool relay_call_lingers(const struct relay_call *c, double now)
{
    return c->over && now - c->heard > LINGER_MS;
}

size_t relay_call_held(const struct relay_call *c)
{
    return c->body.len;
}

bool relay_call_forget_sent(struct relay_call *c)
{
    curl_off_t sent = 0;
    curl_easy_getinfo(c->easy, CURLINFO_SIZE_UPLOAD_T, &sent);
    if (sent < (curl_off_t)(c->body.len + c->n_tail))
        return false;
    buf_fini(&c->body);
    c->n_tail = c->at = 0;
    return true;
}

void relay_call_end(struct relay_call **at)
{
    struct relay_call *c = *at;
    if (!c)
        return;
    if (c->easy)
        curl_multi_remove_handle(c->p.multi, c->easy);
    relay_handle_give(c->p.to, &c->handle, c->whole && !c->long_body);
    buf_fini(&c->body);
    buf_fini(&c->line);
    buf_fini(&c->event);
    buf_fini(&c->error);
    free(c);
    *at = NULL;
}

/* ---- what became of it */

/* The upstream's own words: of OpenAI's form, Anthropic's, Ollama's. */
static const char *words_of(const cJSON *body)
{
    const cJSON *error = json_member(body, "error");
    const char *text = cJSON_IsString(error) ? error->valuestring : json_text(error, "message");
    if (!text)
        text = json_text(body, "message");
    return text ? text : "it does not say why";
}

static enum relay_verdict refuse(struct err *e, enum err_code code, const char *reason,
                                 const char *text)
{
    char field[64];
    snprintf(field, sizeof field, ENGINE_RELAY_REASON "%s", reason);
    err_field(e, code, field, "%s", text);
    return RELAY_REFUSED;
}

static double retry_after(CURL *easy)
{
    curl_off_t s = 0;
    curl_easy_getinfo(easy, CURLINFO_RETRY_AFTER, &s);
    return s > 0 && s < 3600 ? (double)s * 1e3 : 1000;
}

static bool is_context(const cJSON *body)
{
    const char *code = json_text(json_member(body, "error"), "code"),
               *type = json_text(json_member(body, "error"), "type");
    return (code && !strcmp(code, "context_length_exceeded")) ||
           (type && !strcmp(type, "exceed_context_size_error"));
}

/* Users read the words of a refusal that is about their request; all others may tell of what is
 * behind this server. */
static enum relay_verdict by_status(struct relay_call *c, double *wait_ms, struct err *e)
{
    cJSON *body = c->error.len ? json_parse(c->error.data, c->error.len,
                                            &(struct json_limits){.allow_duplicates = true}, NULL)
                               : NULL;
    const bool context = is_context(body);
    snprintf(c->detail, sizeof c->detail, "the upstream says %ld: %.150s", c->status,
             words_of(body));
    cJSON_Delete(body);
    switch (c->status) {
    case 400:
    case 413:
    case 422:
        return context ? refuse(e, ERR_LIMIT, "context_too_long", c->detail)
                       : refuse(e, ERR_INPUT, "upstream_refused", c->detail);
    case 401:
    case 403: /* what it says may hold a part of our key */
        snprintf(c->detail, sizeof c->detail, "it says %ld: the key is wrong", c->status);
        refuse(e, ERR_UNAVAILABLE, "upstream_key",
               "the upstream does not accept this server's key");
        return RELAY_FAILED;
    case 404:
        refuse(e, ERR_UNAVAILABLE, "upstream_model", "the upstream does not have this model");
        return RELAY_MISSING;
    case 508:
        refuse(e, ERR_UNAVAILABLE, "upstream_loop",
               "the upstream and this server ask each other in a circle");
        return RELAY_MISSING;
    case 408:
    case 429:
    case 503:
        *wait_ms = retry_after(c->easy);
        refuse(e, ERR_BUSY, "upstream_busy", "the upstream has too much to do");
        return RELAY_BUSY;
    default:
        refuse(e, ERR_UNAVAILABLE, "upstream_error", "the upstream failed");
        return RELAY_FAILED;
    }
}

static bool nobody_listens(CURLcode rc)
{
    return rc == CURLE_COULDNT_CONNECT || rc == CURLE_COULDNT_RESOLVE_HOST ||
           rc == CURLE_SSL_CONNECT_ERROR || rc == CURLE_PEER_FAILED_VERIFICATION;
}

static enum relay_verdict timed_out(const char *late, struct err *e)
{
    refuse(e, ERR_UNAVAILABLE, "upstream_timeout",
           late[0] == 'f' ? "the upstream did not begin to answer in time"
                          : "the upstream fell silent in the middle of its answer");
    return RELAY_FAILED;
}

enum relay_verdict relay_call_verdict(struct relay_call *c, CURLcode rc, const char *late,
                                      double *wait_ms, struct err *e)
{
    const struct relay_answer *a = c->p.answer;
    if (late)
        return timed_out(late, e);
    if (rc == CURLE_OK && c->status == 200 && !c->over && !c->rubbish.code)
        take_rest(c);
    if (c->status && c->status != 200)
        return by_status(c, wait_ms, e);
    if (a->lacks_logprobs) {
        err_field(e, ERR_UNSUPPORTED, "logprobs",
                  "this model's upstream gives no log probabilities");
        return RELAY_REFUSED;
    }
    if (a->failed.code) {
        snprintf(c->detail, sizeof c->detail, "%.199s", a->failed.text);
        refuse(e, ERR_UNAVAILABLE, "upstream_error", "the upstream broke off with an error");
        return RELAY_FAILED;
    }
    if (c->rubbish.code) {
        snprintf(c->detail, sizeof c->detail, "%.199s", c->rubbish.text);
        refuse(e, ERR_UNAVAILABLE, "upstream_broken", "the upstream can't be understood");
        return RELAY_FAILED;
    }
    if (nobody_listens(rc)) {
        snprintf(c->detail, sizeof c->detail, "%.199s",
                 c->why[0] ? c->why : curl_easy_strerror(rc));
        refuse(e, ERR_UNAVAILABLE, "upstream_down", "the upstream can't be reached");
        return RELAY_DOWN;
    }
    c->whole = a->finished && (rc == CURLE_OK || c->over);
    if (c->whole)
        return RELAY_WHOLE;
    if (rc != CURLE_OK)
        snprintf(c->detail, sizeof c->detail, "%.199s",
                 c->why[0] ? c->why : curl_easy_strerror(rc));
    refuse(e, ERR_UNAVAILABLE, "upstream_broken",
           rc == CURLE_OPERATION_TIMEDOUT ? "the upstream did not accept the connection in time"
                                          : "the upstream broke off before its answer's end");
    return rc == CURLE_OPERATION_TIMEDOUT && !c->status ? RELAY_DOWN : RELAY_FAILED;
}
