/* sluice logits: the model's raw output for given ids, for whoever wants to compare it with another
 * engine. With --dump the intermediates go along, so that a wrong layer can be found. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/file.h"
#include "engine/format/tensor_file.h"
#include "fcgi/cli/bench/dump.h"
#include "fcgi/cli/cli_ids.h"
#include "fcgi/cli/cli_options.h"
#include "fcgi/cli/cli_run.h"

extern const struct command cmd_logits;

struct logits {
    struct memory_options memory;
    const char *model, *ids_file, *out, *backend, *dump;
    int64_t last, chunk, threads;
    bool exact;
    struct tensor_writer writer;
    int32_t n_vocab;
};

#define AT(field) offsetof(struct logits, field)
static const struct option options[] = {
    {"model", OPTION_STRING, AT(model), NULL, 0, 0, NULL, "PATH", "model folder or GGUF file"},
    {"ids-file", OPTION_STRING, AT(ids_file), NULL, 0, 0, NULL, "FILE",
     "token ids: JSON, text or safetensors"},
    {"last", OPTION_INT, AT(last), "1", 1, 1 << 24, NULL, "N",
     "rows wanted: those of the last N tokens"},
    {"out", OPTION_STRING, AT(out), NULL, 0, 0, NULL, "FILE",
     "safetensors file to write: logits [N, vocab], f32"},
    {"backend", OPTION_CHOICE, AT(backend), "auto", 0, 0, "auto|vulkan|cpu", NULL, "what computes"},
    MEMORY_OPTION_ROWS(struct logits, memory),
    {"exact", OPTION_BOOL, AT(exact), NULL, 0, 0, NULL, NULL,
     "activations in f32 everywhere, however slow"},
    {"chunk", OPTION_INT, AT(chunk), "0", 0, 65536, NULL, "N", "rows of a prefill step (0: 512)"},
    {"threads", OPTION_INT, AT(threads), "0", 0, 1024, NULL, "N", "cpu: threads (0: one per core)"},
    {"dump", OPTION_STRING, AT(dump), NULL, 0, 0, NULL, "DIR",
     "also write DIR/trace.safetensors: every intermediate"},
};

static bool write_row(void *context, int32_t position, const struct step_row *row, struct err *e)
{
    struct logits *l = context;
    return tensor_writer_put(&l->writer, row->logits, (size_t)l->n_vocab * sizeof(float), e);
}

static bool compute(struct logits *l, struct cli_run *r, const struct ids *ids, struct err *e)
{
    int32_t n = (int32_t)ids->n, last = l->last < n ? (int32_t)l->last : n;
    struct tensor_entry entry = {"logits", "F32", 2, {last, r->plan->n_vocab}};
    l->n_vocab = r->plan->n_vocab;
    const struct tensor_list list = {.entries = &entry, .n = 1, .about = "sluice logits"};
    if (!tensor_writer_begin(&l->writer, l->out, &list, e))
        return false;
    struct cli_run_feed feed = {.tokens = ids->at,
                                .n = n,
                                .n_out = last,
                                .want_logits = true,
                                .on_row = write_row,
                                .context = l};
    return cli_run_feed(r, &feed, e) && tensor_writer_end(&l->writer, e);
}

static bool logits(struct logits *l, struct err *e)
{
    struct ids ids = {0};
    struct cli_run r = {0};
    struct dump *dump = NULL;
    if (!l->model || !l->ids_file || !l->out)
        return err_set(e, ERR_INPUT, "--model, --ids-file and --out are needed");
    bool ok = cli_ids_file(l->ids_file, &ids, e) &&
              (ids.n || err_set(e, ERR_INPUT, "no ids in %s", l->ids_file));
    ok = ok && (!l->dump || (dump = dump_create(l->dump, e)));
    if (ok) {
        struct cli_run_params p = {.model = l->model,
                                   .backend = l->backend,
                                   .memory = &l->memory,
                                   .n_tokens = (int32_t)ids.n,
                                   .chunk = (int32_t)l->chunk,
                                   .n_threads = (int32_t)l->threads,
                                   .exact = l->exact,
                                   .dump = dump ? dump_take : NULL,
                                   .dump_context = dump};
        ok = cli_run_open(&r, &p, e) && compute(l, &r, &ids, e) && (!dump || dump_write(dump, e));
    }
    tensor_writer_abort(&l->writer);
    cli_run_close(&r);
    dump_destroy(&dump);
    ids_fini(&ids);
    return ok;
}

static int run_logits(int argc, char **argv)
{
    struct logits l = {0};
    struct err e = {0};
    int status = cli_options(&cmd_logits, argc, argv, &l, NULL);
    if (status >= 0)
        return status;
    return logits(&l, &e) ? 0 : command_fail("logits", &e);
}

const struct command cmd_logits = {
    .name = "logits",
    .usage = "--model PATH --ids-file FILE [--last N] --out FILE [--backend B] [--exact]",
    .help = "write a model's logits for given token ids",
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .run = run_logits,
};
