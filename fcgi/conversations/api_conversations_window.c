/* A window on long conversations: they open with the texts of their last messages, and the other
 * texts follow page by page. The place of each message in the tree is sent at once, since places
 * are small. */
#include <string.h>

#include "engine/base/json/json_slice.h"
#include "fcgi/conversations/conversation.h"
#include "fcgi/http/path_id.h"
#include "fcgi/http/reply.h"
#include "fcgi/http/request.h"
#include "sql/chats/store_conversations.h"

#define MAX_REPLY ((size_t)512 << 20)
#define PIECE_DEFAULT 500

struct window {
    struct buf *out;
    int64_t *whole; /* ids that came with their texts, ascending */
    int n, at;      /* at: the next of them that the list of places comes to */
};

static void separate(struct buf *out)
{
    if (!buf_ends_with(out, '['))
        buf_putc(out, ',');
}

/* Each answer in a project keeps the instructions that it was given, up to 16 KB of them; the page
 * opens chats with hundreds of answers, and shows none. */
static bool cut_instructions(const char *sources, struct buf *out)
{
    static const char name[] = "\"instructions\"";
    const size_t len = strlen(sources);
    const struct json_slice v = json_slice_member(json_slice_of(sources, len), "instructions");
    if (!v.text)
        return buf_puts(out, sources);
    const char *begin = v.text - sizeof name /* with the colon */, *end = v.text + v.len;
    while (begin > sources && memcmp(begin, name, sizeof name - 1) != 0)
        begin--;
    end += strspn(end, " \t\r\n");
    if (*end == ',')
        end++;
    else /* the last member: the comma before it goes */
        while (begin > sources + 1 && begin[-1] != '{' && *begin != ',')
            begin--;
    return buf_append(out, sources, (size_t)(begin - sources)) && buf_puts(out, end);
}

static void put_short(struct buf *out, const struct store_message *m)
{
    struct buf sources = {0};
    struct store_message shown = *m;
    if (m->sources && cut_instructions(m->sources, &sources))
        shown.sources = sources.data;
    conversation_message_json(out, &shown);
    buf_fini(&sources);
}

static bool put_whole(void *context, const struct store_message *m)
{
    struct window *w = context;
    separate(w->out);
    put_short(w->out, m);
    w->whole[w->n++] = m->id;
    return !w->out->failed;
}

static bool put_place(void *context, const struct store_message *m)
{
    struct window *w = context;
    while (w->at < w->n && w->whole[w->at] < m->id)
        w->at++;
    if (w->at < w->n && w->whole[w->at] == m->id)
        return true;
    separate(w->out);
    buf_printf(w->out,
               "{\"id\":\"%lld\",\"conversation_id\":\"%lld\",\"parent_id\":", (long long)m->id,
               (long long)m->conversation_id);
    buf_printf(w->out, m->parent_id ? "\"%lld\"" : "null", (long long)m->parent_id);
    buf_printf(w->out, ",\"role\":\"%s\",\"status\":\"%s\",\"partial\":true}",
               store_role_name(m->role), store_status_name(m->status));
    return !w->out->failed;
}

bool conversation_put_end(struct request *r, const struct store_conversation *c, int texts,
                          struct buf *out, struct err *e)
{
    struct window w = {.out = out, .whole = arena_alloc(r->arena, (size_t)texts * sizeof(int64_t))};
    if (!w.whole)
        return err_set(e, ERR_NOMEM, "no memory for the messages");
    return store_message_branch(r->store,
                                &(struct store_branch){.user_id = r->who.user_id,
                                                       .conversation_id = c->id,
                                                       .leaf_id = c->leaf_id,
                                                       .limit = texts},
                                put_whole, &w, e) &&
           store_message_places(r->store,
                                &(struct store_ref){.user_id = r->who.user_id, .id = c->id},
                                put_place, &w, e);
}

struct piece {
    struct buf out;
    int n, limit;
    int64_t last;
    bool more;
};

static bool put_message(void *context, const struct store_message *m)
{
    struct piece *p = context;
    if (p->n == p->limit) {
        p->more = true;
        return false;
    }
    if (p->n++)
        buf_putc(&p->out, ',');
    put_short(&p->out, m);
    p->last = m->id;
    return !p->out.failed;
}

bool conversation_texts(struct request *r, struct err *e)
{
    int64_t id, after = 0, limit = PIECE_DEFAULT;
    struct store_conversation c;
    if (!path_id_param(r, "id", &id, e) ||
        !request_query_int(r, "limit", 1, CONVERSATION_TEXTS_MAX, &limit, e) ||
        !request_query_int(r, "after", 0, INT64_MAX, &after, e) ||
        !store_conversation_get(r->store, r->arena,
                                &(struct store_ref){.user_id = r->who.user_id, .id = id}, &c, e))
        return false;
    struct piece p = {.out = {.limit = MAX_REPLY}, .limit = (int)limit};
    buf_puts(&p.out, "{\"items\":[");
    bool ok = store_message_list(r->store,
                                 &(struct store_message_range){.user_id = r->who.user_id,
                                                               .conversation_id = id,
                                                               .after = after,
                                                               .limit = (int)limit + 1},
                                 put_message, &p, e);
    if (p.more)
        buf_printf(&p.out, "],\"next\":\"%lld\"}", (long long)p.last);
    else
        buf_puts(&p.out, "],\"next\":null}");
    if (ok)
        reply_json_buf(r, 200, &p.out);
    buf_fini(&p.out);
    return ok;
}
