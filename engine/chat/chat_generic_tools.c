/* Describes tools to models whose template shows none. The words and tags are those of Hermes and
 * Qwen 2.5, which many models have seen in training, so that the parser and the grammar of the
 * format "hermes" serve here too. */
#include <string.h>

#include "engine/base/buf.h"
#include "engine/base/json/json.h"
#include "engine/chat/chat_template_internal.h"

static const char head[] =
    "# Tools\n\nYou may call one or more functions to assist with the user query.\n\n"
    "You are provided with function signatures within <tools></tools> XML tags:\n<tools>";
static const char tail[] =
    "\n</tools>\n\nFor each function call, return a json object with function name and arguments "
    "within "
    "<tool_call></tool_call> XML tags:\n<tool_call>\n"
    "{\"name\": <function-name>, \"arguments\": <args-json-object>}\n</tool_call>";

static bool is_role(const cJSON *m, const char *role)
{
    const char *is = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(m, "role"));
    return is && !strcmp(is, role);
}

/* The text of a normalised content: a string, or parts of text. */
static void put_content(struct buf *b, const cJSON *m)
{
    const cJSON *content = cJSON_GetObjectItemCaseSensitive(m, "content"), *part;
    if (cJSON_IsString(content))
        buf_puts(b, content->valuestring);
    size_t before = b->len;
    cJSON_ArrayForEach (part, content) {
        const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(part, "text"));
        if (b->len > before)
            buf_putc(b, '\n');
        buf_puts(b, text ? text : "");
    }
}

/* Puts the text in the place of the message's member; false: no memory. */
static bool set_text(cJSON *m, const char *name, const struct buf *text)
{
    cJSON *v = text->failed ? NULL : cJSON_CreateString(text->data ? text->data : "");
    if (!v)
        return false;
    cJSON_DeleteItemFromObjectCaseSensitive(m, name);
    if (cJSON_AddItemToObject(m, name, v))
        return true;
    cJSON_Delete(v);
    return false;
}

/* Text where the template wants text; a string that is no JSON stays a string. */
static void put_arguments(struct buf *b, const cJSON *arguments)
{
    const char *text = cJSON_GetStringValue(arguments);
    cJSON *parsed = text && *text ? json_parse(text, strlen(text), NULL, NULL) : NULL;
    if (!arguments || (text && !*text))
        buf_puts(b, "{}");
    else
        json_write_spaced(b, parsed ? parsed : arguments);
    cJSON_Delete(parsed);
}

static void put_call(struct buf *b, const cJSON *call)
{
    const cJSON *function = cJSON_GetObjectItemCaseSensitive(call, "function");
    const cJSON *arguments = cJSON_GetObjectItemCaseSensitive(function, "arguments");
    const char *name = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(function, "name"));
    if (b->len)
        buf_putc(b, '\n');
    buf_puts(b, "<tool_call>\n{\"name\": ");
    buf_json_string(b, name ? name : "", name ? strlen(name) : 0);
    buf_puts(b, ", \"arguments\": ");
    put_arguments(b, arguments);
    buf_puts(b, "}\n</tool_call>");
}

/* An assistant's calls become text of its message. */
static bool rewrite_calls(cJSON *m)
{
    const cJSON *calls = cJSON_GetObjectItemCaseSensitive(m, "tool_calls"), *call;
    struct buf text = {0};
    if (!cJSON_IsArray(calls) || !calls->child)
        return true;
    put_content(&text, m);
    cJSON_ArrayForEach (call, calls)
        put_call(&text, call);
    bool ok = set_text(m, "content", &text);
    cJSON_DeleteItemFromObjectCaseSensitive(m, "tool_calls");
    buf_fini(&text);
    return ok;
}

/* Gives `into` the text of m as well; m leaves the list. */
static bool join(cJSON *messages, cJSON *into, cJSON *m)
{
    struct buf text = {0};
    put_content(&text, into);
    buf_putc(&text, '\n');
    put_content(&text, m);
    bool ok = set_text(into, "content", &text);
    buf_fini(&text);
    cJSON_Delete(cJSON_DetachItemViaPointer(messages, m));
    return ok;
}

/* A result becomes the user's message. */
static bool rewrite_result(cJSON *m)
{
    struct buf text = {0}, user = {0};
    buf_puts(&user, "user");
    buf_puts(&text, "<tool_response>\n");
    put_content(&text, m);
    buf_puts(&text, "\n</tool_response>");
    bool ok = set_text(m, "content", &text) && set_text(m, "role", &user);
    cJSON_DeleteItemFromObjectCaseSensitive(m, "tool_call_id");
    cJSON_DeleteItemFromObjectCaseSensitive(m, "name");
    buf_fini(&text);
    buf_fini(&user);
    return ok;
}

/* Results that follow each other, and the user's words behind them, are one message: many templates
 * want roles to alternate. */
static bool rewrite_history(cJSON *messages)
{
    cJSON *results = NULL, *next;
    for (cJSON *m = messages->child; m; m = next) {
        next = m->next;
        bool result = is_role(m, "tool"), user = is_role(m, "user");
        if ((is_role(m, "assistant") && !rewrite_calls(m)) || (result && !rewrite_result(m)))
            return false;
        if (results && (result || user)) {
            if (!join(messages, results, m))
                return false;
        } else {
            results = result ? m : NULL;
        }
    }
    return true;
}

static bool describe(struct buf *b, const cJSON *tools)
{
    const cJSON *tool;
    buf_puts(b, head);
    cJSON_ArrayForEach (tool, tools) {
        buf_putc(b, '\n');
        if (!json_write_spaced(b, tool))
            return false;
    }
    return buf_puts(b, tail);
}

/* The message that shall hold the description: the system's, else the user's first, put there where
 * there is none. */
static cJSON *find_host(const struct chat_template *t, cJSON *messages)
{
    bool system = t->traits.system_role;
    for (cJSON *m = messages->child; m; m = m->next) {
        if (system ? is_role(m, "system") || is_role(m, "developer") : is_role(m, "user"))
            return m;
        if (system) /* one in the middle would come too late */
            break;
    }
    cJSON *m = cJSON_CreateObject();
    if (cJSON_AddStringToObject(m, "role", system ? "system" : "user") &&
        cJSON_AddStringToObject(m, "content", "") && cJSON_InsertItemInArray(messages, 0, m))
        return m;
    cJSON_Delete(m);
    return NULL;
}

static bool show_tools(const struct chat_template *t, cJSON *messages, const cJSON *tools)
{
    cJSON *host = find_host(t, messages);
    struct buf text = {0};
    bool system = t->traits.system_role, ok = host != NULL;
    if (ok && system) {
        put_content(&text, host);
        buf_puts(&text, text.len ? "\n\n" : "");
    }
    ok = ok && describe(&text, tools);
    if (ok && !system) {
        buf_puts(&text, "\n\n");
        put_content(&text, host);
    }
    ok = ok && set_text(host, "content", &text);
    buf_fini(&text);
    return ok;
}

bool chat_messages_generic_tools(const struct chat_template *t, cJSON *messages, const cJSON *tools,
                                 struct err *e)
{
    bool given = tools && tools->child;
    bool ok = (!given && t->shows_calls) || rewrite_history(messages);
    ok = ok && (!given || show_tools(t, messages, tools));
    return ok || err_set(e, ERR_NOMEM, "memory ran out for the messages");
}
