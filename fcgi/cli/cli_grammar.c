/* Compiles the grammar of --grammar or --json-schema and opens a run of it for one answer. */
#include "fcgi/cli/cli_grammar.h"

#include "engine/base/file.h"
#include "engine/base/json/json.h"
#include "engine/grammar/gbnf.h"
#include "engine/grammar/json_schema.h"

static expr read_schema(struct json_schema *s, const char *file, cJSON **tree, struct err *e)
{
    *tree = json_parse_file(file, 16u << 20, e);
    return *tree ? json_schema_read(s, *tree, false, e) : -1;
}

static expr read_gbnf(struct builder *b, const char *file, struct err *e)
{
    struct buf text = {0};
    expr x = -1;
    if (file_read(file, GBNF_MAX_BYTES + 1, &text, e))
        x = gbnf_read(b, text.data ? text.data : "", text.len, e);
    buf_fini(&text);
    return x;
}

static bool compile(const char *gbnf_file, const char *schema_file, struct buf *program,
                    struct err *e)
{
    struct builder *b = builder_create(0, e);
    struct json_schema *s = b ? json_schema_create(b, e) : NULL;
    cJSON *tree = NULL;
    expr x = -1;
    if (s)
        x = gbnf_file ? read_gbnf(b, gbnf_file, e) : read_schema(s, schema_file, &tree, e);
    bool ok = x >= 0 && builder_finish(b, x, program, e);
    if (!ok && s && (tree || gbnf_file)) /* else the reader of files named it */
        err_prefix(e, "%.100s", gbnf_file ? gbnf_file : schema_file);
    json_schema_destroy(&s);
    builder_destroy(&b);
    cJSON_Delete(tree);
    return ok;
}

bool cli_grammar_open(struct cli_grammar *g, const struct cli_grammar_params *p, struct err *e)
{
    struct buf program = {0};
    *g = (struct cli_grammar){0};
    bool ok = compile(p->gbnf_file, p->schema_file, &program, e) &&
              (g->trie = token_trie_create(p->vocab, p->n_vocab, p->eos, p->n_eos, e)) != NULL &&
              (g->cache = grammar_cache_create(g->trie, 0, e)) != NULL &&
              (g->run = grammar_run_create(g->cache, program.data, program.len, e)) != NULL;
    buf_fini(&program);
    return ok;
}

void cli_grammar_close(struct cli_grammar *g)
{
    grammar_run_destroy(&g->run);
    grammar_cache_destroy(&g->cache);
    token_trie_destroy(&g->trie);
}
