/* Applies the vocabulary's split patterns one after another, each to the pieces that the one before
 * left. */
#include "engine/tokenizer/pretokenize.h"

#include <stdlib.h>
#include <string.h>

#include "engine/tokenizer/pretokenize_pcre.h"
#include "engine/tokenizer/vocab_image.h"
#include "engine/tokenizer/vocab_source.h"

struct step {
    struct pcre_pattern *pcre;
    enum vocab_split_kind kind;
};

struct pretokenizer {
    struct step steps[VOCAB_SPLITS_MAX];
    size_t n_steps;
};

struct pretokenizer_scratch {
    struct pcre_scratch *pcre[VOCAB_SPLITS_MAX]; /* of each step: subjects nest */
};

struct pretokenizer *pretokenizer_create(const struct vocab *v, struct err *e)
{
    struct pretokenizer *s = calloc(1, sizeof *s);
    if (!s) {
        err_set(e, ERR_NOMEM, "out of memory");
        return NULL;
    }
    for (; s->n_steps < v->n_splits; s->n_steps++) {
        const struct vocab_image_split *from = &v->splits[s->n_steps];
        struct step *step = &s->steps[s->n_steps];
        step->kind = (enum vocab_split_kind)from->kind;
        step->pcre = pcre_pattern_create(v->text + from->offset, from->len, e);
        if (!step->pcre) {
            pretokenizer_destroy(&s);
            return NULL;
        }
    }
    return s;
}

void pretokenizer_destroy(struct pretokenizer **s)
{
    if (!*s)
        return;
    for (size_t i = 0; i < VOCAB_SPLITS_MAX; i++)
        pcre_pattern_destroy(&(*s)->steps[i].pcre);
    free(*s);
    *s = NULL;
}

struct pretokenizer_scratch *pretokenizer_scratch_create(const struct pretokenizer *s)
{
    struct pretokenizer_scratch *scratch = calloc(1, sizeof *scratch);
    for (size_t i = 0; scratch && i < s->n_steps; i++)
        if (s->steps[i].pcre && !(scratch->pcre[i] = pcre_scratch_create()))
            pretokenizer_scratch_destroy(&scratch);
    return scratch;
}

void pretokenizer_scratch_destroy(struct pretokenizer_scratch **s)
{
    if (!*s)
        return;
    for (size_t i = 0; i < VOCAB_SPLITS_MAX; i++)
        pcre_scratch_destroy(&(*s)->pcre[i]);
    free(*s);
    *s = NULL;
}

struct split_context {
    const struct pretokenizer *pretokenizer;
    struct pretokenizer_scratch *scratch;
    const struct pretokenizer_input *in;
    struct err *e;
};

/* Step `i` over one piece, then the rest of the steps over each of its parts. */
static bool split(const struct split_context *w, size_t i, const char *text, size_t len)
{
    if (len == 0)
        return true;
    if (i == w->pretokenizer->n_steps)
        return w->in->on_piece(w->in->context, text, len);
    const struct step *step = &w->pretokenizer->steps[i];
    struct pcre_scratch *scratch = w->scratch->pcre[i];
    const char *subject = pcre_scratch_subject(scratch, text, len);
    if (!subject)
        return err_set(w->e, ERR_NOMEM, "out of memory");
    bool matches = step->kind != VOCAB_SPLIT_GAPS, gaps = step->kind != VOCAB_SPLIT_MATCHES;
    size_t done = 0, match[2];
    while (done < len) {
        int found = pcre_pattern_find(
            step->pcre, scratch,
            &(struct pcre_search){.subject = subject, .len = len, .from = done}, match, w->e);
        if (found < 0)
            return false;
        if (!found)
            match[0] = match[1] = len;
        else if (match[0] == match[1])
            return err_set(w->e, ERR_UNSUPPORTED, "the split pattern matches empty text");
        if ((gaps && !split(w, i + 1, text + done, match[0] - done)) ||
            (matches && !split(w, i + 1, text + match[0], match[1] - match[0])))
            return false;
        done = match[1];
    }
    return true;
}

bool pretokenizer_run(const struct pretokenizer *s, struct pretokenizer_scratch *scratch,
                      const struct pretokenizer_input *in, struct err *e)
{
    struct split_context w = {s, scratch, in, e};
    return split(&w, 0, in->text, in->len);
}
