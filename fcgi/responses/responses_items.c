/* responses.h: each item of the input becomes a message of a chat, or a part of one. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/json/json.h"
#include "fcgi/attachments/attachment.h"
#include "fcgi/http/request.h"
#include "fcgi/openai/chat_files.h"
#include "fcgi/responses/responses.h"
#include "sql/files/store_attachments.h"

#define FIRST_INPUT 0x10000 /* Input items have a number range of their own. */

struct place { /* input[item].member; member "": the item itself */
    int item;
    const char *member;
};

static struct place at(int item, const char *member)
{
    return (struct place){.item = item, .member = member};
}

/* An error at input[item].member. */
static bool bad(struct err *e, enum err_code code, struct place p, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
static bool bad(struct err *e, enum err_code code, struct place p, const char *fmt, ...)
{
    char field[64], why[200];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(why, sizeof why, fmt, ap);
    va_end(ap);
    snprintf(field, sizeof field, "input[%d]%s%.40s", p.item, *p.member ? "." : "", p.member);
    return err_field(e, code, field, "%s", why);
}

/* What can't be read at a place is named as ignored there. */
static bool ignore(struct responses_reader *rd, struct place p, const char *why, struct err *e)
{
    char field[64];
    snprintf(field, sizeof field, "input[%d].%.40s", p.item, p.member);
    return ignored_add(rd->r, field, why, e);
}

static const char *type_of(const cJSON *item)
{
    const char *type = json_text(item, "type");
    return type ? type : "message";
}

void responses_item_id(char out[RESPONSES_ID_SIZE], const char *prefix, const struct request *r,
                       int n)
{
    snprintf(out, RESPONSES_ID_SIZE, "%s_%s%04x", prefix, r->id + strlen("req_"), n);
}

/* {type: input_file, file_data, filename}: as a chat's `file`. */
static bool add_file(struct responses_reader *rd, cJSON *message, const cJSON *part, struct place p,
                     struct err *e)
{
    const char *data = json_text(part, "file_data"), *name = json_text(part, "filename");
    struct buf text = {.limit = ATTACHMENT_PROMPT_BYTES};
    char field[64];
    if (++rd->files > STORE_MESSAGE_ATTACHMENTS)
        return bad(e, ERR_LIMIT, p, "a request takes at most %d files", STORE_MESSAGE_ATTACHMENTS);
    if (!data) {
        buf_printf(&text, "[file %s: not read]", name ? name : "");
        bool ok =
            chat_build_copy(rd->build, rd->r->arena, message, &text, e) &&
            ignore(
                rd, p,
                "files are read from the request alone (file_data), not from an address or an id",
                e);
        buf_fini(&text);
        return ok;
    }
    snprintf(field, sizeof field, "input[%d].%.40s", p.item, p.member);
    const struct chat_file file = {.name = name, .data = data, .path = field};
    bool ok = chat_file_text(rd->r, &file, &text, e) &&
              chat_build_copy(rd->build, rd->r->arena, message, &text, e);
    buf_fini(&text);
    return ok;
}

static bool is_unread(const char *type)
{
    return !strcmp(type, "input_image") || !strcmp(type, "computer_screenshot") ||
           !strcmp(type, "input_audio");
}

/* One part of a content, as the text that the model reads. */
static bool add_part(struct responses_reader *rd, cJSON *message, const cJSON *part, struct place p,
                     struct err *e)
{
    static const char *const taken[] = {"input_text",   "output_text", "text", "reasoning_text",
                                        "summary_text", "refusal",     NULL};
    const char *type = json_text(part, "type");
    int k = 0;
    if (!type)
        return bad(e, ERR_INPUT, p, "holds parts with a type");
    if (!strcmp(type, "input_file"))
        return add_file(rd, message, part, p, e);
    if (is_unread(type)) {
        chat_build_text(rd->build, message,
                        strcmp(type, "input_audio") ? CHAT_UNREAD_IMAGE : CHAT_UNREAD_RECORDING);
        return ignore(rd, p, "this model reads text only; the prompt says that it was here", e);
    }
    while (taken[k] && strcmp(taken[k], type))
        k++;
    const char *text = json_text(part, !strcmp(type, "refusal") ? "refusal" : "text");
    if (!taken[k])
        return bad(e, ERR_UNSUPPORTED, p, "'%.40s' is not taken: this model reads text only", type);
    if (!text)
        return bad(e, ERR_INPUT, p, "a part's text must be a string");
    chat_build_text(rd->build, message, text);
    return true;
}

/* A string or a list of parts. */
static bool add_content(struct responses_reader *rd, cJSON *message, const cJSON *content,
                        struct place p, struct err *e)
{
    const cJSON *part;
    if (cJSON_IsString(content)) {
        chat_build_text(rd->build, message, content->valuestring);
        return true;
    }
    if (!cJSON_IsArray(content))
        return bad(e, ERR_INPUT, p, "must be a string or a list of text parts");
    cJSON_ArrayForEach (part, content)
        if (!add_part(rd, message, part, p, e))
            return false;
    return true;
}

/* The assistant's message that takes reasoning or text: those come before its calls. */
static cJSON *assistant_before_calls(struct chat_build *b, bool reasoning)
{
    const cJSON *m = b->assistant;
    if (m &&
        (cJSON_HasObjectItem(m, "tool_calls") || (reasoning && cJSON_HasObjectItem(m, "content"))))
        b->assistant = NULL;
    return chat_build_assistant(b);
}

/* What is asked cannot be answered when there is nothing but images in it; behind a tool's output
 * they are the tool's. */
static bool refuse_lone_image(const cJSON *item, int i, struct err *e)
{
    const cJSON *content = json_member(item, "content"), *part;
    const char *type = json_text(item->prev, "type");
    const bool of_tool = type && strlen(type) > 7 && !strcmp(type + strlen(type) - 7, "_output");
    if (item->next || of_tool || !cJSON_IsArray(content))
        return true;
    type = NULL;
    cJSON_ArrayForEach (part, content) {
        type = json_text(part, "type");
        if (!type || !is_unread(type))
            return true;
    }
    return !type || bad(e, ERR_UNSUPPORTED, at(i, "content"),
                        "'%.40s' is not taken: this model reads text only", type);
}

static bool add_message(struct responses_reader *rd, const cJSON *item, int i, struct err *e)
{
    static const char *const roles[] = {"user", "system", "developer", NULL};
    const char *role = json_text(item, "role");
    int k = 0;
    if (role && !strcmp(role, "assistant"))
        return add_content(rd, assistant_before_calls(rd->build, false),
                           json_member(item, "content"), at(i, "content"), e);
    while (roles[k] && (!role || strcmp(roles[k], role)))
        k++;
    if (!roles[k])
        return bad(e, ERR_INPUT, at(i, "role"), "must be user, assistant, system or developer");
    return (rd->before || refuse_lone_image(item, i, e)) &&
           add_content(rd, chat_build_message(rd->build, role), json_member(item, "content"),
                       at(i, "content"), e);
}

static bool add_call(struct responses_reader *rd, const cJSON *item, int i, struct err *e)
{
    const char *id = json_text(item, "call_id"), *name = json_text(item, "name"),
               *arguments = json_text(item, "arguments");
    if (!id || !name || !arguments)
        return bad(e, ERR_INPUT,
                   at(i, !id     ? "call_id"
                         : !name ? "name"
                                 : "arguments"),
                   "must be a string");
    chat_build_call(rd->build, chat_build_assistant(rd->build), id, name, arguments);
    return true;
}

static bool add_output(struct responses_reader *rd, const cJSON *item, int i, struct err *e)
{
    const cJSON *id = json_member(item, "call_id"), *output = json_member(item, "output");
    if (!cJSON_IsString(id))
        return bad(e, ERR_INPUT, at(i, "call_id"), "must be a string");
    cJSON *message = chat_build_message(rd->build, "tool");
    chat_build_refer(rd->build, message, "tool_call_id", id);
    return add_content(rd, message, output, at(i, "output"), e);
}

static bool add_reasoning(struct responses_reader *rd, const cJSON *item, int i, struct err *e)
{
    const cJSON *content = json_member(item, "content"), *summary = json_member(item, "summary"),
                *part;
    const bool plain = content && content->child;
    const cJSON *list = plain || !summary ? content : summary;
    if (!cJSON_IsArray(list))
        return bad(e, ERR_INPUT, at(i, content ? "content" : "summary"), "must be a list");
    if (!list->child && json_member(item, "encrypted_content"))
        return ignore(rd, at(i, "encrypted_content"),
                      "reasoning that another server encrypted can't be read here", e);
    cJSON *message = assistant_before_calls(rd->build, true);
    cJSON_ArrayForEach (part, list) {
        const char *text = json_text(part, "text");
        if (!text)
            return bad(e, ERR_INPUT, at(i, plain ? "content" : "summary"),
                       "a part's text must be a string");
        chat_build_reasoning(rd->build, message, text);
    }
    return true;
}

/* What stands for turns that were compacted away. */
static bool add_compaction(struct responses_reader *rd, const cJSON *item, int i, struct err *e)
{
    const char *content = json_text(item, "encrypted_content");
    if (json_member(item, "encrypted_content") && !content)
        return bad(e, ERR_INPUT, at(i, "encrypted_content"), "must be a string");
    const char *summary = content ? responses_compaction_read(rd->r, content) : NULL;
    if (!summary)
        return ignore(rd, at(i, "encrypted_content"),
                      "it is damaged, or a compaction of another server, which can't be read here",
                      e);
    cJSON *message = chat_build_message(rd->build, "user");
    chat_build_text(rd->build, message,
                    "Summary of the conversation before this point, in place of its turns:\n\n");
    chat_build_text(rd->build, message, summary);
    return true;
}

/* What a tool of the client's own kind was called with: its arguments, its text, or its action. */
static bool write_arguments(struct buf *out, const cJSON *item)
{
    static const char *const members[] = {"input", "action", "operation", "code", "query", NULL};
    const char *arguments = json_text(item, "arguments");
    if (arguments)
        return buf_puts(out, arguments);
    for (int k = 0; members[k]; k++) {
        const cJSON *v = json_member(item, members[k]);
        if (!v)
            continue;
        buf_printf(out, "{\"%s\":", members[k]);
        return json_write(out, v) && buf_putc(out, '}');
    }
    return buf_puts(out, "{}");
}

/* Calls and outputs of tools of other kinds (custom_tool_call, local_shell_call, apply_patch_call
 * ...) are shown to the model as a function's, so that an agent's history stays whole; other items
 * are ignored by name. */
static bool add_other(struct responses_reader *rd, const cJSON *item, int i, struct err *e)
{
    const char *type = type_of(item), *id = json_text(item, "call_id"),
               *name = json_text(item, "name");
    const size_t len = strlen(type);
    struct buf text = {0};
    char field[64];
    bool ok;
    if (id && len > 5 && !strcmp(type + len - 5, "_call")) {
        ok = write_arguments(&text, item) || err_set(e, ERR_NOMEM, "no memory for the input");
        const char *own = name ? name : arena_printf(rd->r->arena, "%.*s", (int)(len - 5), type);
        if (ok && own)
            chat_build_call(rd->build, chat_build_assistant(rd->build), id, own, text.data);
    } else if (id && len > 7 && !strcmp(type + len - 7, "_output")) {
        const cJSON *output = json_member(item, "output");
        if (cJSON_IsString(output) || cJSON_IsArray(output))
            return add_output(rd, item, i, e);
        cJSON *message = chat_build_message(rd->build, "tool");
        chat_build_refer(rd->build, message, "tool_call_id", json_member(item, "call_id"));
        ok = (!output || json_write(&text, output) ||
              err_set(e, ERR_NOMEM, "no memory for the input")) &&
             chat_build_copy(rd->build, rd->r->arena, message, &text, e);
    } else {
        snprintf(field, sizeof field, "input[%d] (%.40s)", i, type);
        ok = ignored_add(rd->r, field, "items of this type hold nothing that this model could read",
                         e);
    }
    buf_fini(&text);
    return ok;
}

bool responses_add_item(struct responses_reader *rd, const cJSON *item, int i, struct err *e)
{
    static const struct {
        const char *type;
        bool (*add)(struct responses_reader *, const cJSON *, int, struct err *);
    } rows[] = {{"message", add_message},
                {"function_call", add_call},
                {"function_call_output", add_output},
                {"reasoning", add_reasoning},
                {"compaction", add_compaction},
                {"compaction_summary", add_compaction},
                {"context_compaction", add_compaction}};
    static const char *const strings[] = {"type", "id", "status", NULL};
    if (!cJSON_IsObject(item))
        return bad(e, ERR_INPUT, at(i, ""), "must be an object");
    for (int k = 0; strings[k]; k++)
        if (json_member(item, strings[k]) && !json_text(item, strings[k]))
            return bad(e, ERR_INPUT, at(i, strings[k]), "must be a string");
    for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++)
        if (!strcmp(rows[k].type, type_of(item)))
            return rows[k].add(rd, item, i, e);
    return add_other(rd, item, i, e);
}

/* A message's string content as a list of one part. */
static bool spread_content(cJSON *item)
{
    const cJSON *content = cJSON_GetObjectItemCaseSensitive(item, "content");
    const char *role = json_text(item, "role");
    bool assistant = role && !strcmp(role, "assistant");
    if (!cJSON_IsString(content))
        return true;
    cJSON *list = cJSON_CreateArray(), *part = cJSON_CreateObject();
    bool ok = cJSON_AddStringToObject(part, "type", assistant ? "output_text" : "input_text") &&
              cJSON_AddStringToObject(part, "text", content->valuestring) &&
              (!assistant || cJSON_AddArrayToObject(part, "annotations")) &&
              cJSON_AddItemToArray(list, part);
    return ok && cJSON_ReplaceItemInObjectCaseSensitive(item, "content", list);
}

/* The member, where it is absent or null. */
static bool fill(cJSON *item, const char *name, const char *value)
{
    if (json_member(item, name))
        return true;
    cJSON_DeleteItemFromObjectCaseSensitive(item, name);
    return cJSON_AddStringToObject(item, name, value) != NULL;
}

/* id, and what an "easy" message leaves out; calls and their outputs have a status as well. */
static bool complete_item(const struct request *r, cJSON *item, int n)
{
    static const char *const prefixes[][2] = {
        {"message", "msg"},    {"function_call", "fc"},
        {"reasoning", "rs"},   {"function_call_output", "fco"},
        {"compaction", "cmp"}, {NULL, "item"}};
    const char *type = type_of(item);
    char id[RESPONSES_ID_SIZE];
    int k = 0;
    while (prefixes[k][0] && strcmp(prefixes[k][0], type))
        k++;
    responses_item_id(id, prefixes[k][1], r, FIRST_INPUT + n);
    const bool message = k == 0, call = !strncmp(type, "function_call", 13);
    return fill(item, "id", id) && fill(item, "type", "message") &&
           (!(message || call) || fill(item, "status", "completed")) &&
           (!message || spread_content(item));
}

cJSON *responses_input_items(const struct request *r, const cJSON *input, struct err *e)
{
    cJSON *items = cJSON_IsArray(input) ? cJSON_Duplicate(input, true) : cJSON_CreateArray(), *item;
    bool ok = items != NULL;
    int n = 0;
    if (ok && cJSON_IsString(input)) {
        item = cJSON_CreateObject();
        ok = cJSON_AddStringToObject(item, "role", "user") &&
             cJSON_AddStringToObject(item, "content", input->valuestring) &&
             cJSON_AddItemToArray(items, item);
    }
    cJSON_ArrayForEach (item, items)
        ok = ok && (!cJSON_IsObject(item) || complete_item(r, item, n++));
    if (ok)
        return items;
    cJSON_Delete(items);
    err_set(e, ERR_NOMEM, "no memory for the input");
    return NULL;
}
