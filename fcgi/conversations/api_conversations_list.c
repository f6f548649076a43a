/* GET /api/conversations: the list, and the search in it. */
#include <stdio.h>
#include <string.h>

#include "fcgi/conversations/conversation.h"
#include "fcgi/http/path_id.h"
#include "fcgi/http/reply.h"
#include "fcgi/http/request.h"
#include "sql/chats/store_conversations.h"

#define PAGE_DEFAULT 50
#define MAX_REPLY ((size_t)512 << 20)
#define MATCH_BEFORE 48 /* bytes of a message shown around what was found */
#define MATCH_AFTER 120

static void put_id(struct buf *out, const char *name, int64_t id)
{
    buf_printf(out, id ? ",\"%s\":\"%lld\"" : ",\"%s\":null", name, (long long)id);
}

void conversation_json(struct buf *out, const struct store_conversation *c)
{
    buf_printf(out, "{\"id\":\"%lld\",\"title\":", (long long)c->id);
    buf_json_string(out, c->title, strlen(c->title));
    buf_printf(out,
               ",\"created_at\":%lld,\"updated_at\":%lld,\"running\":%s,\"pinned\":%s,\"archived\":"
               "%s,\"tags\":%s",
               (long long)c->created_at, (long long)c->updated_at, c->running ? "true" : "false",
               c->pinned ? "true" : "false", c->archived ? "true" : "false", c->tags);
    buf_printf(out, c->trashed_at ? ",\"trashed_at\":%lld" : ",\"trashed_at\":null",
               (long long)c->trashed_at);
    put_id(out, "fork_of", c->fork_of);
    put_id(out, "project_id", c->project_id);
}

struct listing {
    struct buf out;
    const char *text; /* what is searched, or NULL */
    int n, limit;
    int64_t first_updated, first_id, last_updated, last_id;
    bool more;
};

static bool inside_letter(const char *p)
{
    return (*p & 0xc0) == 0x80;
}

static bool is_space(char c)
{
    return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

/* Does a sentence or a line begin at p? After "e.g." goes on what is written small. */
static bool begins_sentence(const char *p)
{
    if (p[-1] == '\n')
        return !is_space(*p);
    return is_space(p[-1]) && strchr(".!?", p[-2]) && !is_space(*p) && !(*p >= 'a' && *p <= 'z');
}

/* Where what is shown before a hit begins: with the text, else with a sentence, else with a word.
 * cut: it begins amid a sentence. */
static const char *shown_from(const char *text, const char *hit, bool *cut)
{
    *cut = false;
    if (hit - text <= MATCH_BEFORE)
        return text;
    const char *first = hit - MATCH_BEFORE;
    for (const char *p = first + 1; p <= hit; p++)
        if (begins_sentence(p))
            return p;
    *cut = true;
    for (const char *p = first; p < hit; p++)
        if (is_space(p[-1]) && !is_space(*p))
            return p;
    while (first < hit && inside_letter(first))
        first++;
    return first;
}

/* How many bytes are shown after a hit: whole words, where there are several. */
static size_t shown_after(const char *after, bool *cut)
{
    size_t n = strnlen(after, MATCH_AFTER);
    *cut = after[n] != 0;
    if (!*cut)
        return n;
    size_t words = n;
    while (words && !is_space(after[words]))
        words--;
    while (words && is_space(after[words - 1]))
        words--;
    if (words)
        return words;
    while (n && inside_letter(after + n))
        n--;
    return n;
}

/* The place where the text stands first, with a little around it: three texts, the middle one is
 * what was found. */
static void put_match(struct buf *out, const struct store_conversation *c)
{
    const size_t len = c->match_bytes;
    const char *hit = c->match_text ? c->match_text + c->match_at : NULL;
    if (!len) {
        buf_puts(out, ",\"match\":null");
        return;
    }
    bool cut_before, cut_after;
    const char *from = shown_from(c->match_text, hit, &cut_before);
    const char *after = hit + len;
    const size_t n = shown_after(after, &cut_after);
    buf_printf(out, ",\"match\":{\"message_id\":\"%lld\",\"before\":", (long long)c->match_id);
    buf_json_string(out, from, (size_t)(hit - from));
    buf_puts(out, ",\"text\":");
    buf_json_string(out, hit, len);
    buf_puts(out, ",\"after\":");
    buf_json_string(out, after, n);
    buf_printf(out, ",\"cut_before\":%s,\"cut_after\":%s", cut_before ? "true" : "false",
               cut_after ? "true" : "false");
    if (c->match_file) {
        buf_printf(out, ",\"attachment\":{\"id\":\"%lld\"", (long long)c->match_file);
        buf_json_member(out, "name", c->match_file_name);
        buf_puts(out, "}}");
    } else {
        buf_puts(out, ",\"attachment\":null}");
    }
}

static bool list_one(void *context, const struct store_conversation *c)
{
    struct listing *l = context;
    if (l->n ==
        l->limit) { /* one beyond the page was asked for, to know whether there is a next one */
        l->more = true;
        return false;
    }
    if (l->n++) {
        buf_putc(&l->out, ',');
    } else {
        l->first_updated = c->updated_at;
        l->first_id = c->id;
    }
    conversation_json(&l->out, c);
    if (l->text)
        put_match(&l->out, c);
    buf_putc(&l->out, '}');
    l->last_updated = c->updated_at;
    l->last_id = c->id;
    return true;
}

/* "UPDATED-ID" of a row. */
static bool read_cursor(struct request *r, const char *name, int64_t *at, int64_t *id,
                        struct err *e)
{
    const char *text = request_query(r, name);
    char updated[24];
    const char *dash = text ? strchr(text, '-') : NULL;
    if (!text)
        return true;
    if (dash && (size_t)(dash - text) < sizeof updated) {
        snprintf(updated, sizeof updated, "%.*s", (int)(dash - text), text);
        if (path_id_parse(updated, at) && path_id_parse(dash + 1, id))
            return true;
    }
    return err_field(e, ERR_INPUT, name, "is not a `next` or `prev` of another page");
}

/* 1, 0 or any; left alone when absent. */
static bool read_which(struct request *r, const char *name, enum store_which *out, struct err *e)
{
    const char *v = request_query(r, name);
    if (v && strcmp(v, "0") && strcmp(v, "1") && strcmp(v, "any"))
        return err_field(e, ERR_INPUT, name, "must be 0, 1 or any");
    if (v)
        *out = *v == '1' ? WHICH_YES : *v == '0' ? WHICH_NO : WHICH_ANY;
    return true;
}

/* A cursor that can't be decoded is refused; if it were skipped, the filter would let everything
 * through. */
static bool read_tags(struct request *r, const char *tags[STORE_PAGE_TAGS], struct store_page *page,
                      struct err *e)
{
    page->tags = tags;
    page->n_tags = request_query_all(r, "tag", tags, STORE_PAGE_TAGS);
    if (page->n_tags > STORE_PAGE_TAGS)
        return err_field(e, ERR_INPUT, "tag", "is there more than %d times", STORE_PAGE_TAGS);
    for (int i = 0; i < page->n_tags; i++)
        if (!tags[i])
            return err_field(e, ERR_INPUT, "tag", "is not percent-encoded text");
    return true;
}

/* An id, or none. */
static bool read_project(struct request *r, int64_t *out, struct err *e)
{
    const char *v = request_query(r, "project");
    if (v && !strcmp(v, "none"))
        *out = STORE_NO_PROJECT;
    else if (v && !path_id_parse(v, out))
        return err_field(e, ERR_INPUT, "project", "must be the id of a project, or none");
    return true;
}

static bool read_filters(struct request *r, struct store_page *page, struct err *e)
{
    int64_t trash = 0;
    page->archived = WHICH_NO;
    if (!read_project(r, &page->project, e) || !read_which(r, "pinned", &page->pinned, e) ||
        !read_which(r, "archived", &page->archived, e) ||
        !request_query_int(r, "trash", 0, 1, &trash, e) ||
        !request_query_int(r, "from", 0, INT64_MAX, &page->from, e) ||
        !request_query_int(r, "to", 0, INT64_MAX, &page->to, e))
        return false;
    page->trashed = trash == 1;
    if (page->trashed && !request_query(r, "archived"))
        page->archived = WHICH_ANY;
    return true;
}

static void put_cursor(struct buf *out, const char *name, bool any, int64_t updated, int64_t id)
{
    buf_puts(out, name);
    if (any)
        buf_printf(out, "\"%lld-%lld\"", (long long)updated, (long long)id);
    else
        buf_puts(out, "null");
}

bool conversation_list(struct request *r, struct err *e)
{
    int64_t limit = PAGE_DEFAULT;
    bool cut = false, indexing = false;
    const char *tags[STORE_PAGE_TAGS];
    struct store_page page = {.user_id = r->who.user_id,
                              .text = request_query(r, "q"),
                              .cut = &cut,
                              .indexing = &indexing};
    if (!read_tags(r, tags, &page, e) ||
        !request_query_int(r, "limit", 1, STORE_PAGE_MAX - 1, &limit, e) ||
        !read_cursor(r, "before", &page.before_updated, &page.before_id, e) ||
        !read_cursor(r, "after", &page.after_updated, &page.after_id, e) ||
        !read_filters(r, &page, e))
        return false;
    struct listing l = {.limit = (int)limit,
                        .out = {.limit = MAX_REPLY},
                        .text = page.text && *page.text ? page.text : NULL};
    page.limit = l.limit + (page.after_id ? 0 : 1);
    buf_puts(&l.out, "{\"items\":[");
    bool ok = store_conversation_list(r->store, &page, list_one, &l, e);
    /* This page lies above another one, so there is more below it, and maybe above. */
    put_cursor(&l.out, "],\"next\":", l.more || (page.after_id && l.n), l.last_updated, l.last_id);
    put_cursor(&l.out, ",\"prev\":", page.after_id && l.n == l.limit, l.first_updated, l.first_id);
    buf_puts(&l.out, cut ? ",\"partial\":true" : ",\"partial\":false");
    buf_puts(&l.out, indexing ? ",\"indexing\":true}" : ",\"indexing\":false}");
    if (ok)
        reply_json_buf(r, 200, &l.out);
    buf_fini(&l.out);
    return ok;
}
