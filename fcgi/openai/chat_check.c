/* chat_request.h: the shapes of messages and tools, before a template sees them. */
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/json/json.h"
#include "fcgi/openai/chat_request.h"

#define MAX_MESSAGES 16384
#define MAX_TOOLS 512
#define MAX_NAME 128

/* A path such as messages[2].content; fits err.field or is cut. */
struct where {
    char path[64];
};

static struct where at(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static struct where at(const char *fmt, ...)
{
    struct where w;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(w.path, sizeof w.path, fmt, ap);
    va_end(ap);
    return w;
}

static bool check_file(const cJSON *part, struct where w, struct err *e)
{
    struct where file_at = at("%.50s.file", w.path);
    const char *path = file_at.path;
    const cJSON *file = json_member(part, "file"), *data = json_member(file, "file_data"),
                *name = json_member(file, "filename");
    if (!cJSON_IsObject(file))
        return err_field(e, ERR_INPUT, path, "must be an object with file_data");
    if (json_member(file, "file_id"))
        return err_field(
            e, ERR_UNSUPPORTED, path,
            "file_id names nothing here: no files are kept for the API; send file_data");
    if (!cJSON_IsString(data))
        return err_field(e, ERR_INPUT, path, "file_data must be a string of base64");
    return !name || cJSON_IsString(name) ||
           err_field(e, ERR_INPUT, path, "filename must be a string");
}

static bool check_part(const cJSON *part, int message, int i, struct err *e)
{
    struct where w = at("messages[%d].content[%d]", message, i);
    const char *type = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(part, "type"));
    if (!cJSON_IsObject(part) || !type)
        return err_field(e, ERR_INPUT, w.path, "must be an object with a type");
    if (!strcmp(type, "file"))
        return check_file(part, w, e);
    if (!strcmp(type, "image_url") || !strcmp(type, "input_audio") || !strcmp(type, "video_url") ||
        !strcmp(type, "audio_url"))
        return cJSON_IsObject(json_member(part, type)) || cJSON_IsString(json_member(part, type)) ||
               err_field(e, ERR_INPUT, at("%.50s.%.12s", w.path, type).path, "must be an object");
    bool refusal = !strcmp(type, "refusal");
    if (strcmp(type, "text") && !refusal)
        return err_field(e, ERR_UNSUPPORTED, at("%.50s.type", w.path).path,
                         "'%.40s' is not taken: this model reads text only", type);
    if (!cJSON_IsString(json_member(part, refusal ? "refusal" : "text")))
        return err_field(e, ERR_INPUT, at("%.50s.text", w.path).path, "must be a string");
    return true;
}

static bool check_content(const cJSON *m, int i, bool may_be_absent, struct err *e)
{
    const cJSON *content = json_member(m, "content"), *part;
    int n = 0;
    if (!content && may_be_absent)
        return true;
    if (cJSON_IsString(content))
        return true;
    if (!cJSON_IsArray(content))
        return err_field(e, ERR_INPUT, at("messages[%d].content", i).path,
                         "must be a string or a list of text parts");
    cJSON_ArrayForEach (part, content)
        if (!check_part(part, i, n++, e))
            return false;
    return true;
}

static bool check_call(const cJSON *call, int message, int i, struct err *e)
{
    struct where w = at("messages[%d].tool_calls[%d]", message, i);
    const cJSON *function = json_member(call, "function"),
                *arguments = json_member(function, "arguments");
    const char *type = json_text(call, "type");
    if (!cJSON_IsObject(call) || !cJSON_IsObject(function))
        return err_field(e, ERR_INPUT, w.path, "must be an object with a function");
    if (json_member(call, "type") && !type)
        return err_field(e, ERR_INPUT, w.path, "type must be a string");
    if (type && strcmp(type, "function"))
        return err_field(e, ERR_UNSUPPORTED, w.path, "calls of type '%.40s' are not taken", type);
    if (!cJSON_IsString(json_member(function, "name")))
        return err_field(e, ERR_INPUT, w.path, "function.name must be a string");
    if (arguments && !cJSON_IsString(arguments) && !cJSON_IsObject(arguments))
        return err_field(e, ERR_INPUT, w.path, "function.arguments must be a string of JSON");
    return true;
}

static bool check_calls(const cJSON *m, int i, bool *has, struct err *e)
{
    const cJSON *calls = json_member(m, "tool_calls"), *call;
    int n = 0;
    if (calls && !cJSON_IsArray(calls))
        return err_field(e, ERR_INPUT, at("messages[%d].tool_calls", i).path, "must be an array");
    cJSON_ArrayForEach (call, calls)
        if (!check_call(call, i, n++, e))
            return false;
    *has = n > 0;
    return true;
}

static bool check_optional_strings(const cJSON *m, int i, struct err *e)
{
    static const char *const names[] = {"name", "tool_call_id", "reasoning_content", "reasoning",
                                        "refusal"};
    for (size_t k = 0; k < sizeof names / sizeof names[0]; k++) {
        const cJSON *v = json_member(m, names[k]);
        if (v && !cJSON_IsString(v))
            return err_field(e, ERR_INPUT, at("messages[%d].%s", i, names[k]).path,
                             "must be a string");
    }
    return true;
}

static bool check_message(const cJSON *m, int i, struct err *e)
{
    static const char *const roles[] = {"system", "developer", "user", "assistant", "tool", NULL};
    const char *role = json_text(m, "role");
    bool has_calls = false;
    int k = 0;
    if (!cJSON_IsObject(m))
        return err_field(e, ERR_INPUT, at("messages[%d]", i).path, "must be an object");
    while (roles[k] && (!role || strcmp(role, roles[k])))
        k++;
    if (!roles[k])
        return err_field(e, ERR_INPUT, at("messages[%d].role", i).path,
                         "must be system, developer, user, assistant or tool");
    if (json_member(m, "function_call") || json_member(m, "audio"))
        return err_field(e, ERR_UNSUPPORTED, at("messages[%d]", i).path,
                         "function_call and audio are not taken; tool_calls are");
    bool assistant = !strcmp(role, "assistant");
    if (!check_calls(m, i, &has_calls, e))
        return false;
    if (has_calls && !assistant)
        return err_field(e, ERR_INPUT, at("messages[%d].tool_calls", i).path,
                         "only an assistant's message has them");
    bool may_be_absent = assistant && (has_calls || json_member(m, "reasoning_content") ||
                                       json_member(m, "refusal"));
    return check_content(m, i, may_be_absent, e) && check_optional_strings(m, i, e);
}

bool chat_check_messages(const cJSON *messages, struct err *e)
{
    const cJSON *m;
    int n = 0;
    if (!cJSON_IsArray(messages))
        return err_field(e, ERR_INPUT, "messages", messages ? "must be an array" : "is needed");
    int count = cJSON_GetArraySize(messages);
    if (count < 1 || count > MAX_MESSAGES)
        return err_field(e, ERR_INPUT, "messages", "must hold 1 to %d messages, this one has %d",
                         MAX_MESSAGES, count);
    cJSON_ArrayForEach (m, messages)
        if (!check_message(m, n++, e))
            return false;
    return true;
}

static bool is_function_name(const char *name)
{
    size_t n = 0;
    for (; name && name[n]; n++)
        if (!isalnum((unsigned char)name[n]) && !strchr("_-.", name[n]))
            return false;
    return n > 0 && n <= MAX_NAME;
}

static bool check_tool(const cJSON *t, int i, struct err *e)
{
    const char *type = json_text(t, "type");
    const cJSON *f = json_member(t, "function"), *v;
    if (!cJSON_IsObject(t) || !type)
        return err_field(e, ERR_INPUT, at("tools[%d].type", i).path, "must be 'function'");
    if (strcmp(type, "function"))
        return err_field(e, ERR_UNSUPPORTED, at("tools[%d].type", i).path,
                         "'%.40s' is not done here", type);
    if (!cJSON_IsObject(f))
        return err_field(e, ERR_INPUT, at("tools[%d].function", i).path, "must be an object");
    if (!is_function_name(json_text(f, "name")))
        return err_field(e, ERR_INPUT, at("tools[%d].function.name", i).path,
                         "must have 1 to %d letters, digits, '_', '-' or '.'", MAX_NAME);
    v = json_member(f, "description");
    if (v && !cJSON_IsString(v))
        return err_field(e, ERR_INPUT, at("tools[%d].function.description", i).path,
                         "must be a string");
    v = json_member(f, "parameters");
    if (v && !cJSON_IsObject(v))
        return err_field(e, ERR_INPUT, at("tools[%d].function.parameters", i).path,
                         "must be an object");
    v = json_member(f, "strict");
    if (v && !cJSON_IsBool(v))
        return err_field(e, ERR_INPUT, at("tools[%d].function.strict", i).path,
                         "must be true or false");
    return true;
}

bool chat_check_tools(const cJSON *tools, struct err *e)
{
    const cJSON *t;
    int n = 0;
    if (!cJSON_IsArray(tools))
        return err_field(e, ERR_INPUT, "tools", "must be an array");
    if (cJSON_GetArraySize(tools) > MAX_TOOLS)
        return err_field(e, ERR_INPUT, "tools", "at most %d are taken", MAX_TOOLS);
    cJSON_ArrayForEach (t, tools)
        if (!check_tool(t, n++, e))
            return false;
    return true;
}
