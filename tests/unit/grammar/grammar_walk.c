/* Random answers under grammars, for validators outside: one JSON object a line in, one out.
 *   grammar_walk MODEL < lines
 * in:  {"schema": ..., "strict": false} or {"gbnf": "..."}; "n": answers, "seed", "max_tokens"
 * (default 400) "accept": [texts] asks instead which of them the grammar takes, cut into random
 * tokens "format": "hermes", "tools": [..], "calls": "may" or "must", "one_call",
 * "opens_reasoning", "may_reason": a whole answer of that format; then each text comes with what
 * the answer parser makes of it, in "parsed" out: {"texts": [..], "cut": k} (k answers did not end
 * by max_tokens), {"accepted": [bool]}, or {"error": "...", "code": "..."} */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/json/json.h"
#include "engine/chat/chat_parser.h"
#include "engine/grammar/answer_grammar.h"
#include "engine/grammar/gbnf.h"
#include "engine/grammar/grammar.h"
#include "engine/grammar/json_schema.h"
#include "engine/text/text_model.h"

static uint64_t state;

static uint32_t random_below(uint32_t n)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((state >> 33) % n);
}

static const cJSON *member(const cJSON *o, const char *name)
{
    return cJSON_GetObjectItemCaseSensitive(o, name);
}

static expr read_shape(struct builder *b, struct json_schema *s, const cJSON *line,
                       const struct vocab *v, struct err *e)
{
    struct call_tool tools[16];
    const char *calls = cJSON_GetStringValue(member(line, "calls"));
    struct answer_shape a = {.format = member(line, "format")->valuestring,
                             .vocab = v,
                             .tools = tools,
                             .content = -1,
                             .opens_reasoning = cJSON_IsTrue(member(line, "opens_reasoning")),
                             .may_reason = cJSON_IsTrue(member(line, "may_reason")),
                             .one_call = cJSON_IsTrue(member(line, "one_call")),
                             .calls = !calls                  ? TOOL_CHOICE_NONE
                                      : strcmp(calls, "must") ? TOOL_CHOICE_AUTO
                                                              : TOOL_CHOICE_REQUIRED};
    const cJSON *t;
    cJSON_ArrayForEach (t, member(line, "tools")) {
        const cJSON *f = member(t, "function");
        tools[a.n_tools] =
            (struct call_tool){member(f, "name")->valuestring, member(f, "parameters"),
                               cJSON_IsTrue(member(f, "strict")), (int)a.n_tools};
        a.n_tools++;
    }
    if (member(line, "schema"))
        a.content = json_schema_read(s, member(line, "schema"), false, e);
    return e->code ? -1 : answer_grammar(b, s, &a, e);
}

static bool compile(const cJSON *line, const struct vocab *v, struct buf *program, struct err *e)
{
    const cJSON *gbnf = cJSON_GetObjectItemCaseSensitive(line, "gbnf");
    struct builder *b = builder_create(0, e);
    struct json_schema *s = NULL;
    expr x;
    if (gbnf) {
        x = gbnf_read(b, gbnf->valuestring, strlen(gbnf->valuestring), e);
    } else {
        s = json_schema_create(b, e);
        x = member(line, "format")
                ? read_shape(b, s, line, v, e)
                : json_schema_read(s, cJSON_GetObjectItemCaseSensitive(line, "schema"),
                                   cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(line, "strict")),
                                   e);
    }
    bool ok = x >= 0 && builder_finish(b, x, program, e);
    json_schema_destroy(&s);
    builder_destroy(&b);
    return ok;
}

static int32_t nth(const struct grammar_mask *m, uint32_t n)
{
    if (m->list)
        return m->list[n];
    for (int32_t word = 0;; word++) {
        uint32_t count = (uint32_t)__builtin_popcount(m->bits[word]), left = m->bits[word];
        if (n >= count) {
            n -= count;
            continue;
        }
        while (n--)
            left &= left - 1;
        return word * 32 + __builtin_ctz(left);
    }
}

/* Structure is preferred now and then: else strings would go on for ever. */
static int32_t choose(const struct vocab *v, const struct grammar_mask *m)
{
    int32_t id = nth(m, random_below((uint32_t)m->n));
    for (int tries = 0; m->bits && tries < 400; tries++) {
        size_t len;
        const char *bytes = vocab_bytes(v, id, &len);
        if (!len || strchr("\"}],", bytes[0]))
            return id;
        if (tries == 0 && random_below(3))
            return id;
        id = nth(m, random_below((uint32_t)m->n));
    }
    return id;
}

static bool answer(struct grammar_cache *c, const struct text_model *t, const struct buf *program,
                   int max_tokens, struct buf *text, bool *cut, struct err *e)
{
    struct grammar_run *r = grammar_run_create(c, program->data, program->len, e);
    struct grammar_mask m;
    bool ok = r != NULL;
    *cut = true;
    for (int i = 0; ok && i < max_tokens; i++) {
        ok = grammar_run_mask(r, &m, e);
        if (!ok)
            break;
        bool end = grammar_run_may_end(r) && random_below(2);
        int32_t id = end ? t->eos[0] : choose(t->vocab, &m);
        if (!grammar_mask_has(&m, id)) {
            ok = err_set(e, ERR_INTERNAL, "the end is allowed and not in the mask");
            break;
        }
        ok = grammar_run_push(r, id, e);
        bool eos = false;
        for (int k = 0; k < t->n_eos; k++)
            eos |= t->eos[k] == id;
        if (eos) {
            *cut = false;
            break;
        }
        size_t len;
        const char *bytes = vocab_bytes(t->vocab, id, &len);
        buf_append(text, bytes, len);
    }
    grammar_run_destroy(&r);
    return ok;
}

/* Any cut of the text into tokens must be taken, each token being in the mask before it. */
static bool accepts(struct grammar_cache *c, const struct text_model *t, const struct buf *program,
                    const char *text, struct err *e)
{
    struct grammar_run *r = grammar_run_create(c, program->data, program->len, e);
    struct grammar_mask m;
    size_t len = strlen(text);
    bool ok = r != NULL;
    for (size_t at = 0; ok && at < len;) {
        int32_t ids[64];
        size_t sizes[64];
        uint32_t n = 0;
        for (size_t size = 1; size <= 64 && at + size <= len; size++) {
            int32_t id = vocab_find(t->vocab, text + at, size);
            if (id >= 0 && !(vocab_flags(t->vocab, id) & VOCAB_SPECIAL)) {
                ids[n] = id;
                sizes[n++] = size;
            }
        }
        uint32_t k = n ? random_below(n) : 0;
        ok = n && grammar_run_mask(r, &m, e) && grammar_mask_has(&m, ids[k]) &&
             grammar_run_push(r, ids[k], e);
        at += n ? sizes[k] : 1;
    }
    ok = ok && grammar_run_may_end(r);
    grammar_run_destroy(&r);
    return ok;
}

static void add_delta(void *context, const struct chat_delta *d)
{
    cJSON *o = context, *calls = cJSON_GetObjectItemCaseSensitive(o, "calls");
    struct buf text = {0};
    const char *name = d->type == CHAT_REASONING ? "reasoning"
                       : d->type == CHAT_CONTENT ? "content"
                                                 : "arguments";
    if (d->type == CHAT_CALL) {
        cJSON *call = cJSON_CreateObject();
        cJSON_AddStringToObject(call, "name", d->name);
        cJSON_AddItemToArray(calls, call);
    }
    if (d->type == CHAT_CALL || d->type == CHAT_CALL_END)
        return;
    cJSON *to = d->type == CHAT_ARGUMENTS ? cJSON_GetArrayItem(calls, d->index) : o;
    const char *before = cJSON_GetStringValue(member(to, name));
    buf_puts(&text, before ? before : "");
    buf_append(&text, d->text, d->len);
    cJSON_DeleteItemFromObjectCaseSensitive(to, name);
    cJSON_AddStringToObject(to, name, text.data ? text.data : "");
    buf_fini(&text);
}

static cJSON *parse(const cJSON *line, const struct buf *text)
{
    cJSON *o = cJSON_CreateObject();
    struct err e = {0};
    cJSON_AddArrayToObject(o, "calls");
    struct chat_parser_params params = {.format = member(line, "format")->valuestring,
                                        .tools = member(line, "tools"),
                                        .opens_reasoning =
                                            cJSON_IsTrue(member(line, "opens_reasoning")),
                                        .on_delta = add_delta,
                                        .context = o};
    struct chat_parser *p = chat_parser_create(&params, &e);
    if (p) {
        chat_parser_push(p, text->data ? text->data : "", text->len, &e);
        chat_parser_finish(p, &e);
    }
    chat_parser_destroy(&p);
    return o;
}

static void reply(const struct text_model *t, struct grammar_cache *c, const cJSON *line)
{
    struct buf program = {0};
    struct err e = {0};
    const cJSON *texts = cJSON_GetObjectItemCaseSensitive(line, "accept"), *v;
    const cJSON *n = cJSON_GetObjectItemCaseSensitive(line, "n"),
                *max = cJSON_GetObjectItemCaseSensitive(line, "max_tokens");
    const cJSON *seed = cJSON_GetObjectItemCaseSensitive(line, "seed");
    cJSON *out = cJSON_CreateObject(), *list = NULL;
    int n_cut = 0;
    state = seed ? (uint64_t)seed->valuedouble * 7919 + 1 : 1;
    bool ok = compile(line, t->vocab, &program, &e);
    cJSON *parsed = ok && member(line, "format") ? cJSON_AddArrayToObject(out, "parsed") : NULL;
    if (ok)
        list = cJSON_AddArrayToObject(out, texts ? "accepted" : "texts");
    cJSON_ArrayForEach (v, texts)
        if (ok)
            cJSON_AddItemToArray(list,
                                 cJSON_CreateBool(accepts(c, t, &program, v->valuestring, &e)));
    for (int i = 0; ok && !texts && i < (n ? n->valueint : 1); i++) {
        struct buf text = {0};
        bool cut;
        ok = answer(c, t, &program, max ? max->valueint : 400, &text, &cut, &e);
        if (ok && !cut)
            cJSON_AddItemToArray(list, cJSON_CreateString(text.data ? text.data : ""));
        if (ok && !cut && parsed)
            cJSON_AddItemToArray(parsed, parse(line, &text));
        n_cut += ok && cut;
        buf_fini(&text);
    }
    if (!ok) {
        cJSON_AddStringToObject(out, "error", e.text);
        cJSON_AddStringToObject(out, "code", err_code_name(e.code));
    }
    cJSON_AddNumberToObject(out, "cut", n_cut);
    struct buf b = {0};
    json_write(&b, out);
    puts(b.data);
    fflush(stdout);
    buf_fini(&b);
    cJSON_Delete(out);
    buf_fini(&program);
}

int main(int argc, char **argv)
{
    struct text_model t;
    struct err e = {0};
    char *text = NULL;
    size_t cap = 0;
    ssize_t len;
    if (argc != 2 || !text_model_open(&t, argv[1], NULL, &e)) {
        fprintf(stderr, "grammar_walk MODEL: %s\n", e.text);
        return 1;
    }
    struct token_trie *trie = token_trie_create(t.vocab, vocab_size(t.vocab), t.eos, t.n_eos, &e);
    struct grammar_cache *c = trie ? grammar_cache_create(trie, 0, &e) : NULL;
    while (c && (len = getline(&text, &cap, stdin)) > 0) {
        const struct json_limits l = {.max_depth = 900};
        cJSON *line = json_parse(text, (size_t)len, &l, &e);
        if (line)
            reply(&t, c, line);
        else
            printf("{\"error\": \"line\"}\n");
        cJSON_Delete(line);
    }
    free(text);
    grammar_cache_destroy(&c);
    token_trie_destroy(&trie);
    text_model_close(&t);
    return 0;
}
