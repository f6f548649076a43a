/* What a chat asks the server, and its answers as events. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/file.h"
#include "engine/base/json/json.h"
#include "fcgi/cli/chat/chat.h"

#define DIM "\033[2m"
#define PLAIN "\033[0m"
enum { MAX_UPLOAD = 1 << 30, MAX_EVENT = 64 << 20 };

static volatile sig_atomic_t interrupted;

static void on_interrupt(int number)
{
    interrupted = 1;
}

void chat_catch_interrupts(void)
{
    struct sigaction stop = {.sa_handler = on_interrupt}; /* without SA_RESTART: reading ends too */
    sigaction(SIGINT, &stop, NULL);
}

struct answer {
    struct chat *chat;
    struct buf line, event; /* a line that is not whole yet; the event's name */
    bool reasoning, printed, ended;
    char id[32];
    struct err error;
};

static void copy_id(const cJSON *o, const char *name, char out[32])
{
    const char *id = json_text(o, name);
    if (id)
        snprintf(out, 32, "%s", id);
}

static void print_piece(struct answer *a, const char *text, bool reasoning)
{
    const struct chat *c = a->chat;
    if (!text || !*text || c->quiet)
        return;
    if (reasoning != a->reasoning && a->printed)
        fputs(reasoning ? "\n" : "\n\n", stdout);
    if (!c->plain && reasoning && (!a->reasoning || !a->printed))
        fputs(DIM, stdout);
    if (!c->plain && !reasoning && a->reasoning)
        fputs(PLAIN, stdout);
    a->reasoning = reasoning;
    a->printed = true;
    fputs(text, stdout);
    fflush(stdout);
}

static void take_event(struct answer *a, const char *name, const char *data, size_t len)
{
    struct chat *c = a->chat;
    cJSON *o = json_parse(data, len, NULL, NULL);
    cJSON *message = cJSON_GetObjectItemCaseSensitive(o, "message");
    if (!strcmp(name, "start")) {
        copy_id(message, "id", a->id);
    } else if (!strcmp(name, "delta")) {
        print_piece(a, json_text(o, "reasoning"), true);
        print_piece(a, json_text(o, "content"), false);
    } else if (!strcmp(name, "done") || !strcmp(name, "error")) {
        const char *said = json_text(json_member(o, "error"), "message");
        a->ended = true;
        copy_id(message, "id", c->leaf);
        if (said)
            err_set(&a->error, ERR_UNAVAILABLE, "%.300s", said);
        cJSON_Delete(c->last);
        c->last = cJSON_DetachItemFromObjectCaseSensitive(o, "message");
    }
    cJSON_Delete(o);
}

static void take_line(struct answer *a)
{
    const char *line = a->line.data ? a->line.data : "";
    if (!strncmp(line, "event: ", 7)) {
        buf_clear(&a->event);
        buf_puts(&a->event, line + 7);
    } else if (!strncmp(line, "data: ", 6) && a->event.data) {
        take_event(a, a->event.data, line + 6, strlen(line + 6));
    }
    buf_clear(&a->line);
}

static void stop_answer(const struct answer *a)
{
    struct buf path = {0}, out = {0};
    struct err none = {0};
    if (a->id[0] && buf_printf(&path, "/api/messages/%s/stop", a->id))
        cli_http_do(&a->chat->server,
                    &(struct cli_http_call){
                        .method = "POST", .path = path.data, .body = "{}", .body_len = 2},
                    &out, NULL, &none);
    buf_fini(&path);
    buf_fini(&out);
}

/* cli_http_call's on_data */
static bool on_events(void *context, const char *data, size_t n)
{
    struct answer *a = context;
    for (size_t i = 0; i < n; i++)
        if (data[i] == '\n')
            take_line(a);
        else if (data[i] != '\r' && !buf_putc(&a->line, data[i]))
            return false;
    if (interrupted == 1) { /* the last events still come, and tell what is kept */
        interrupted = 2;
        stop_answer(a);
    }
    return true;
}

static bool begin(struct chat *c, struct err *e)
{
    struct buf out = {0};
    const struct cli_http_call call = {
        .method = "POST", .path = "/api/conversations", .body = "{}", .body_len = 2};
    if (c->conversation[0])
        return true;
    bool ok = cli_http_do(&c->server, &call, &out, NULL, e);
    cJSON *o = ok ? json_parse(out.data, out.len, NULL, e) : NULL;
    copy_id(o, "id", c->conversation);
    cJSON_Delete(o);
    buf_fini(&out);
    return ok && (c->conversation[0] || err_set(e, ERR_FORMAT, "the server made no conversation"));
}

static bool write_message(const struct chat *c, const char *text, struct buf *body, struct err *e)
{
    cJSON *o = cJSON_CreateObject();
    if (text) {
        cJSON_AddStringToObject(o, "content", text);
        if (c->leaf[0])
            cJSON_AddStringToObject(o, "parent_id", c->leaf);
        cJSON *files = c->n_files ? cJSON_AddArrayToObject(o, "attachments") : NULL;
        for (int i = 0; i < c->n_files; i++)
            cJSON_AddItemToArray(files, cJSON_CreateString(c->files[i]));
    } else {
        cJSON_AddStringToObject(o, "regenerate", c->leaf);
    }
    bool ok = json_write(body, o);
    cJSON_Delete(o);
    return ok || err_set(e, ERR_NOMEM, "out of memory");
}

bool chat_say(struct chat *c, const char *text, struct err *e)
{
    struct buf body = {0}, path = {0}, out = {0};
    struct answer a = {.chat = c, .line = {.limit = MAX_EVENT}};
    interrupted = 0;
    if (!text && !c->leaf[0])
        return err_set(e, ERR_INPUT, "there is no answer yet to give another one to");
    bool ok = begin(c, e) && write_message(c, text, &body, e) &&
              (buf_printf(&path, "/api/conversations/%s/messages", c->conversation) ||
               err_set(e, ERR_NOMEM, "out of memory"));
    const struct cli_http_call call = {.method = "POST",
                                       .path = path.data,
                                       .body = body.data,
                                       .body_len = body.len,
                                       .on_data = on_events,
                                       .context = &a};
    ok = ok && cli_http_do(&c->server, &call, &out, NULL, e);
    if (ok)
        c->n_files = 0;
    if (a.printed)
        fputs(!c->plain && a.reasoning ? PLAIN "\n" : "\n", stdout);
    if (ok && !a.ended)
        ok = err_set(e, ERR_UNAVAILABLE,
                     "the server broke off; what was written is kept: `sluice chat --continue` "
                     "shows it");
    if (ok && a.error.code) {
        *e = a.error;
        ok = false;
    }
    buf_fini(&body);
    buf_fini(&path);
    buf_fini(&out);
    buf_fini(&a.line);
    buf_fini(&a.event);
    return ok;
}

static void put_escaped(struct buf *b, const char *s)
{
    for (; *s; s++)
        buf_printf(b, "%%%02X", (unsigned char)*s);
}

bool chat_attach(struct chat *c, const char *path, struct err *e)
{
    struct buf file = {0}, where = {0}, out = {0};
    cJSON *o = NULL;
    if (c->n_files == CHAT_FILES_MAX)
        return err_set(e, ERR_LIMIT, "a message takes %d files", CHAT_FILES_MAX);
    bool ok = file_read(path, MAX_UPLOAD, &file, e) && buf_puts(&where, "/api/attachments?name=");
    put_escaped(&where, file_base_name(path));
    const struct cli_http_call call = {.method = "POST",
                                       .path = where.data,
                                       .body = file.data ? file.data : "",
                                       .body_len = file.len,
                                       .type = "application/octet-stream"};
    ok = ok && cli_http_do(&c->server, &call, &out, NULL, e) &&
         (o = json_parse(out.data ? out.data : "", out.len, NULL, e)) != NULL;
    if (ok)
        copy_id(o, "id", c->files[c->n_files++]);
    cJSON_Delete(o);
    buf_fini(&file);
    buf_fini(&where);
    buf_fini(&out);
    return ok;
}

static cJSON *get(const struct chat *c, const char *path, struct err *e)
{
    struct buf out = {0};
    cJSON *o = cli_http_do(&c->server, &(struct cli_http_call){.method = "GET", .path = path}, &out,
                           NULL, e)
                   ? json_parse(out.data ? out.data : "", out.len, NULL, e)
                   : NULL;
    buf_fini(&out);
    return o;
}

bool chat_list(const struct chat *c, bool json, struct err *e)
{
    struct buf b = {0};
    cJSON *o = get(c, "/api/conversations?limit=20", e);
    const cJSON *item;
    if (o && json && json_write(&b, json_member(o, "items")))
        puts(b.data);
    if (!json)
        cJSON_ArrayForEach (item, json_member(o, "items"))
            printf("%-8s %s\n", json_text(item, "id") ? json_text(item, "id") : "",
                   json_text(item, "title") ? json_text(item, "title") : "");
    buf_fini(&b);
    cJSON_Delete(o);
    return o != NULL;
}

static bool newest(const struct chat *c, char id[32], struct err *e)
{
    cJSON *o = get(c, "/api/conversations?limit=1", e);
    id[0] = '\0';
    copy_id(cJSON_GetArrayItem(json_member(o, "items"), 0), "id", id);
    bool there = o && (id[0] || err_set(e, ERR_NOTFOUND, "there is no conversation yet"));
    cJSON_Delete(o);
    return there;
}

static const cJSON *message_of(const cJSON *messages, const char *id)
{
    const cJSON *m;
    cJSON_ArrayForEach (m, messages)
        if (id && json_text(m, "id") && !strcmp(json_text(m, "id"), id))
            return m;
    return NULL;
}

/* The branch that the page displays, from its first message. */
static void print_branch(const struct chat *c, const cJSON *messages, const char *leaf)
{
    const cJSON *m = message_of(messages, leaf);
    const char *content = json_text(m, "content"), *role = json_text(m, "role");
    if (!m)
        return;
    print_branch(c, messages, json_text(m, "parent_id"));
    bool own = role && !strcmp(role, "user");
    printf("%s%s%s\n\n", own ? "> " : "", content ? content : "", "");
}

bool chat_open(struct chat *c, const char *id, bool show, struct err *e)
{
    char found[32];
    struct buf path = {0};
    if (!id && !newest(c, found, e))
        return false;
    id = id ? id : found;
    if (!*id || id[strspn(id, "0123456789")])
        return err_set(e, ERR_INPUT, "'%.40s' is no conversation's id; /list shows them", id);
    buf_printf(&path, "/api/conversations/%s", id);
    cJSON *o = path.failed ? NULL : get(c, path.data, e);
    buf_fini(&path);
    if (!o)
        return false;
    chat_forget(c);
    copy_id(o, "id", c->conversation);
    copy_id(o, "leaf_id", c->leaf);
    if (show)
        print_branch(c, json_member(o, "messages"), c->leaf);
    cJSON_Delete(o);
    return true;
}

void chat_forget(struct chat *c)
{
    c->conversation[0] = c->leaf[0] = '\0';
    c->n_files = 0;
    cJSON_Delete(c->last);
    c->last = NULL;
}
