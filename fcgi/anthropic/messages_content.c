/* messages_content.h: blocks of every type, each as the text that the model reads. */
#include "fcgi/anthropic/messages_content.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/json/json.h"
#include "fcgi/attachments/attachment.h"
#include "fcgi/http/request.h"
#include "fcgi/openai/chat_files.h"
#include "sql/files/store_attachments.h"

/* Where a block stands, as errors and warnings name it. */
struct place {
    char path[56];
};

static struct place at(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static struct place at(const char *fmt, ...)
{
    struct place p;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(p.path, sizeof p.path, fmt, ap);
    va_end(ap);
    return p;
}

/* The error at a member of the block. */
static bool bad(struct err *e, enum err_code code, struct place p, const char *member,
                const char *why)
{
    char field[sizeof p.path + 24];
    snprintf(field, sizeof field, "%s%.20s", p.path, member);
    return err_field(e, code, field, "%s", why);
}

static bool is_type(const cJSON *block, const char *type)
{
    const char *own = json_text(block, "type");
    return own && !strcmp(own, type);
}

/* ---- documents */

static bool frame_text(struct buf *out, const char *name, const char *text)
{
    return attachment_frame(out, name ? name : "document", text);
}

/* {type: content, content: a string or blocks of text}. */
static bool read_document_content(struct messages_reader *m, const cJSON *source, struct place p,
                                  struct buf *text, struct err *e)
{
    const cJSON *content = json_member(source, "content"), *block;
    if (cJSON_IsString(content))
        return buf_puts(text, content->valuestring);
    if (!cJSON_IsArray(content))
        return bad(e, ERR_INPUT, p, ".source.content", "must be a string or a list of text blocks");
    cJSON_ArrayForEach (block, content) {
        const char *line = json_text(block, "text");
        if (line)
            buf_printf(text, "%s\n", line);
        else if (!ignored_add(m->r, p.path, "of a document's blocks the text is read", e))
            return false;
    }
    return true;
}

static bool read_document(struct messages_reader *m, const cJSON *block, struct place p,
                          struct buf *out, struct err *e)
{
    const cJSON *source = json_member(block, "source");
    const char *type = json_text(source, "type"), *title = json_text(block, "title"),
               *data = json_text(source, "data");
    const char *context = json_text(block, "context");
    struct buf text = {.limit = ATTACHMENT_PROMPT_BYTES};
    bool ok = true;
    if (!type)
        return bad(e, ERR_INPUT, p, ".source", "must be an object with a type");
    if (++m->files > STORE_MESSAGE_ATTACHMENTS)
        return bad(e, ERR_LIMIT, p, "", "is one document too many for a request");
    if ((!strcmp(type, "base64") || !strcmp(type, "text")) && !data)
        return bad(e, ERR_INPUT, p, ".source.data", "must be a string");
    if (context)
        buf_printf(out, "%s\n", context);
    if (!strcmp(type, "base64")) {
        ok = chat_file_text(m->r, &(struct chat_file){.name = title, .data = data, .path = p.path},
                            out, e);
    } else if (!strcmp(type, "text")) {
        frame_text(out, title, data);
    } else if (!strcmp(type, "content")) {
        ok = read_document_content(m, source, p, &text, e) &&
             frame_text(out, title, text.data ? text.data : "");
    } else {
        buf_printf(out, "[document %s: not read]",
                   title                      ? title
                   : json_text(source, "url") ? json_text(source, "url")
                                              : "");
        ok = ignored_add(
            m->r, p.path,
            "documents are read from the request alone, not from an address or a file's id", e);
    }
    buf_fini(&text);
    return ok;
}

/* ---- what other blocks hold of text */

/* A search result's title, address and passages, a tool's name and its result: the members that
 * hold text, in order. */
static void collect_text(struct buf *out, const cJSON *v)
{
    static const char *const members[] = {"title", "url",     "source", "tool_name",
                                          "text",  "content", "stdout", "stderr"};
    const cJSON *item;
    if (cJSON_IsString(v) && *v->valuestring)
        buf_printf(out, "%s\n", v->valuestring);
    if (cJSON_IsArray(v))
        cJSON_ArrayForEach (item, v)
            collect_text(out, item);
    for (size_t i = 0; cJSON_IsObject(v) && i < sizeof members / sizeof members[0]; i++)
        collect_text(out, json_member(v, members[i]));
}

static bool add_other(struct messages_reader *m, cJSON *message, const cJSON *block, struct place p,
                      struct err *e)
{
    struct buf text = {.limit = ATTACHMENT_PROMPT_BYTES};
    bool encrypted = is_type(block, "redacted_thinking");
    if (!encrypted)
        collect_text(&text, block);
    bool ok = text.len ? chat_build_copy(&m->build, m->r->arena, message, &text, e)
                       : ignored_add(m->r, p.path,
                                     encrypted ? "its thinking is encrypted"
                                               : "a block of this type has no text here",
                                     e);
    buf_fini(&text);
    return ok;
}

/* Any block whose text belongs to `message`. */
static bool add_block(struct messages_reader *m, cJSON *message, const cJSON *block, struct place p,
                      struct err *e)
{
    const char *text = json_text(block, "text");
    if (!json_text(block, "type"))
        return bad(e, ERR_INPUT, p, "", "must be a block with a type");
    if (is_type(block, "text")) {
        if (!text)
            return bad(e, ERR_INPUT, p, ".text", "must be a string");
        chat_build_text(&m->build, message, text);
        return true;
    }
    if (is_type(block, "image")) {
        chat_build_text(&m->build, message, CHAT_UNREAD_IMAGE);
        return ignored_add(m->r, p.path,
                           "this model reads text only; the prompt says that an image was here", e);
    }
    if (!is_type(block, "document"))
        return add_other(m, message, block, p, e);
    struct buf framed = {.limit = 2 * ATTACHMENT_PROMPT_BYTES};
    bool ok = read_document(m, block, p, &framed, e) &&
              chat_build_copy(&m->build, m->r->arena, message, &framed, e);
    buf_fini(&framed);
    return ok;
}

/* A string, or a list of blocks. */
static bool add_content(struct messages_reader *m, cJSON *message, const cJSON *content,
                        struct place p, struct err *e)
{
    const cJSON *block;
    int i = 0;
    if (cJSON_IsString(content)) {
        chat_build_text(&m->build, message, content->valuestring);
        return true;
    }
    if (!cJSON_IsArray(content))
        return bad(e, ERR_INPUT, p, "", "must be a string or a list of blocks");
    cJSON_ArrayForEach (block, content)
        if (!add_block(m, message, block, at("%.45s[%d]", p.path, i++), e))
            return false;
    return true;
}

/* ---- messages */

static bool add_result(struct messages_reader *m, const cJSON *block, struct place p, struct err *e)
{
    const cJSON *content = json_member(block, "content"), *wrong = json_member(block, "is_error");
    if (!json_text(block, "tool_use_id"))
        return bad(e, ERR_INPUT, p, ".tool_use_id", "must be a string");
    if (wrong && !cJSON_IsBool(wrong))
        return bad(e, ERR_INPUT, p, ".is_error", "must be true or false");
    cJSON *message = chat_build_message(&m->build, "tool");
    chat_build_refer(&m->build, message, "tool_call_id",
                     cJSON_GetObjectItemCaseSensitive(block, "tool_use_id"));
    if (cJSON_IsTrue(wrong)) /* templates know no failed results: the model reads it */
        chat_build_text(&m->build, message, "Error:");
    if (content && !add_content(m, message, content, at("%.45s.content", p.path), e))
        return false;
    if (!cJSON_HasObjectItem(message, "content"))
        chat_build_text(&m->build, message, "");
    return true;
}

/* *texts: the user's message under way, or NULL. */
static bool add_user_block(struct messages_reader *m, cJSON **texts, const cJSON *block,
                           struct place p, struct err *e)
{
    if (is_type(block, "tool_result")) {
        *texts = NULL;
        return add_result(m, block, p, e);
    }
    if (!*texts)
        *texts = chat_build_message(&m->build, "user");
    return add_block(m, *texts, block, p, e);
}

static bool add_use(struct messages_reader *m, const cJSON *block, struct place p, struct err *e)
{
    const char *id = json_text(block, "id"), *name = json_text(block, "name");
    const cJSON *input = json_member(block, "input");
    struct buf arguments = {0};
    if (!id || !name || (input && !cJSON_IsObject(input)))
        return bad(e, ERR_INPUT, p, "", "needs an id, a name and an input object");
    bool ok = input ? json_write(&arguments, input) : buf_puts(&arguments, "{}");
    if (ok)
        chat_build_call(&m->build, chat_build_assistant(&m->build), id, name, arguments.data);
    else
        m->build.failed = true;
    buf_fini(&arguments);
    return true;
}

static bool add_assistant_block(struct messages_reader *m, const cJSON *block, struct place p,
                                struct err *e)
{
    const char *thinking = json_text(block, "thinking");
    if (is_type(block, "tool_use"))
        return add_use(m, block, p, e);
    if (!is_type(block, "thinking"))
        return add_block(m, chat_build_assistant(&m->build), block, p, e);
    if (!thinking)
        return bad(e, ERR_INPUT, p, ".thinking", "must be a string");
    chat_build_reasoning(&m->build, chat_build_assistant(&m->build), thinking);
    return true;
}

/* Whether what an agent sends behind a tool's result is the picture that the tool took. */
static bool is_of_tool(const cJSON *message)
{
    const cJSON *block;
    cJSON_ArrayForEach (block, json_member(message->prev, "content"))
        if (is_type(block, "tool_result"))
            return true;
    return false;
}

/* What is asked cannot be answered when there is nothing but images in it. */
static bool refuse_lone_image(const cJSON *content, int index, struct err *e)
{
    const cJSON *block;
    int images = 0;
    cJSON_ArrayForEach (block, content) {
        if (!is_type(block, "image"))
            return true;
        images++;
    }
    return !images || bad(e, ERR_UNSUPPORTED, at("messages[%d].content[0]", index), ".type",
                          "'image' is not taken: this model reads text only");
}

static bool add_message(struct messages_reader *m, const cJSON *message, int index, struct err *e)
{
    const char *role = json_text(message, "role");
    const cJSON *content = json_member(message, "content"), *block;
    const struct place p = at("messages[%d].content", index);
    bool user = role && !strcmp(role, "user");
    cJSON *texts = NULL;
    int i = 0;
    if (role && !strcmp(role, "system"))
        return add_content(m, chat_build_message(&m->build, "system"), content, p, e);
    if (!role || (!user && strcmp(role, "assistant")))
        return bad(e, ERR_INPUT, at("messages[%d]", index), ".role",
                   "must be user, assistant or system");
    m->build.assistant = NULL;
    if (cJSON_IsString(content)) {
        chat_build_text(&m->build,
                        user ? chat_build_message(&m->build, "user")
                             : chat_build_assistant(&m->build),
                        content->valuestring);
        return true;
    }
    if (!cJSON_IsArray(content) || !content->child)
        return bad(e, ERR_INPUT, p, "", "must be a string or a list of blocks");
    if (user && !message->next && !is_of_tool(message) && !refuse_lone_image(content, index, e))
        return false;
    cJSON_ArrayForEach (block, content) {
        const struct place where = at("messages[%d].content[%d]", index, i++);
        if (!(user ? add_user_block(m, &texts, block, where, e)
                   : add_assistant_block(m, block, where, e)))
            return false;
    }
    return true;
}

bool messages_add(struct messages_reader *m, const cJSON *body, struct err *e)
{
    const cJSON *system = json_member(body, "system"), *list = json_member(body, "messages"),
                *message, *last = NULL;
    int n = 0;
    if (system && !add_content(m, chat_build_message(&m->build, "system"), system, at("system"), e))
        return false;
    if (!cJSON_IsArray(list) || !list->child)
        return err_field(e, ERR_INPUT, "messages", "must be a list of at least one message");
    cJSON_ArrayForEach (message, list) {
        if (!add_message(m, message, n++, e))
            return false;
        last = message;
    }
    if (!strcmp(json_text(last, "role"), "assistant"))
        return err_field(
            e, ERR_UNSUPPORTED, "messages",
            "end with the assistant's: an answer that is begun can't be continued here");
    return true;
}
