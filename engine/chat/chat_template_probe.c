/* Finds out what a template can do: small conversations are rendered and the text is looked at. A
 * template that fails on a probe does not have the ability. */
#include <string.h>

#include "engine/chat/chat_template_internal.h"
#include "engine/chat/parse_format.h"

#define PROBE "sluiceprobe"
#define USER "{\"role\":\"user\",\"content\":\"hi\"}"
#define TOOLS                                                                                      \
    "[{\"type\":\"function\",\"function\":{\"name\":\"" PROBE                                      \
    "\",\"description\":\"d\",\"parameters\":"                                                     \
    "{\"type\":\"object\",\"properties\":{\"x\":{\"type\":\"string\",\"description\":\"d\"}},"     \
    "\"required\":[\"x\"]}}}]"
#define CALL(id, arguments) CALL_OF("f", id, arguments)
#define NAMED_CALL(arguments) CALL_OF(PROBE, "abcdefghi", arguments)
#define CALL_OF(name, id, arguments)                                                               \
    "[" USER ",{\"role\":\"assistant\",\"content\":\"\",\"tool_calls\":[{\"id\":\"" id             \
    "\",\"type\":\"function\","                                                                    \
    "\"function\":{\"name\":\"" name "\",\"arguments\":" arguments "}}]},"                         \
    "{\"role\":\"tool\",\"tool_call_id\":\"" id "\",\"name\":\"f\",\"content\":\"r\"}]"

struct probe {
    const char *messages, *tools, *kwargs;
};

/* Renders; the text in *out belongs to the caller. */
static bool render(const struct chat_template *t, const struct probe *p, struct rendered *out)
{
    struct chat_input in = {.messages = cJSON_Parse(p->messages),
                            .add_generation_prompt = true,
                            .now = 1,
                            .tools = p->tools ? cJSON_Parse(p->tools) : NULL,
                            .kwargs = p->kwargs ? cJSON_Parse(p->kwargs) : NULL};
    bool ok = in.messages && chat_template_render(t, &in, out, NULL);
    cJSON_Delete((cJSON *)in.messages);
    cJSON_Delete((cJSON *)in.tools);
    cJSON_Delete((cJSON *)in.kwargs);
    return ok;
}

static bool holds(const struct rendered *r, const char *text)
{
    return r->text.len && memmem(r->text.data, r->text.len, text, strlen(text));
}

static bool shows(const struct chat_template *t, const struct probe *p, const char *text)
{
    struct rendered r = {0};
    bool yes = render(t, p, &r) && holds(&r, text);
    rendered_fini(&r);
    return yes;
}

static bool works(const struct chat_template *t, const char *messages)
{
    struct rendered r = {0};
    bool yes = render(t, &(struct probe){.messages = messages}, &r);
    rendered_fini(&r);
    return yes;
}

/* Do two values of a switch give two prompts? */
static bool differ(const struct chat_template *t, const char *one, const char *other)
{
    struct rendered a = {0}, b = {0};
    const char *messages = "[" USER "]";
    bool ok = render(t, &(struct probe){.messages = messages, .kwargs = one}, &a) &&
              render(t, &(struct probe){.messages = messages, .kwargs = other}, &b);
    bool yes = ok && (a.text.len != b.text.len ||
                      (a.text.len && memcmp(a.text.data, b.text.data, a.text.len)));
    rendered_fini(&a);
    rendered_fini(&b);
    return yes;
}

/* Arguments as an object, or as a string where the template joins them to text. */
static void probe_calls(struct chat_template *t)
{
    bool object = works(t, CALL("call_0123456789abcdef", "{\"x\":\"" PROBE "\"}"));
    bool text = works(t, CALL("call_0123456789abcdef", "\"{\\\"x\\\":\\\"" PROBE "\\\"}\""));
    if (!object && !text) {
        object = works(t, CALL("abcdefghi", "{\"x\":1}"));
        text = works(t, CALL("abcdefghi", "\"{\\\"x\\\":1}\""));
        t->short_ids = object || text;
    }
    t->arguments_as_text = text && !object;
    struct probe calls = {text && !object ? NAMED_CALL("\"{}\"") : NAMED_CALL("{}"), NULL, NULL};
    t->shows_calls = shows(t, &calls, PROBE);
}

/* A list of parts is understood when its text comes out as text, not printed as a list. */
static bool probe_parts(const struct chat_template *t)
{
    struct probe p = {"[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"" PROBE
                      "\"}]}]",
                      NULL, NULL};
    return shows(t, &p, PROBE) && !shows(t, &p, "'text'") && !shows(t, &p, "\"text\"");
}

static bool may_reason(const struct chat_template *t)
{
    static const char *const signs[] = {
        "<think>",           "</think>", "[THINK]", "reasoning_content", "<|channel|>analysis",
        "<|channel>thought", NULL};
    for (int i = 0; signs[i]; i++)
        if (chat_template_says(t, signs[i]))
            return true;
    return false;
}

void chat_template_probe(struct chat_template *t)
{
    struct chat_traits *c = &t->traits;
    struct rendered r = {0};
    c->format = parse_format_detect(t->source, t->source_len);
    c->tools = shows(t, &(struct probe){"[" USER "]", TOOLS, NULL}, PROBE);
    c->system_role = shows(
        t,
        &(struct probe){"[{\"role\":\"system\",\"content\":\"" PROBE "\"}," USER "]", NULL, NULL},
        PROBE);
    c->thinking = may_reason(t);
    c->thinking_switch = differ(t, "{\"enable_thinking\":true}", "{\"enable_thinking\":false}");
    c->effort = differ(t, "{\"reasoning_effort\":\"low\"}", "{\"reasoning_effort\":\"high\"}");
    c->verbosity = differ(t, "{\"verbosity\":\"low\"}", "{\"verbosity\":\"high\"}");
    c->opens_reasoning = render(t, &(struct probe){"[" USER "]", NULL, NULL}, &r) && r.text.data &&
                         chat_prompt_opens_reasoning(t, r.text.data, r.text.len);
    rendered_fini(&r);
    t->knows_developer = chat_template_says(t, "developer");
    t->takes_parts = probe_parts(t);
    probe_calls(t);
}
