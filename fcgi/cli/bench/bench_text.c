/* What the benchmark reads: text of several kinds. Repeating one token would route to the same
 * experts over and over and flatter every figure; random ids route like nothing real. */
#include <stdlib.h>
#include <string.h>

#include "engine/base/buf.h"
#include "engine/sched/sampling/random.h"
#include "fcgi/cli/bench/bench.h"

static const char *const passages[] = {
    "The harbour lay quiet under a low sky when the ferry came in. Three people got off: a woman "
    "with a cello, a boy "
    "who carried a cage with two finches, and the postman, who had been seasick and would not say "
    "so. ",
    "static int compare(const void *a, const void *b)\n{\n    const struct node *x = a, *y = b;\n  "
    "  if (x->weight != "
    "y->weight)\n        return x->weight < y->weight ? -1 : 1;\n    return strcmp(x->name, "
    "y->name);\n}\n\n",
    "A train leaves at 9:40 and travels 210 kilometres at 84 km/h. When does it arrive? 210 / 84 = "
    "2.5 hours, so it "
    "arrives at 12:10. If it stops twice for 6 minutes, it arrives at 12:22. ",
    "Die Wahrheit ist dem Menschen zumutbar. Sie fragte nach dem Weg zum Bahnhof, bekam drei "
    "Antworten und glaubte "
    "keiner davon. Draussen fing es an zu regnen; die Strassenlampen gingen an. ",
    "{\"id\": 1042, \"customer\": \"Lindqvist\", \"items\": [{\"sku\": \"A-17\", \"n\": 3, "
    "\"price\": 12.5}, {\"sku\": "
    "\"C-02\", \"n\": 1, \"price\": 240.0}], \"paid\": false, \"note\": null}\n",
    "El viento del norte y el sol disputaban sobre cual de ellos era el mas fuerte. Entonces paso "
    "un viajero envuelto "
    "en una ancha capa, y convinieron en que ganaria quien lograse quitarsela. ",
    "def moving_average(values, width):\n    total, out = 0.0, []\n    for i, v in "
    "enumerate(values):\n        total += v\n"
    "        if i >= width:\n            total -= values[i - width]\n        out.append(total / "
    "min(i + 1, width))\n    return out\n",
    "In 1869 the periodic table had gaps, and Mendeleev named what would fill them: an element "
    "like aluminium, one like "
    "boron, one like silicon. Gallium was found in 1875, scandium in 1879, germanium in 1886. ",
};

/* Passages in a pseudo-random order with numbered headings between them, so that no two stretches
 * are equal. */
static bool compose(int32_t at_least, struct buf *text)
{
    size_t n = sizeof passages / sizeof *passages;
    for (uint64_t i = 0; text->len < (size_t)at_least * 4; i++) {
        buf_printf(text, "\n## %llu. ", (unsigned long long)(random_uniform(2, i) * 1e6));
        buf_puts(text, passages[(size_t)(random_uniform(1, i) * (double)n)]);
    }
    return !text->failed;
}

static bool tokenized(const char *model, int32_t n_vocab, int32_t n, struct ids *out)
{
    struct err ignored = {0};
    struct buf text = {0};
    struct vocab *v = vocab_load(model, NULL, &ignored);
    struct tokenizer *t = v && vocab_size(v) <= n_vocab ? tokenizer_create(v, &ignored) : NULL;
    bool ok = t && compose(n, &text);
    while (ok &&
           out->n < (size_t)n) /* tokens are seldom longer than four bytes on average, but may be */
        ok = tokenizer_encode(
            t,
            &(struct tokenizer_input){.text = text.data, .len = text.len, .mode = TOKENIZE_PLAIN},
            out, &ignored);
    tokenizer_destroy(&t);
    vocab_close(&v);
    buf_fini(&text);
    return ok;
}

bool bench_prompt(const struct bench_prompt_params *p, struct ids *out, bool *real, struct err *e)
{
    *real = tokenized(p->model, p->n_vocab, p->n, out);
    for (uint64_t i = out->n; i < (uint64_t)p->n; i++)
        if (!ids_push(out, (int32_t)(random_uniform(3, i) * p->n_vocab)))
            return err_set(e, ERR_NOMEM, "no memory for %d ids", p->n);
    return true;
}
