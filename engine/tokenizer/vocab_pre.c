/* The pre-tokenizers that GGUF files only name (tokenizer.ggml.pre), as the models' own
 * tokenizer.json files write them. A name is here only when its patterns, its normalizer and its
 * use of merges are known; for any other the file is refused, since a near miss gives wrong ids
 * without a sign. */
#include <string.h>

#include "engine/tokenizer/vocab_source.h"

#define CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define WORDS "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+"
#define SYMBOLS " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*"
#define SPACES "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define CASED(end)                                                                                 \
    "[^\\r\\n\\p{L}\\p{N}]?" UPPER "*" LOWER "+" end "|[^\\r\\n\\p{L}\\p{N}]?" UPPER "+" LOWER     \
    "*" end

static const char qwen2[] = CONTRACTIONS "|" WORDS "|\\p{N}|" SYMBOLS "|" SPACES;
static const char qwen35[] = CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}"
                                          "| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|" SPACES;
static const char llama3[] = CONTRACTIONS "|" WORDS "|\\p{N}{1,3}|" SYMBOLS "|" SPACES;
static const char o200k[] =
    CASED(CONTRACTIONS "?") "|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|" SPACES;
static const char tekken[] = CASED("") "|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|" SPACES;
static const char bailing[] = "'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}"
                              "| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+";
static const char gpt2[] =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";
static const char digits3[] = "\\p{N}{1,3}";
static const char digit[] = "\\p{N}";
static const char cjk[] = "[一-龥぀-ゟ゠-ヿ]+";
static const char deepseek3[] =
    "[!\"#$%&'()*+,\\-./"
    ":;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"
    "| ?[\\p{P}\\p{S}]+[\r\n]*|" SPACES;

static const struct pre {
    const char *name;
    const char *splits[4];
    bool nfc, ignore_merges;
} table[] = {
    {"qwen2", {qwen2}, true, false},
    {"deepseek-r1-qwen", {qwen2}, true, false},
    {"qwen35", {qwen35}, true, false},
    {"llama-bpe", {llama3}, false, true},
    {"llama3", {llama3}, false, true},
    {"llama-v3", {llama3}, false, true},
    {"gpt-4o", {o200k}, false, true},
    {"llama4", {o200k}, false, true},
    {"tekken", {tekken}, false, true},
    {"bailingmoe", {bailing}, false, false},
    {"bailingmoe2", {bailing}, false, false},
    {"llada-moe", {bailing}, false, false},
    {"deepseek-v3", {digits3, cjk, deepseek3}, false, false},
    {"joyai-llm", {digits3, cjk, deepseek3}, false, false},
    {"gpt-2", {gpt2}, false, false},
    {"starcoder", {digit, gpt2}, false, false},
    {"refact", {digit, gpt2}, false, false},
    {"smollm", {digit, gpt2}, false, false},
};

bool vocab_source_pre(struct vocab_source *s, const char *pre, struct err *e)
{
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        if (strcmp(table[i].name, pre))
            continue;
        s->n_splits = 0;
        for (size_t k = 0; k < 4 && table[i].splits[k]; k++)
            s->splits[s->n_splits++] = (struct vocab_split){
                {table[i].splits[k], strlen(table[i].splits[k])}, VOCAB_SPLIT_ISOLATED};
        s->nfc = table[i].nfc;
        s->ignore_merges = table[i].ignore_merges;
        s->prefix_space = false;
        return true;
    }
    return err_field(e, ERR_UNSUPPORTED, "tokenizer.ggml.pre", "'%.64s' is not known", pre);
}
