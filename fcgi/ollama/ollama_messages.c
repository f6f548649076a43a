/* ollama.h: messages. A call and its result find each other by the function's name, since Ollama's
 * messages need no ids; templates that show ids get made ones. */
#include <stdio.h>
#include <string.h>

#include "engine/base/json/json.h"
#include "fcgi/http/request.h"
#include "fcgi/ollama/ollama.h"
#include "fcgi/openai/chat_files.h"

#define MAX_CALLS                                                                                  \
    64 /* of one message that results are looked up in; what is over it has no pair                \
        */

struct reader {
    struct request *r;
    struct chat_build *b;
    struct pending {
        const char *id, *name; /* name NULL: answered */
    } calls[MAX_CALLS];        /* of the newest message that has some */
    int n_calls;
};

static bool name_unknown(struct request *r, const cJSON *message, struct err *e)
{
    static const char *const taken[] = {"role",   "content",      "thinking",
                                        "images", "tool_calls",   "tool_name",
                                        "name",   "tool_call_id", NULL};
    const cJSON *member;
    cJSON_ArrayForEach (member, message) {
        char field[IGNORED_FIELD_BYTES];
        int k = 0;
        while (taken[k] && strcmp(taken[k], member->string))
            k++;
        snprintf(field, sizeof field, "messages[].%.40s", member->string);
        if (!taken[k] && !cJSON_IsNull(member) &&
            !ignored_add(r, field, "the model is not shown it", e))
            return false;
    }
    return true;
}

/* The members that are strings, each NULL where it is absent. */
static bool read_strings(const cJSON *message, int index, const char **out, struct err *e)
{
    static const char *const names[] = {"role",      "content", "thinking",
                                        "tool_name", "name",    "tool_call_id"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const cJSON *v = json_member(message, names[i]);
        if (v && !cJSON_IsString(v))
            return chat_build_fail(e, ERR_INPUT, "must be a string", "messages[%d].%s", index,
                                   names[i]);
        out[i] = cJSON_GetStringValue(v);
    }
    return true;
}
enum { ROLE, CONTENT, THINKING, TOOL_NAME, NAME, CALL_ID, STRINGS };

bool ollama_add_images(struct chat_build *b, struct request *r, cJSON *message,
                       const struct ollama_images *images, struct err *e)
{
    const cJSON *image;
    if (images->list && !cJSON_IsArray(images->list))
        return err_field(e, ERR_INPUT, images->field, "must be a list of strings of base64");
    if (!images->list || !images->list->child)
        return true;
    if (images->alone)
        return err_field(e, ERR_UNSUPPORTED, images->field,
                         "are not taken alone: this model reads text only");
    cJSON_ArrayForEach (image, images->list) {
        if (!cJSON_IsString(image))
            return err_field(e, ERR_INPUT, images->field, "must be a list of strings of base64");
        chat_build_text(b, message, CHAT_UNREAD_IMAGE);
    }
    return ignored_add(r, images->field,
                       "this model reads text only; the prompt says that an image was here", e);
}

struct call_place { /* messages[message].tool_calls[call] */
    int message, call;
};

static bool add_call(struct reader *d, cJSON *message, const cJSON *call, struct call_place p,
                     struct err *e)
{
    const cJSON *function = json_member(call, "function"),
                *arguments = json_member(function, "arguments");
    const char *name = json_text(function, "name"), *text = cJSON_GetStringValue(arguments);
    const char *id = json_text(call, "id");
    char made[48];
    struct buf b = {0};
    if (!name)
        return chat_build_fail(e, ERR_INPUT, "must be a string",
                               "messages[%d].tool_calls[%d].function.name", p.message, p.call);
    if (arguments && !text && !cJSON_IsObject(arguments))
        return chat_build_fail(e, ERR_INPUT, "must be an object",
                               "messages[%d].tool_calls[%d].function.arguments", p.message, p.call);
    snprintf(made, sizeof made, "call_%d_%d", p.message, p.call);
    if (!id || !*id)
        id = arena_strdup(d->r->arena, made);
    if (text || !arguments)
        buf_puts(&b, text ? text : "{}");
    else
        json_write(&b, arguments);
    if (!id || b.failed)
        d->b->failed = true;
    else
        chat_build_call(d->b, message, id, name, b.data ? b.data : "");
    if (d->n_calls < MAX_CALLS && id)
        d->calls[d->n_calls++] = (struct pending){.id = id, .name = name};
    buf_fini(&b);
    return true;
}

static bool add_calls(struct reader *d, cJSON *message, const cJSON *calls, int index,
                      struct err *e)
{
    const cJSON *call;
    struct call_place p = {.message = index};
    if (calls && !cJSON_IsArray(calls))
        return chat_build_fail(e, ERR_INPUT, "must be a list", "messages[%d].tool_calls", index);
    if (calls && calls->child)
        d->n_calls = 0;
    cJSON_ArrayForEach (call, calls) {
        if (!add_call(d, message, call, p, e))
            return false;
        p.call++;
    }
    return true;
}

/* The call that a result belongs to: the first of its name that has none yet, or the first at all
 * where it has no name. */
static struct pending *find_call(struct reader *d, const char *name)
{
    for (int i = 0; i < d->n_calls; i++)
        if (d->calls[i].name && (!name || !strcmp(d->calls[i].name, name)))
            return &d->calls[i];
    return NULL;
}

static void add_result(struct reader *d, const char *const *text)
{
    cJSON *message = chat_build_message(d->b, "tool");
    const char *name = text[TOOL_NAME] ? text[TOOL_NAME] : text[NAME], *id = text[CALL_ID];
    struct pending *call = find_call(d, name);
    if (call && !id)
        id = call->id;
    if (call && !name)
        name = call->name;
    if (call)
        call->name = NULL;
    if ((id && !cJSON_AddItemToObject(message, "tool_call_id", cJSON_CreateStringReference(id))) ||
        (name && !cJSON_AddItemToObject(message, "name", cJSON_CreateStringReference(name))))
        d->b->failed = true;
    chat_build_text(d->b, message, text[CONTENT] ? text[CONTENT] : "");
}

static bool add_message(struct reader *d, const cJSON *m, int index, struct err *e)
{
    const char *text[STRINGS];
    char field[48];
    if (!cJSON_IsObject(m))
        return chat_build_fail(e, ERR_INPUT, "must be an object", "messages[%d]", index);
    if (!read_strings(m, index, text, e) || !name_unknown(d->r, m, e))
        return false;
    const char *role = text[ROLE] ? text[ROLE] : "";
    const bool user = !strcmp(role, "user"), assistant = !strcmp(role, "assistant"),
               tool = !strcmp(role, "tool");
    if (!user && !assistant && !tool && strcmp(role, "system"))
        return chat_build_fail(e, ERR_INPUT, "must be system, user, assistant or tool",
                               "messages[%d].role", index);
    if (tool) {
        add_result(d, text);
        return true;
    }
    cJSON *message = chat_build_message(d->b, role);
    const bool says = text[CONTENT] && *text[CONTENT];
    snprintf(field, sizeof field, "messages[%d].images", index);
    const struct ollama_images images = {
        .list = json_member(m, "images"), .field = field, .alone = user && !m->next && !says};
    if (!ollama_add_images(d->b, d->r, message, &images, e))
        return false;
    if (says || !cJSON_HasObjectItem(message, "content"))
        chat_build_text(d->b, message, text[CONTENT] ? text[CONTENT] : "");
    if (assistant && text[THINKING] && *text[THINKING])
        chat_build_reasoning(d->b, message, text[THINKING]);
    return !assistant || add_calls(d, message, json_member(m, "tool_calls"), index, e);
}

bool ollama_add_messages(struct chat_build *b, struct request *r, const cJSON *messages,
                         struct err *e)
{
    struct reader d = {.r = r, .b = b};
    const cJSON *m, *last = NULL;
    int n = 0;
    cJSON_ArrayForEach (m, messages) {
        if (!add_message(&d, m, n++, e))
            return false;
        last = m;
    }
    if (!strcmp(json_text(last, "role"), "assistant"))
        return err_field(
            e, ERR_UNSUPPORTED, "messages",
            "end with the assistant's: an answer that is begun can't be continued here");
    return true;
}
