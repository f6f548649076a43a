/* Grammars from outside: GBNF, JSON Schema, patterns. Whatever compiles must be a program that the
 * engine takes; a walk through it must not fail but by its bounds, and the answer parser's text
 * must be JSON where a schema was given. First byte: 0 mod 3: GBNF, 1: JSON Schema, 2: the
 * parameters of a tool in a format; the second and third: the walk. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/json/json.h"
#include "engine/grammar/answer_grammar.h"
#include "engine/grammar/automaton.h"
#include "engine/grammar/gbnf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const formats[] = {"hermes",        "qwen3_coder", "harmony", "bailing",
                                      "deepseek_v3.1", "deepseek_v3", "glm",     "kimi_k2",
                                      "minimax_m2",    "llama3",      "mistral"};

static expr read_tool(struct builder *b, struct json_schema *s, const cJSON *tree, uint8_t which,
                      struct err *e)
{
    struct call_tool t = {.name = "f", .parameters = tree, .strict = which & 1};
    struct answer_shape a = {.format = formats[which % 11],
                             .tools = &t,
                             .n_tools = 1,
                             .content = -1,
                             .calls = which & 2 ? TOOL_CHOICE_REQUIRED : TOOL_CHOICE_AUTO};
    return answer_grammar(b, s, &a, e);
}

/* Takes the first byte that goes on, from a changing place: every state that is met must have one,
 * or be an end. */
static void walk(const struct program *p, uint32_t seed)
{
    struct automaton a;
    struct err e = {0};
    if (!automaton_init(&a, p, &e)) {
        if (e.code != ERR_LIMIT)
            abort();
        return;
    }
    uint32_t state = a.start;
    automaton_allow(&a, 30000);
    for (int i = 0; i < 60 && state != STATE_UNKNOWN && state != STATE_DEAD; i++) {
        uint32_t next = STATE_DEAD;
        seed = seed * 1664525u + 1013904223u;
        for (uint32_t k = 0; k < 256 && next == STATE_DEAD; k++)
            next = automaton_step(&a, state, (uint8_t)((seed >> 24) + k));
        if (next == STATE_DEAD && !a.states[state].may_end &&
            a.frames[a.places[a.states[state].first].frame].depth < 500)
            abort(); /* a dead end */
        state = next;
    }
    automaton_fini(&a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct err e = {0};
    struct buf out = {0};
    struct program p;
    if (size < 3)
        return 0;
    const char *text = (const char *)data + 3;
    struct builder *b = builder_create((size_t)16 << 20, &e);
    struct json_schema *s = json_schema_create(b, &e);
    cJSON *tree = data[0] % 3 ? json_parse(text, size - 3, NULL, NULL) : NULL;
    expr x = -1;
    if (data[0] % 3 == 0)
        x = gbnf_read(b, text, size - 3, &e);
    else if (tree)
        x = data[0] % 3 == 1 ? json_schema_read(s, tree, data[1] & 1, &e)
                             : read_tool(b, s, tree, data[1], &e);
    if (x < 0 && (tree || data[0] % 3 == 0) && e.code == ERR_NONE)
        abort(); /* a failure says why */
    if (x >= 0 && builder_finish(b, x, &out, &e)) {
        if (!program_open(&p, out.data, out.len, 1000, &e))
            abort();
        walk(&p, (uint32_t)data[1] << 8 | data[2]);
    }
    buf_fini(&out);
    cJSON_Delete(tree);
    json_schema_destroy(&s);
    builder_destroy(&b);
    return 0;
}
