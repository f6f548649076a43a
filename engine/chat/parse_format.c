/* The table of formats, and the detection of the format that a template teaches. */
#include "engine/chat/parse_format.h"

#include <string.h>

static const char *const no_openers[] = {NULL};
static const char *const tool_call[] = {"<tool_call>", NULL};
static const char *const coder[] = {"<tool_call>", "<function=", NULL};
static const char *const minimax[] = {"<minimax:tool_call>", NULL};
static const char *const deepseek[] = {"<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>", NULL};
static const char *const kimi[] = {"<|tool_calls_section_begin|>", "<|tool_call_begin|>", NULL};
static const char *const mistral[] = {"[TOOL_CALLS]", NULL};
static const char *const llama[] = {"<|python_tag|>", "{", NULL};

static const struct parse_format formats[] = {
    {"hermes", tool_call, &parse_json_machine, "<think>", "</think>", false, "</tool_call>"},
    {"qwen3_coder", coder, &parse_xml_machine, "<think>", "</think>", false, "</tool_call>"},
    {"harmony", no_openers, NULL, NULL, NULL, true, NULL},
    {"bailing", tool_call, &parse_bailing_machine, "<think>", "</think>", false, "</tool_call>"},
    {"deepseek_v3.1", deepseek, &parse_section_machine, "<think>", "</think>", false,
     "<｜tool▁calls▁end｜>"},
    {"deepseek_v3", deepseek, &parse_section_machine, "<think>", "</think>", false,
     "<｜tool▁calls▁end｜>"},
    {"glm", tool_call, &parse_pairs_machine, "<think>", "</think>", false, "</tool_call>"},
    {"kimi_k2", kimi, &parse_section_machine, "<think>", "</think>", true,
     "<|tool_calls_section_end|>"},
    {"minimax_m2", minimax, &parse_invoke_machine, "<think>", "</think>", false,
     "</minimax:tool_call>"},
    {"llama3", llama, &parse_llama_machine, "<think>", "</think>", true, NULL},
    {"mistral", mistral, &parse_mistral_machine, "[THINK]", "[/THINK]", true, NULL},
    {CHAT_RELAYED_FORMAT, no_openers, NULL, NULL, NULL, false, NULL},
    {"plain", no_openers, NULL, "<think>", "</think>", false, NULL},
};

const struct parse_format *parse_format_find(const char *name)
{
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (!strcmp(formats[i].name, name))
            return &formats[i];
    return NULL;
}

bool chat_format_special_text(const char *format)
{
    const struct parse_format *f = parse_format_find(format);
    return f && f->special_text;
}

bool chat_format_reasoning(const char *format, const char **open, const char **close)
{
    const struct parse_format *f = parse_format_find(format);
    if (!f || !f->think_open)
        return false;
    *open = f->think_open;
    *close = f->think_close;
    return true;
}

/* Rows are in order, from the most specific sign to the least; all of a row's signs must be in the
 * template. */
static const struct {
    const char *signs[3];
    const char *format;
} rows[] = {
    {{"<|channel|>", "<|message|>"}, "harmony"},
    {{"<minimax:tool_call>"}, "minimax_m2"},
    {{"<|tool_calls_section_begin|>"}, "kimi_k2"},
    {{"<｜tool▁call▁begin｜>", "```json"}, "deepseek_v3"},
    {{"<｜tool▁call▁begin｜>"}, "deepseek_v3.1"},
    {{"<tool_call>", "<role>ASSISTANT</role>"}, "bailing"},
    {{"<arg_key>", "<arg_value>"}, "glm"},
    {{"<function=", "<parameter="}, "qwen3_coder"},
    {{"<tool_call>"}, "hermes"},
    {{"[TOOL_CALLS]"}, "mistral"},
    {{"<|python_tag|>"}, "llama3"},
    {{"<|start_header_id|>", "\"parameters\": "}, "llama3"},
};

const char *parse_format_detect(const char *template, size_t len)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        bool all = true;
        for (int k = 0; k < 3 && rows[i].signs[k]; k++)
            all = all && memmem(template, len, rows[i].signs[k], strlen(rows[i].signs[k]));
        if (all)
            return rows[i].format;
    }
    return "plain";
}
