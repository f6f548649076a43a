/* Open WebUI's export of chats: history.messages is a tree by id, currentId the leaf. Reasoning
 * stands in the content as a block of HTML. Older ones have a list of messages only. */
#include <stdlib.h>
#include <string.h>

#include "engine/base/arena.h"
#include "engine/base/json/json.h"
#include "fcgi/import/formats.h"

#define THOUGHTS_OPEN "<details type=\"reasoning\""
#define THOUGHTS_CLOSE "</details>"

static bool is(const cJSON *item)
{
    const cJSON *chat = json_member(item, "chat");
    return cJSON_IsObject(chat) && (json_member(chat, "history") || json_member(chat, "messages"));
}

static char *put_entity(char *to, const char **from)
{
    static const struct {
        const char *name;
        char is;
    } entities[] = {{"&gt;", '>'},    {"&lt;", '<'},   {"&quot;", '"'},
                    {"&#x27;", '\''}, {"&#39;", '\''}, {"&amp;", '&'}};
    for (size_t i = 0; i < sizeof entities / sizeof entities[0]; i++)
        if (!strncmp(*from, entities[i].name, strlen(entities[i].name))) {
            *from += strlen(entities[i].name);
            *to = entities[i].is;
            return to + 1;
        }
    *to = *(*from)++;
    return to + 1;
}

/* Without its summary, the quotation marks of its lines, and HTML's entities. */
static const char *plain_thoughts(struct draft *d, const char *from, const char *end, struct err *e)
{
    const char *summary = strstr(from, "</summary>");
    if (summary && summary < end)
        from = summary + strlen("</summary>");
    while (from < end && (*from == '\n' || *from == ' '))
        from++;
    while (end > from && (end[-1] == '\n' || end[-1] == ' '))
        end--;
    char *text = arena_copy(d->arena, from, (size_t)(end - from)), *to = text;
    if (!text) {
        draft_no_memory(e);
        return NULL;
    }
    for (const char *p = text; *p;)
        to = put_entity(to, &p);
    *to = '\0';
    to = text;
    for (const char *p = text; *p;)
        if ((p == text || p[-1] == '\n') && *p == '>')
            p += p[1] == ' ' ? 2 : 1;
        else
            *to++ = *p++;
    *to = '\0';
    return text;
}

/* Takes leading blocks of reasoning out of the content. */
static bool take_thoughts(struct draft *d, struct store_import_message *m, struct err *e)
{
    const char *p = m->content + strspn(m->content, " \n"), *open, *close;
    while (!strncmp(p, THOUGHTS_OPEN, strlen(THOUGHTS_OPEN)) && (open = strchr(p, '>')) &&
           (close = strstr(open, THOUGHTS_CLOSE))) {
        const char *one = plain_thoughts(d, open + 1, close, e);
        if (!one || !(m->reasoning = draft_join(d, m->reasoning, "\n\n", one, e)))
            return false;
        p = close + strlen(THOUGHTS_CLOSE);
        p += strspn(p, " \n");
        m->content = p;
    }
    return true;
}

static bool read_message(struct draft *d, struct draft_node *n, const cJSON *o, struct err *e)
{
    struct store_import_message *m = &n->message;
    const char *model = import_text(o, "model");
    const cJSON *error = json_member(o, "error");
    if (!import_role(import_text(o, "role"), &m->role))
        return err_field(e, ERR_INPUT, n->id, "role '%.20s' is not known", import_text(o, "role"));
    if (!(m->content = import_content(d, json_member(o, "content"), e)))
        return false;
    m->created_at = draft_seconds(json_member(o, "timestamp"));
    if (cJSON_IsArray(json_member(o, "files")))
        d->n_missing += cJSON_GetArraySize(json_member(o, "files"));
    if (m->role == ROLE_ASSISTANT) {
        m->model = *model ? model : NULL;
        if (cJSON_IsFalse(json_member(o, "done")))
            m->status = MESSAGE_STOPPED;
        if (cJSON_IsObject(error)) {
            m->status = MESSAGE_ERROR;
            m->error = *import_text(error, "content") ? import_text(error, "content") : "failed";
        }
        return take_thoughts(d, m, e);
    }
    return true;
}

static bool read_tree(struct draft *d, const cJSON *messages, struct err *e)
{
    const cJSON *o;
    cJSON_ArrayForEach (o, messages) {
        struct draft_node *n = draft_add(d, o->string, import_text(o, "parentId"), e);
        if (!n || !read_message(d, n, o, e))
            return false;
    }
    return true;
}

static bool read_list(struct draft *d, const cJSON *messages, struct err *e)
{
    const cJSON *o;
    const char *last = NULL;
    cJSON_ArrayForEach (o, messages) {
        const char *id = arena_printf(d->arena, "%d", d->n_nodes);
        struct draft_node *n = id ? draft_add(d, id, last, e) : NULL;
        if (!n)
            return draft_no_memory(e);
        if (!read_message(d, n, o, e))
            return false;
        last = id;
    }
    return true;
}

static void read_tags(struct draft *d, const cJSON *tags)
{
    const cJSON *tag;
    cJSON_ArrayForEach (tag, tags)
        draft_tag(d, cJSON_IsString(tag) ? tag->valuestring : import_text(tag, "name"));
}

static bool read(struct draft *d, const cJSON *item, struct json_slice text, struct err *e)
{
    const cJSON *chat = json_member(item, "chat"), *history = json_member(chat, "history"),
                *tree = json_member(history, "messages");
    const char *title = import_text(item, "title");
    (void)text;
    d->source_id = import_text(item, "id");
    d->out.created_at = draft_seconds(json_member(item, "created_at"));
    d->out.updated_at = draft_seconds(json_member(item, "updated_at"));
    d->out.archived = cJSON_IsTrue(json_member(item, "archived"));
    d->out.pinned = cJSON_IsTrue(json_member(item, "pinned"));
    d->system = import_text(json_member(chat, "params"), "system");
    read_tags(d, json_member(json_member(item, "meta"), "tags"));
    if (!d->out.n_tags)
        read_tags(d, json_member(chat, "tags"));
    if (!draft_title(d, *title ? title : import_text(chat, "title"), e))
        return false;
    if (!cJSON_IsObject(tree))
        return read_list(d, json_member(chat, "messages"), e);
    d->shown = import_text(history, "currentId");
    return read_tree(d, tree, e);
}

const struct import_format format_openwebui = {.name = "openwebui", .is = is, .read = read};
