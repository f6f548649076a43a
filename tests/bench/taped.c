/* taped.h: replaces what rows of a step say. A sequence's tokens lie in its job's whole text, whose
 * beginning tells the tape. */
#include "tests/bench/taped.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/json/json.h"
#include "engine/tokenizer/tokenizer.h"

#define SURE 1000.0f /* how far all other logits are below the tape's */

static struct {
    struct backend_ops ops;
    const struct backend_ops *real;
    const struct tapes *tapes;
    void (*began)(void);
    int32_t last; /* tape that was asked for */
    int32_t *ids; /* [cap, BACKEND_MAX_TOP] */
    float logits[BACKEND_MAX_TOP];
    int32_t cap;
} it;

static bool encode(const struct tokenizer *k, const char *words, struct ids *out, struct err *e)
{
    return words &&
           tokenizer_encode(k,
                            &(struct tokenizer_input){
                                .text = words, .len = strlen(words), .mode = TOKENIZE_PLAIN},
                            out, e);
}

bool tapes_read(const char *file, const char *vocab, struct tapes *out, struct err *e)
{
    struct vocab *v = vocab_load(vocab, NULL, e);
    struct tokenizer *k = v ? tokenizer_create(v, e) : NULL;
    cJSON *all = k ? json_parse_file(file, (size_t)64 << 20, e) : NULL;
    const cJSON *item;
    *out = (struct tapes){.at = calloc((size_t)cJSON_GetArraySize(all) + 1, sizeof *out->at)};
    bool ok = all && out->at;
    cJSON_ArrayForEach (item, all) {
        struct tape *x = &out->at[out->n];
        struct ids ids = {0};
        snprintf(x->set, sizeof x->set, "%s", json_text(item, "set"));
        ok = ok && encode(k, json_text(item, "prompt"), &ids, e);
        x->n_prompt = (int32_t)ids.n;
        ok = ok && encode(k, json_text(item, "answer"), &ids, e);
        x->ids = ids.at;
        x->n = (int32_t)ids.n;
        out->n += x->n > x->n_prompt + 2;
    }
    cJSON_Delete(all);
    tokenizer_destroy(&k);
    vocab_close(&v);
    return ok;
}

static bool begins_as(const struct tape *t, const int32_t *text, int32_t n)
{
    return n >= t->n_prompt && !memcmp(text, t->ids, (size_t)t->n_prompt * sizeof *text);
}

/* What follows the first n tokens of a text. */
static int32_t next_of(const int32_t *text, int32_t n)
{
    for (int32_t i = 0; i < it.tapes->n; i++, it.last = (it.last + 1) % it.tapes->n) {
        const struct tape *t = &it.tapes->at[it.last];
        if (begins_as(t, text, n))
            return n < t->n ? t->ids[n] : 0;
    }
    return 0;
}

static void say(struct step_row *row, int32_t *ids, int32_t n_top, int32_t id)
{
    for (int32_t k = 0; k < n_top; k++)
        ids[k] = k;
    if (id < n_top)
        ids[id] = 0;
    ids[0] = id;
    *row = (struct step_row){.top_ids = ids, .top_logits = it.logits};
}

static bool make_room(int32_t rows, struct err *e)
{
    if (rows <= it.cap)
        return true;
    int32_t *ids = realloc(it.ids, (size_t)rows * BACKEND_MAX_TOP * sizeof *ids);
    if (!ids)
        return err_set(e, ERR_NOMEM, "no memory for %d rows", rows);
    it.ids = ids;
    it.cap = rows;
    return true;
}

static bool step(struct backend *b, const struct step *s, struct step_row *rows, struct err *e)
{
    int32_t n = 0;
    bool begins = false;
    for (int32_t i = 0; i < s->n_sequences; i++) {
        n += s->sequences[i].n_out;
        begins = begins || !s->sequences[i].start;
    }
    if (begins && it.began)
        it.began();
    if (!make_room(n, e) || !it.real->step(b, s, rows, e))
        return false;
    n = 0;
    for (int32_t i = 0; i < s->n_sequences; i++) {
        const struct step_sequence *q = &s->sequences[i];
        for (int32_t k = q->n_tokens - q->n_out; k < q->n_tokens; k++, n++)
            say(&rows[n], it.ids + (size_t)n * BACKEND_MAX_TOP, s->n_top,
                next_of(q->tokens - q->start, q->start + k + 1));
    }
    return true;
}

const struct backend_ops *taped_ops(const struct backend_ops *real, const struct tapes *tapes,
                                    void (*began)(void))
{
    it.ops = *real;
    it.ops.step = step;
    it.real = real;
    it.tapes = tapes;
    it.began = began;
    for (int32_t k = 1; k < BACKEND_MAX_TOP; k++)
        it.logits[k] = -SURE;
    return &it.ops;
}
