/* sluice tokenize: text on standard input to token ids. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/file.h"
#include "engine/base/json/json.h"
#include "engine/base/option.h"
#include "engine/tokenizer/tokenizer.h"
#include "engine/tokenizer/vocab.h"
#include "fcgi/cli/cli_jsonl.h"
#include "fcgi/cli/cli_options.h"
#include "fcgi/cli/command.h"

enum { INPUT_MAX = 1 << 28, BENCH_RUNS = 5 };

struct settings {
    const char *model, *cache, *bench;
    bool special, json, jsonl;
};

static const struct option options[] = {
    {"model", OPTION_STRING, offsetof(struct settings, model), NULL, 0, 0, NULL, "M",
     "model folder, or a tokenizer.json"},
    {"special", OPTION_BOOL, offsetof(struct settings, special), NULL, 0, 0, NULL, NULL,
     "recognise added tokens written in the text"},
    {"json", OPTION_BOOL, offsetof(struct settings, json), NULL, 0, 0, NULL, NULL,
     "print {\"ids\": [...]}"},
    {"jsonl", OPTION_BOOL, offsetof(struct settings, jsonl), NULL, 0, 0, NULL, NULL,
     "one case a line: {\"text\" or \"bytes_hex\", \"special\": bool} to {\"ids\"}"},
    {"bench", OPTION_STRING, offsetof(struct settings, bench), NULL, 0, 0, NULL, "FILE",
     "tokenize FILE several times on one core and print MB/s"},
    {"cache", OPTION_STRING, offsetof(struct settings, cache), NULL, 0, 0, NULL, "DIR",
     "keep the compiled vocabulary there"},
};
enum { N_OPTIONS = sizeof options / sizeof options[0] };

extern const struct command cmd_tokenize;

struct context {
    const struct tokenizer *tokenizer;
    enum tokenize_mode mode;
};

static void put_ids(struct buf *out, const struct ids *ids)
{
    buf_puts(out, "{\"ids\":[");
    for (size_t i = 0; i < ids->n; i++)
        buf_printf(out, i ? ",%d" : "%d", ids->at[i]);
    buf_puts(out, "]}");
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

static bool put_hex(struct buf *out, const char *hex, struct err *e)
{
    for (; hex[0]; hex += 2) {
        int high = hex_digit(hex[0]), low = high < 0 ? -1 : hex_digit(hex[1]);
        if (low < 0)
            return err_field(e, ERR_INPUT, "bytes_hex", "not pairs of hexadecimal digits");
        buf_putc(out, (char)(high << 4 | low));
    }
    return true;
}

static bool answer(void *context, const struct cli_jsonl_line *line, struct buf *out, struct err *e)
{
    const struct context *c = context;
    const char *text = NULL, *hex = NULL;
    bool special = c->mode == TOKENIZE_SPECIAL;
    struct buf input = {0};
    struct ids ids = {0};
    bool ok = json_get_string(line->root, "text", &text, e) &&
              json_get_string(line->root, "bytes_hex", &hex, e) &&
              json_get_bool(line->root, "special", &special, e);
    if (ok && !text && !hex)
        ok = err_field(e, ERR_INPUT, "text", "neither it nor bytes_hex is there");
    if (ok)
        ok = hex ? put_hex(&input, hex, e) : cli_jsonl_text(line, text, &input);
    ok = ok && tokenizer_encode(
                   c->tokenizer,
                   &(struct tokenizer_input){.text = input.data ? input.data : "",
                                             .len = input.len,
                                             .mode = special ? TOKENIZE_SPECIAL : TOKENIZE_PLAIN},
                   &ids, e);
    if (ok)
        put_ids(out, &ids);
    buf_fini(&input);
    ids_fini(&ids);
    return ok;
}

static bool print_ids(const struct context *c, bool json, struct err *e)
{
    struct buf in = {0}, out = {0};
    struct ids ids = {0};
    bool ok = file_read_fd(STDIN_FILENO, INPUT_MAX, &in, e) &&
              tokenizer_encode(c->tokenizer,
                               &(struct tokenizer_input){
                                   .text = in.data ? in.data : "", .len = in.len, .mode = c->mode},
                               &ids, e);
    if (ok && json)
        put_ids(&out, &ids);
    for (size_t i = 0; ok && !json && i < ids.n; i++)
        buf_printf(&out, i ? " %d" : "%d", ids.at[i]);
    buf_putc(&out, '\n');
    if (ok && (out.failed || fwrite(out.data, 1, out.len, stdout) != out.len || fflush(stdout)))
        ok = err_errno(e, "standard output");
    buf_fini(&in);
    buf_fini(&out);
    ids_fini(&ids);
    return ok;
}

static bool bench(const struct context *c, const char *path, double load_ms, struct err *e)
{
    struct file_map m;
    struct ids ids = {0};
    double first = 0, best = 0;
    bool ok = file_map(path, &m, e);
    if (!ok)
        return false;
    for (int i = 0; i < BENCH_RUNS && ok; i++) {
        ids.n = 0;
        double start = clock_ms();
        ok = tokenizer_encode(
            c->tokenizer,
            &(struct tokenizer_input){.text = (const char *)m.data, .len = m.size, .mode = c->mode},
            &ids, e);
        double ms = clock_ms() - start;
        first = i ? first : ms;
        best = i && best < ms ? best : ms;
    }
    if (ok)
        printf("bytes %zu  tokens %zu  load %.1f ms  first %.2f MB/s  best of %d %.2f MB/s\n",
               m.size, ids.n, load_ms, (double)m.size / 1e3 / first, BENCH_RUNS,
               (double)m.size / 1e3 / best);
    ids_fini(&ids);
    file_unmap(&m);
    return ok;
}

static int run(int argc, char **argv)
{
    struct settings s;
    struct err e = {0};
    struct vocab *vocab = NULL;
    struct tokenizer *tokenizer = NULL;
    int status = cli_options(&cmd_tokenize, argc, argv, &s, NULL);
    if (status >= 0)
        return status;
    if (!s.model)
        return cli_misused(&cmd_tokenize, "--model is needed");
    double start = clock_ms();
    status = 1;
    if ((vocab = vocab_load(s.model, s.cache, &e)) && (tokenizer = tokenizer_create(vocab, &e))) {
        struct context c = {tokenizer, s.special ? TOKENIZE_SPECIAL : TOKENIZE_PLAIN};
        if (s.jsonl)
            status = cli_jsonl_run("tokenize", answer, &c);
        else if (s.bench ? bench(&c, s.bench, clock_ms() - start, &e) : print_ids(&c, s.json, &e))
            status = 0;
    }
    if (e.code)
        command_fail("tokenize", &e);
    tokenizer_destroy(&tokenizer);
    vocab_close(&vocab);
    return status;
}

const struct command cmd_tokenize = {
    .name = "tokenize",
    .usage = "--model M [--special] [--json | --jsonl]",
    .help = "turns text into token ids",
    .options = options,
    .n_options = N_OPTIONS,
    .run = run,
};
