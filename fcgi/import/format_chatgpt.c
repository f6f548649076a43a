/* ChatGPT's conversations.json: `mapping` is a tree of nodes by id. Nodes without a message, hidden
 * ones and the model's thoughts are no messages of ours; a message to another recipient than "all"
 * is a tool call, the tool's node its result. */
#include <string.h>

#include "engine/base/arena.h"
#include "engine/base/json/json.h"
#include "fcgi/import/formats.h"

#define MARK_OPEN                                                                                  \
    "\xEE\x88\x80" /* U+E200 ... U+E201: a citation's mark, empty outside ChatGPT's own page */
#define MARK_CLOSE "\xEE\x88\x81"
#define MARK_BYTES 512
/* 【4†source】: a citation as text, which points nowhere outside */
#define CITE_OPEN "\xE3\x80\x90"
#define CITE_DAGGER "\xE2\x80\xA0"
#define CITE_CLOSE "\xE3\x80\x91"
#define CITE_BYTES 96

static bool is(const cJSON *item)
{
    return cJSON_IsObject(json_member(item, "mapping"));
}

/* Texts and placeholders of content.parts. */
static const char *join_parts(struct draft *d, const cJSON *parts, struct err *e)
{
    const char *out = "";
    const cJSON *part;
    cJSON_ArrayForEach (part, parts) {
        const char *text = cJSON_IsString(part) ? part->valuestring : import_text(part, "text"),
                   *type = import_text(part, "content_type");
        if (strstr(type, "image") || strstr(type, "_asset_pointer")) {
            d->n_missing++;
            text = strstr(type, "image") ? "[image]" : strstr(type, "audio") ? "[audio]" : "[file]";
        }
        if (!(out = draft_join(d, out, "\n\n", text, e)))
            return NULL;
    }
    return out;
}

static const char *join_thoughts(struct draft *d, const cJSON *thoughts, struct err *e)
{
    const char *out = "";
    const cJSON *t;
    cJSON_ArrayForEach (t, thoughts) {
        const char *one =
            draft_join(d, import_text(t, "summary"), "\n", import_text(t, "content"), e);
        if (!one || !(out = draft_join(d, out, "\n\n", one, e)))
            return NULL;
    }
    return out;
}

static const char *text_of(struct draft *d, const cJSON *content, struct err *e)
{
    const char *type = import_text(content, "content_type"), *text = import_text(content, "text");
    const cJSON *parts = json_member(content, "parts");
    if (cJSON_IsArray(parts))
        return join_parts(d, parts, e);
    if (!strcmp(type, "tether_browsing_display"))
        text = import_text(content, "result");
    else if (!strcmp(type, "tether_quote"))
        text = draft_join(
            d, draft_join(d, import_text(content, "title"), "\n", import_text(content, "url"), e),
            "\n", text, e);
    else if (!*text)
        text = import_text(content, "content");
    return text;
}

/* The end of the citation's mark that begins at p; NULL: none does. */
static const char *mark_end(const char *p)
{
    const char *end = NULL;
    if (!strncmp(p, MARK_OPEN, 3)) {
        end = strstr(p, MARK_CLOSE);
        return end && end - p <= MARK_BYTES ? end + 3 : NULL;
    }
    if (strncmp(p, CITE_OPEN, 3) != 0 || !(end = strstr(p, CITE_CLOSE)) || end - p > CITE_BYTES)
        return NULL;
    const char *dagger = strstr(p, CITE_DAGGER);
    return dagger && dagger < end ? end + 3 : NULL;
}

/* Without the citations' marks. */
static const char *unmarked(struct draft *d, const char *text, struct err *e)
{
    if (!text || (!strstr(text, MARK_OPEN) && !strstr(text, CITE_OPEN)))
        return text;
    char *out = arena_strdup(d->arena, text), *to = out;
    if (!out) {
        draft_no_memory(e);
        return NULL;
    }
    for (const char *p = out; *p;) {
        const char *end = mark_end(p);
        if (end)
            p = end;
        else
            *to++ = *p++;
    }
    *to = '\0';
    return out;
}

/* Files that a message names beside its parts: they are not in an export, so their names stand for
 * them. Pictures have a part each, which is counted there. */
static const char *name_files(struct draft *d, const cJSON *metadata, const char *text,
                              struct err *e)
{
    const cJSON *file;
    cJSON_ArrayForEach (file, json_member(metadata, "attachments")) {
        const char *name = import_text(file, "name");
        if (!strncmp(import_text(file, "mime_type"), "image/", 6) || !cJSON_IsObject(file))
            continue;
        d->n_missing++;
        const char *words = arena_printf(d->arena, "[%s]", *name ? name : "file");
        if (!words) {
            draft_no_memory(e);
            return NULL;
        }
        if (!(text = draft_join(d, text, "\n\n", words, e)))
            return NULL;
    }
    return text;
}

static enum store_status status_of(const cJSON *message, const cJSON *metadata)
{
    const char *finish = import_text(json_member(metadata, "finish_details"), "type");
    if (!strcmp(finish, "max_tokens"))
        return MESSAGE_LENGTH;
    return !strcmp(finish, "interrupted") || !strcmp(import_text(message, "status"), "in_progress")
               ? MESSAGE_STOPPED
               : MESSAGE_DONE;
}

static bool read_call(struct draft *d, struct draft_node *n, const char *recipient, struct err *e)
{
    if (n->message.role != ROLE_ASSISTANT || !*recipient || !strcmp(recipient, "all") ||
        !*n->message.content)
        return true;
    n->message.tool_calls = draft_call(d, n->id, recipient, n->message.content, e);
    n->message.content = "";
    return n->message.tool_calls != NULL;
}

static bool read_message(struct draft *d, struct draft_node *n, const cJSON *message, struct err *e)
{
    const cJSON *content = json_member(message, "content"),
                *metadata = json_member(message, "metadata");
    const char *type = import_text(content, "content_type");
    struct store_import_message *m = &n->message;
    m->created_at = draft_seconds(json_member(message, "create_time"));
    if (!strcmp(type, "thoughts")) {
        n->hidden = true;
        return (n->thoughts = join_thoughts(d, json_member(content, "thoughts"), e)) != NULL;
    }
    if (!import_role(import_text(json_member(message, "author"), "role"), &m->role))
        return err_field(e, ERR_INPUT, n->id, "author.role '%.20s' is not known",
                         import_text(json_member(message, "author"), "role"));
    if (!strcmp(type, "reasoning_recap") || !strcmp(type, "user_editable_context") ||
        !strcmp(type, "model_editable_context") ||
        cJSON_IsTrue(json_member(metadata, "is_visually_hidden_from_conversation"))) {
        n->hidden = true;
        return true;
    }
    if (!(m->content = unmarked(d, text_of(d, content, e), e)))
        return false;
    if (!(m->content = name_files(d, metadata, m->content, e)))
        return false;
    const char *model = import_text(metadata, "model_slug");
    m->model = m->role == ROLE_ASSISTANT && *model ? model : NULL;
    m->status = status_of(message, metadata);
    n->hidden = !*m->content;
    return read_call(d, n, import_text(message, "recipient"), e);
}

static bool read(struct draft *d, const cJSON *item, struct json_slice text, struct err *e)
{
    const cJSON *node;
    (void)text;
    d->source_id = *import_text(item, "conversation_id") ? import_text(item, "conversation_id")
                                                         : import_text(item, "id");
    d->shown = import_text(item, "current_node");
    d->one_root = true;
    d->out.created_at = draft_seconds(json_member(item, "create_time"));
    d->out.updated_at = draft_seconds(json_member(item, "update_time"));
    d->out.archived = cJSON_IsTrue(json_member(item, "is_archived"));
    d->out.pinned = cJSON_IsTrue(json_member(item, "is_starred"));
    if (!draft_title(d, import_text(item, "title"), e))
        return false;
    cJSON_ArrayForEach (node, json_member(item, "mapping")) {
        const cJSON *message = json_member(node, "message");
        struct draft_node *n = draft_add(d, node->string, import_text(node, "parent"), e);
        if (!n)
            return false;
        n->hidden = !cJSON_IsObject(message);
        if (!n->hidden && !read_message(d, n, message, e))
            return false;
    }
    return true;
}

const struct import_format format_chatgpt = {.name = "chatgpt", .is = is, .read = read};
