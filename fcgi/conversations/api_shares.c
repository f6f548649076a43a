/* Read-only links to conversations: make, list, revoke, and what is behind one. docs/API-pages.md
 * is the contract.
 *
 * A link's token is a secret of 256 bits, shown once and kept as a hash: it is looked up by that
 * hash, so the time of a look-up says nothing of other tokens. nginx bounds how often an address
 * may ask. */
#include <stdio.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/json/json.h"
#include "engine/base/log.h"
#include "fcgi/attachments/attachment.h"
#include "fcgi/config/server_settings.h"
#include "fcgi/conversations/conversation.h"
#include "fcgi/http/audit.h"
#include "fcgi/http/path_id.h"
#include "fcgi/http/reply.h"
#include "fcgi/http/reply_stream.h"
#include "fcgi/http/request.h"
#include "fcgi/http/work.h"
#include "fcgi/openai/chat_request.h"
#include "sql/chats/store_conversations.h"
#include "sql/chats/store_shares.h"

#define LOG_MODULE "shares"
#define MAX_REPLY ((size_t)512 << 20)
#define PIECE_BYTES ((size_t)64 << 10)
#define DAY_MS ((int64_t)24 * 3600 * 1000)
#define MAX_DAYS 3650

static const struct field_row share_fields[] = {
    {"leaf_id", FIELD_READ}, {"expires_in_days", FIELD_READ}, {"attachments", FIELD_READ}, {0}};

static void put_share(struct buf *out, const struct store_share *share)
{
    buf_printf(out, "{\"id\":\"%lld\",\"conversation_id\":\"%lld\",\"leaf_id\":\"%lld\",\"title\":",
               (long long)share->id, (long long)share->conversation_id, (long long)share->leaf_id);
    buf_json_string(out, share->title, strlen(share->title));
    buf_printf(out, ",\"created_at\":%lld,\"expires_at\":", (long long)share->created_at);
    buf_printf(out, share->expires_at ? "%lld" : "null", (long long)share->expires_at);
    buf_printf(out, ",\"attachments\":%s", share->files ? "true" : "false");
}

static bool check_allowed(const struct request *r, struct err *e)
{
    return server_setting_bool(r, SETTING_SHARE_LINKS) ||
           err_set(e, ERR_FORBIDDEN, "links are turned off on this server") ||
           err_reason(e, "links_off");
}

static bool read_share(struct request *r, const cJSON *body, struct store_share *share,
                       struct err *e)
{
    struct store_conversation c;
    const char *leaf = NULL;
    int64_t days = 0;
    if (!fields_check(r, body, share_fields, e) || !json_get_string(body, "leaf_id", &leaf, e) ||
        !json_get_int(body, "expires_in_days", 1, MAX_DAYS, &days, e) ||
        !json_get_bool(body, "attachments", &share->files, e) ||
        !store_conversation_get(
            r->store, r->arena,
            &(struct store_ref){.user_id = r->who.user_id, .id = share->conversation_id}, &c, e))
        return false;
    share->leaf_id = c.leaf_id;
    share->title = c.title;
    if (days)
        share->expires_at = clock_wall_ms() + days * DAY_MS;
    if (leaf && !path_id_parse(leaf, &share->leaf_id))
        return err_field(e, ERR_INPUT, "leaf_id", "is not a message of this conversation");
    return share->leaf_id || err_set(e, ERR_INPUT, "there is nothing to share yet") ||
           err_reason(e, "nothing_to_share");
}

static bool make_share(struct request *r, struct err *e)
{
    struct store_share share = {.user_id = r->who.user_id, .created_at = clock_wall_ms()};
    char token[SECRET_TOKEN_SIZE], target[64];
    unsigned char hash[SECRET_HASH_BYTES];
    const cJSON *body = request_json(r, e);
    if (!body || !path_id_param(r, "id", &share.conversation_id, e) || !check_allowed(r, e) ||
        !read_share(r, body, &share, e))
        return false;
    secret_token(token);
    secret_hash(token, hash);
    if (!store_share_add(r->store, &share, hash, &share.id, e))
        return false;
    snprintf(target, sizeof target, "conversation:%lld share:%lld",
             (long long)share.conversation_id, (long long)share.id);
    audit_record(r, r->who.user_id, r->who.name, "share.add", target);
    struct buf out = {0};
    put_share(&out, &share);
    buf_printf(&out, ",\"token\":\"%s\",\"path\":\"/s/%s\"}", token, token);
    reply_json_buf(r, 201, &out);
    secret_wipe(token, sizeof token);
    buf_fini(&out);
    return true;
}

static bool list_one(void *context, const struct store_share *share)
{
    struct buf *out = context;
    if (!buf_ends_with(out, '['))
        buf_putc(out, ',');
    put_share(out, share);
    buf_putc(out, '}');
    return !out->failed;
}

static bool reply_list(struct request *r, int64_t conversation_id, struct err *e)
{
    struct buf out = {.limit = MAX_REPLY};
    buf_printf(&out, "{\"allowed\":%s,\"items\":[",
               server_setting_bool(r, SETTING_SHARE_LINKS) ? "true" : "false");
    bool ok = store_share_list(
        r->store, &(struct store_ref){.user_id = r->who.user_id, .id = conversation_id}, list_one,
        &out, e);
    buf_puts(&out, "]}");
    if (ok)
        reply_json_buf(r, 200, &out);
    buf_fini(&out);
    return ok;
}

static bool list_of_conversation(struct request *r, struct err *e)
{
    int64_t id;
    struct store_conversation c;
    return path_id_param(r, "id", &id, e) &&
           store_conversation_get(r->store, r->arena,
                                  &(struct store_ref){.user_id = r->who.user_id, .id = id}, &c,
                                  e) &&
           reply_list(r, id, e);
}

static bool list_all(struct request *r, struct err *e)
{
    return reply_list(r, 0, e);
}

/* A link can be deleted even while links are turned off. */
static bool remove_share(struct request *r, struct err *e)
{
    int64_t id;
    char target[32];
    if (!path_id_param(r, "id", &id, e) || !store_share_remove(r->store, r->who.user_id, id, e))
        return false;
    snprintf(target, sizeof target, "share:%lld", (long long)id);
    audit_record(r, r->who.user_id, r->who.name, "share.remove", target);
    return reply_empty(r, 204);
}

/* A reply that is written as the rows are read: strangers may ask for it, many at once, and a
 * conversation may be long. What fits into one piece is sent as a whole reply. */
struct shown {
    struct request *r;
    struct buf out; /* not sent yet */
    bool files, begun;
    int n;             /* messages so far */
    struct err failed; /* what ended it early */
};

static bool send_piece(struct shown *w)
{
    struct err *e = &w->failed;
    if (w->out.failed)
        return err_set(e, ERR_NOMEM, "no memory for the answer");
    if (!w->begun && !reply_stream_begin(w->r, 200, "application/json"))
        return err_set(e, ERR_CANCELLED, "the client has gone");
    w->begun = true;
    const bool ok = reply_stream_write(w->r, w->out.data, w->out.len, e);
    buf_clear(&w->out);
    return ok;
}

/* A text of any length as a JSON string. */
static bool put_text(struct shown *w, const char *text, size_t len)
{
    buf_putc(&w->out, '"');
    for (size_t n; len; text += n, len -= n) {
        n = len < PIECE_BYTES ? len : PIECE_BYTES;
        while (n < len && n > PIECE_BYTES - 4 && ((unsigned char)text[n] & 0xC0) == 0x80)
            n--; /* not within a character */
        buf_json_piece(&w->out, text, n);
        if (w->out.len >= PIECE_BYTES && !send_piece(w))
            return false;
    }
    return buf_putc(&w->out, '"');
}

/* Writes what a stranger needs of a file: its name, type and size, and the hash to request it by.
 */
static bool put_files(struct buf *out, const char *attachments)
{
    const cJSON *file;
    cJSON *list = json_parse(attachments, strlen(attachments), NULL, NULL);
    if (!list)
        return false;
    buf_puts(out, ",\"attachments\":[");
    cJSON_ArrayForEach (file, list) {
        const cJSON *bytes = json_member(file, "bytes");
        buf_printf(out, "%s{\"bytes\":%.0f", file == list->child ? "" : ",",
                   bytes ? bytes->valuedouble : 0);
        buf_json_member(out, "name", json_text(file, "name"));
        buf_json_member(out, "type", json_text(file, "type"));
        buf_json_member(out, "sha256", json_text(file, "sha256"));
        buf_putc(out, '}');
    }
    cJSON_Delete(list);
    return buf_putc(out, ']');
}

/* Writes the texts and nothing about their author: no ids, names, settings or figures. */
static bool put_message(void *context, const struct store_message *m)
{
    struct shown *w = context;
    struct buf *out = &w->out;
    if (m->role == ROLE_SYSTEM)
        return true;
    buf_printf(out, "%s{\"role\":\"%s\",\"status\":\"%s\",\"created_at\":%lld,\"content\":",
               w->n++ ? "," : "", store_role_name(m->role), store_status_name(m->status),
               (long long)m->created_at);
    if (!put_text(w, m->content, m->content_len) || !buf_puts(out, ",\"reasoning\":") ||
        !put_text(w, m->reasoning, m->reasoning_len))
        return false;
    buf_printf(out, ",\"tool_calls\":%s", m->tool_calls ? m->tool_calls : "null");
    buf_json_member(out, "model", m->model);
    out->failed |= w->files && !put_files(out, m->attachments);
    buf_putc(out, '}');
    return out->len < PIECE_BYTES || send_piece(w);
}

/* Finds the share of the token in the path; a disabled link is treated as if it had never existed.
 */
static bool find_shared(struct request *r, struct store_share *share, struct err *e)
{
    unsigned char hash[SECRET_HASH_BYTES];
    const char *token = request_param(r, "token");
    reply_header(r, "X-Robots-Tag", "noindex, nofollow, noarchive");
    secret_hash(token ? token : "", hash);
    return store_share_find(r->store, r->arena, hash, share, e) &&
           (server_setting_bool(r, SETTING_SHARE_LINKS) ||
            err_set(e, ERR_NOTFOUND,
                    "there is nothing behind this link: it was revoked, has expired or never was"));
}

/* True: the reply is on its way, or broke off within. */
static bool end_shown(struct shown *w, bool ok, struct err *e)
{
    const bool whole = ok && w->failed.code == ERR_NONE;
    if (!w->begun && whole)
        return reply_json_buf(w->r, 200, &w->out);
    if (!w->begun)
        return ok ? err_set(e, w->failed.code, "%s", w->failed.text) : false;
    if (whole && send_piece(w)) {
        reply_stream_end(w->r);
        return true;
    }
    const struct err *why = ok ? &w->failed : e;
    if (why->code != ERR_CANCELLED)
        log_error("id=%s a shared conversation broke off: %s", w->r->id, why->text);
    reply_stream_break(w->r);
    return true;
}

static bool read_shared(struct request *r, struct err *e)
{
    struct store_share share;
    struct shown w = {.r = r};
    struct buf *out = &w.out;
    if (!find_shared(r, &share, e) || !work_begin(r, WORK_SHARE, e))
        return false;
    w.files = share.files;
    buf_puts(out, "{\"title\":");
    buf_json_string(out, share.title, strlen(share.title));
    buf_printf(out, ",\"shared_at\":%lld,\"expires_at\":", (long long)share.created_at);
    buf_printf(out, share.expires_at ? "%lld" : "null", (long long)share.expires_at);
    buf_puts(out, ",\"messages\":[");
    bool ok = store_message_branch(r->store,
                                   &(struct store_branch){.user_id = share.user_id,
                                                          .conversation_id = share.conversation_id,
                                                          .leaf_id = share.leaf_id},
                                   put_message, &w, e);
    buf_puts(out, "]}");
    ok = end_shown(&w, ok, e);
    buf_fini(out);
    return ok;
}

/* By its content, so that nothing is named by which others could be guessed: whoever has the hash
 * has seen the list. */
static bool read_shared_file(struct request *r, struct err *e)
{
    struct store_share share;
    struct store_attachment file;
    struct store_ref ref;
    if (!find_shared(r, &share, e) ||
        !store_share_file(r->store, &share, request_param(r, "sha256"), &ref.id, e))
        return false;
    ref.user_id = share.user_id;
    return store_attachment_get(r->store, r->arena, &ref, &file, e) && attachment_send(r, &file, e);
}

const struct route api_shares_routes[] = {
    {.method = HTTP_GET,
     .path = "/api/shares",
     .auth = ROUTE_USER,
     .pool = POOL_SHORT,
     .handler = list_all,
     .scope = SCOPE_HISTORY,
     .doc = {.summary = "List the own links", .reply = "ShareList", .statuses = "200"}},
    {.method = HTTP_DELETE,
     .path = "/api/shares/{id}",
     .auth = ROUTE_USER,
     .pool = POOL_SHORT,
     .handler = remove_share,
     .scope = SCOPE_HISTORY,
     .doc = {.summary = "Revoke a link at once", .statuses = "204"}},
    {.method = HTTP_GET,
     .path = "/api/conversations/{id}/shares",
     .auth = ROUTE_USER,
     .pool = POOL_SHORT,
     .handler = list_of_conversation,
     .scope = SCOPE_HISTORY,
     .doc = {.summary = "List the links to a conversation",
             .reply = "ShareList",
             .statuses = "200"}},
    {.method = HTTP_POST,
     .path = "/api/conversations/{id}/shares",
     .auth = ROUTE_USER,
     .pool = POOL_SHORT,
     .body_limit = ROUTE_JSON_BODY,
     .handler = make_share,
     .scope = SCOPE_HISTORY,
     .doc = {.summary = "Make a read-only link to a conversation; its token is shown this once",
             .body = "ShareRequest",
             .reply = "NewShare",
             .statuses = "201 403 409"}},
    {.method = HTTP_GET,
     .path = "/api/shared/{token}",
     .auth = ROUTE_OPEN,
     .pool = POOL_SHORT,
     .handler = read_shared,
     .scope = SCOPE_ANY,
     .doc = {.summary = "What is behind a read-only link; needs no account",
             .reply = "Shared",
             .statuses = "200 404 429"}},
    {.method = HTTP_GET,
     .path = "/api/shared/{token}/attachments/{sha256}",
     .auth = ROUTE_OPEN,
     .pool = POOL_SHORT,
     .handler = read_shared_file,
     .scope = SCOPE_ANY,
     .doc = {.summary = "A file of what is behind a read-only link that shows files",
             .media = "application/octet-stream",
             .statuses = "200 304 404 429"}},
    {0},
};
