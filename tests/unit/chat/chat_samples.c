/* chat_samples.h: answers in further formats, and calls that break under way. */
#include "tests/unit/chat/chat_samples.h"

const char chat_samples_tools[] =
    "[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{\"type\":\"object\","
    "\"properties\":{\"s\":{\"type\":\"string\"},"
    "\"n\":{\"type\":[\"integer\",\"null\"]},\"u\":{\"anyOf\":[{\"type\":\"string\"},{\"type\":"
    "\"integer\"}]},\"o\":{}}}}},"
    "{\"type\":\"function\",\"function\":{\"name\":\"g\"}}]";

#define F(arguments) "{\"name\":\"f\",\"arguments\":" arguments "}"
#define G "{\"name\":\"g\",\"arguments\":{}}"
/* malformed after it went live: the text of its arguments, as a C string in a C string */
#define BROKEN(name, text) "{\"name\":\"" name "\",\"arguments\":\"" text "\"}"

const struct chat_sample chat_samples_further[] = {
    {"mistral",
     "[TOOL_CALLS][{\"name\": \"f\", \"arguments\": {\"s\": \"]\"}, \"id\": \"abcdefghi\"}, "
     "{\"name\":\"g\",\"arguments\":{}}]",
     false, "", "", F("{\"s\": \"]\"}") "," G},
    {"mistral", "Ok.\n[TOOL_CALLS]f[CALL_ID]a1b2c3d4e[ARGS]{\"n\": 1.50}[TOOL_CALLS]g[ARGS]{}",
     false, "", "Ok.", F("{\"n\": 1.50}") "," G},
    {"mistral", "[THINK]hm[/THINK]Hi", false, "hm", "Hi", ""},
    {"mistral", "[TOOL_CALLS] nothing of the kind", false, "", "[TOOL_CALLS] nothing of the kind",
     ""},
    {"mistral", "[TOOL_CALLS][{\"name\": \"g\", \"arguments\": {}}, {\"name\"", false, "",
     "{\"name\"", G},
    {"llama3", "{\"name\": \"f\", \"parameters\": {\"s\": \"x\"}}", false, "", "",
     F("{\"s\": \"x\"}")},
    {"llama3",
     "<|python_tag|>{\"name\": \"g\", \"parameters\": {}}; {\"name\": \"f\", \"parameters\": "
     "{\"n\": 1}}",
     false, "", "", G "," F("{\"n\": 1}")},
    {"llama3", "{\"answer\": 42}", false, "", "{\"answer\": 42}", ""},
    {"llama3", "{\"name\": \"nobody\", \"parameters\": {}}", false, "",
     "{\"name\": \"nobody\", \"parameters\": {}}", ""},
    {"llama3", "{\"name\": \"g\", \"parameters\": {}} calls g.", false, "",
     "{\"name\": \"g\", \"parameters\": {}} calls g.", ""},
    {"llama3", "So: {\"name\": \"g\", \"parameters\": {}}", false, "",
     "So: {\"name\": \"g\", \"parameters\": {}}", ""},
    {"llama3", "<|python_tag|>g.call(x=1)", false, "", "<|python_tag|>g.call(x=1)", ""},
    {"deepseek_v3",
     "plan\n</"
     "think>\n\nOk<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{"
     "\"s\": \"x\"}\n```"
     "<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>g\n```json\n{}\n```<"
     "｜tool▁call▁end｜><｜tool▁calls▁end｜>",
     true, "plan", "Ok", F("{\"s\": \"x\"}") "," G},
    {"deepseek_v3.1", "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>g<｜tool▁sep｜>{}", false, "", "",
     G},
    {"deepseek_v3.1",
     "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>g<｜tool▁sep｜>{}<｜tool▁call▁end｜><"
     "｜tool▁call▁begin｜>f<｜tool▁sep｜>{\"s\":",
     false, "", "<｜tool▁call▁begin｜>f<｜tool▁sep｜>{\"s\":", G},
    {"kimi_k2",
     "<|tool_calls_section_begin|><|tool_call_begin|>functions.f:12<|tool_call_argument_begin|>{"
     "\"o\": [1, 2]}<|tool_call_end|>"
     "<|tool_calls_section_end|>\nDone",
     false, "", "Done", F("{\"o\": [1, 2]}")},
    {"kimi_k2", "<|tool_calls_section_begin|>oops", false, "", "<|tool_calls_section_begin|>oops",
     ""},
    {"bailing",
     "<tool_call>\n{\"name\": \"g\", \"arguments\": "
     "{}}\n</tool_call>\n<tool_call>f<arg_key>n</arg_key>\n<arg_value>7</arg_value>\n</tool_call>",
     false, "", "", G "," F("{\"n\": 7}")},
    {"minimax_m2",
     "<minimax:tool_call>\n<invoke name=\"g\">\n</invoke>\n<invoke name=\"f\">\n<parameter "
     "name=\"s\">a </parameter> b</parameter>\n</invoke>\n</minimax:tool_call>",
     false, "", "", G "," F("{\"s\": \"a </parameter> b\"}")},
    {"minimax_m2",
     "<minimax:tool_call>\n<invoke name=\"g\">\n</invoke>\n<invoke name=\"f\">\n<param", false, "",
     "<invoke name=\"f\">\n<param", G},
    {"qwen3_coder",
     "<tool_call>\n<function=f>\n<parameter=s>\nsay </parameter> "
     "twice\n</parameter>\n<parameter=n>\nNone\n</parameter>\n"
     "<parameter=u>\n12\n</parameter>\n<parameter=o>\n[1.0, "
     "{}]\n</parameter>\n</function>\n<function=g>\n</function>\n</tool_call>\nBye",
     false, "", "Bye",
     F("{\"s\": \"say </parameter> twice\", \"n\": null, \"u\": 12, \"o\": [1.0, {}]}") "," G},
    {"qwen3_coder", "<tool_call>\n<function=g>\n</function> and <b>", false, "", "and <b>", G},
    {"hermes",
     "<tool_call>{\"name\":\"g\"}\n<tool_call>{\"name\":\"f\",\"arguments\":{\"n\":"
     "12345678901234567890}}",
     false, "", "", G "," F("{\"n\":12345678901234567890}")},
    {"hermes", "The <tool_call> tag:\n<tool_call>{\"name\":\"g\"}</tool_call>", false, "",
     "The <tool_call> tag:", G},
    {"hermes", "<tool_call>{\"name\":\"g\",\"arguments\":[1]}</tool_call>", false, "",
     "<tool_call>{\"name\":\"g\",\"arguments\":[1]}</tool_call>", ""},
    {"hermes", "<tool_call>{\"name\":\"g\",\"arguments\":{\"a\":01}}</tool_call>", false, "",
     "<tool_call>{\"name\":\"g\",\"arguments\":{\"a\":01}}</tool_call>", ""},
    /* half of a surrogate pair is no character: a whole one stays as it was written */
    {"hermes",
     "<tool_call>{\"name\":\"f\",\"arguments\":{\"a\":\"\\ud800 "
     "\\udc00\\ud83d\\ude00\"}}</tool_call>",
     false, "", "", F("{\"a\":\"\\ufffd \\ufffd\\ud83d\\ude00\"}")},
    {"harmony", "<|channel|>commentary to=functions.g <|constrain|>json<|message|><|call|>", false,
     "", "", G},
    {"harmony", " to=functions.g<|channel|>commentary json<|message|> \n", false, "", "", G},
    {"hermes",
     "<tool_call>{\"name\":\"g\",\"arguments\":{\"a\":\"<tool_call>{\\\"name\\\":\\\"f\\\"}</"
     "tool_call>",
     false, "",
     "<tool_call>{\"name\":\"g\",\"arguments\":{\"a\":\"<tool_call>{\\\"name\\\":\\\"f\\\"}</"
     "tool_call>",
     ""},
    {"hermes", "<think>a", true, "a", "", ""},
    {"hermes", "<thi", true, "<thi", "", ""},
    {"hermes", "  <thi", false, "", "  <thi", ""},
    {"hermes", "a\n</think></think>", true, "a", "</think>", ""},
    {"plain", "<think>x</think>\n<tool_call>{\"name\":\"g\"}</tool_call>", false, "x",
     "<tool_call>{\"name\":\"g\"}</tool_call>", ""},
    {"harmony",
     "<|channel|>commentary to=functions.g "
     "<|constrain|>json<|message|>{}<|call|><|start|>assistant<|channel|>final<|message|>ok",
     false, "", "ok", G},
    {"harmony", " to=functions.g<|channel|>commentary json<|message|>{}", false, "", "", G},
    {"harmony", "<|channel|>analysis<|message|>a <|en", false, "a <|en", "", ""},
    {"harmony",
     "<|channel|>final<|message|>a<|end|>\n<|start|>assistant<|channel|>final<|message|>b", false,
     "", "a\nb", ""},
    {"harmony", "<|cha", false, "", "<|cha", ""},
    {"hermes", "<tool_call>{\"arguments\":{\"a\":01},\"name\":\"g\"}</tool_call>", false, "",
     "<tool_call>{\"arguments\":{\"a\":01},\"name\":\"g\"}</tool_call>", ""},
    {"hermes", "<tool_call>{\"name\":\"nobody\",\"arguments\":{\"a\":01}}</tool_call>", false, "",
     "<tool_call>{\"name\":\"nobody\",\"arguments\":{\"a\":01}}</tool_call>", ""},
};
const size_t chat_samples_n_further = sizeof chat_samples_further / sizeof *chat_samples_further;

const struct chat_sample chat_samples_broken[] = {
    {"deepseek_v3.1",
     "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>g<｜tool▁sep｜>{}<｜tool▁call▁end｜><"
     "｜tool▁call▁begin｜>f<｜tool▁sep｜>{\"s\":",
     false, "", "", G "," BROKEN("f", "{\\\"s\\\":")},
    {"hermes", "<tool_call>{\"name\":\"g\",\"arguments\":{\"a\":01}}</tool_call> on", false, "",
     "on", BROKEN("g", "{\\\"a\\\":01}}")},
    {"qwen3_coder", "<function=f><parameter=n>\n1\n</parameter><parameter=s>\n\xC3\xA9\n\n</par",
     false, "", "", BROKEN("f", "{\\\"n\\\": 1, \\\"s\\\": \\\"\xC3\xA9\\\\n\\\\n</par")},
    {"hermes", "<tool_call>{\"name\":\"g\",\"arguments\":{\"a\":\"\\ud800\"}}</tool_call>", false,
     "", "", BROKEN("g", "{\\\"a\\\":\\\"\\\\ud800\\\"}")},
    {"hermes", "<tool_call>{\"name\":\"g\",\"arguments\":{\"a\":\"<tool_call>", false, "", "",
     BROKEN("g", "{\\\"a\\\":\\\"<tool_call>")},
};
const size_t chat_samples_n_broken = sizeof chat_samples_broken / sizeof *chat_samples_broken;
