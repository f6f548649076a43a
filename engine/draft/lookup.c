/* Drafts what followed the last time that the text stood where it stands now: look-up of its last
 * tokens in prediction, prompt and answer (prompt lookup decoding, Saxena 2023; REST, He et al.
 * 2023, without a datastore).
 *
 * The text is held in one array: prediction, a boundary, prompt, answer. Each position is linked to
 * the previous one that ends with the same 3 tokens (and 2, in a second chain), so adding a token
 * costs a few instructions and a search walks only over places that match. */
#include <stdlib.h>
#include <string.h>

#include "engine/draft/drafter.h"

#define BOUNDARY (-1)  /* no token: nothing matches over it */
#define MOST_WALK 48   /* places that a search looks at, latest first */
#define MOST_MATCH 32  /* longer matches are not told apart */
#define FIRST_CAP 1024 /* a power of two, as all sizes */
#define NOWHERE (-1)

struct chain {
    int32_t gram;      /* tokens that must be equal */
    int32_t *head;     /* [cap] last position by hash, or NOWHERE */
    int32_t *previous; /* [cap] the position before with the same hash, or NOWHERE */
};

struct lookup {
    int32_t *text; /* [n] */
    int32_t n, cap;
    int32_t n_seen;         /* of draft_text.tokens */
    int32_t n_predicted;    /* positions before this belong to the prediction */
    struct chain chains[2]; /* the longer gram first */
};

static void *lookup_create(struct draft_model *m, struct err *e)
{
    struct lookup *l = calloc(1, sizeof *l);
    if (!l) {
        err_set(e, ERR_NOMEM, "no memory for a drafter");
        return NULL;
    }
    l->chains[0].gram = 3;
    l->chains[1].gram = 2;
    return l;
}

static void lookup_destroy(void *state)
{
    struct lookup *l = state;
    if (!l)
        return;
    for (int i = 0; i < 2; i++) {
        free(l->chains[i].head);
        free(l->chains[i].previous);
    }
    free(l->text);
    free(l);
}

/* Of the tokens that end at `at`. */
static uint32_t hash_at(const struct lookup *l, int32_t gram, int32_t at)
{
    uint64_t h = 0;
    for (int32_t i = at - gram + 1; i <= at; i++)
        h = (h ^ (uint64_t)(uint32_t)l->text[i]) * 0x9E3779B97F4A7C15u;
    return (uint32_t)(h >> 32) & (uint32_t)(l->cap - 1);
}

static void link_position(struct lookup *l, int32_t at)
{
    for (int i = 0; i < 2; i++) {
        struct chain *c = &l->chains[i];
        c->previous[at] = NOWHERE;
        if (at + 1 < c->gram)
            continue;
        uint32_t h = hash_at(l, c->gram, at);
        c->previous[at] = c->head[h];
        c->head[h] = at;
    }
}

/* Makes room for n tokens; the chains are built anew, since their hashes depend on the size. */
static bool grow(struct lookup *l, int32_t n)
{
    int32_t cap = l->cap ? l->cap : FIRST_CAP;
    if (n <= l->cap)
        return true;
    while (cap < n) {
        if (cap > INT32_MAX / 2)
            return false;
        cap *= 2;
    }
    int32_t *text = realloc(l->text, (size_t)cap * sizeof *text);
    if (!text)
        return false;
    l->text = text;
    for (int i = 0; i < 2; i++) {
        struct chain *c = &l->chains[i];
        int32_t *head = realloc(c->head, (size_t)cap * sizeof *head);
        c->head = head ? head : c->head;
        int32_t *previous = realloc(c->previous, (size_t)cap * sizeof *previous);
        c->previous = previous ? previous : c->previous;
        if (!head || !previous)
            return false;
        for (int32_t k = 0; k < cap; k++)
            head[k] = NOWHERE;
    }
    l->cap = cap;
    for (int32_t at = 0; at < l->n; at++)
        link_position(l, at);
    return true;
}

static void append(struct lookup *l, int32_t token)
{
    l->text[l->n] = token;
    link_position(l, l->n++);
}

static bool follow(struct lookup *l, const struct draft_text *t)
{
    int32_t before = l->n_seen ? 0 : t->n_prediction + 1;
    if (t->n_tokens < l->n_seen || before > INT32_MAX - l->n - t->n_tokens ||
        !grow(l, l->n + before + t->n_tokens - l->n_seen))
        return false;
    if (!l->n_seen) {
        for (int32_t i = 0; i < t->n_prediction; i++)
            append(l, t->prediction[i]);
        l->n_predicted = l->n;
        append(l, BOUNDARY);
    }
    for (; l->n_seen < t->n_tokens; l->n_seen++)
        append(l, t->tokens[l->n_seen]);
    return true;
}

/* How many tokens before and at `at` equal the text's last ones. */
static int32_t match_length(const struct lookup *l, int32_t at)
{
    int32_t n = 0;
    while (n < MOST_MATCH && n <= at && l->text[at - n] == l->text[l->n - 1 - n] &&
           l->text[at - n] != BOUNDARY)
        n++;
    return n;
}

/* The place with the longest match, the latest of equals; NOWHERE: none. */
static int32_t find(const struct lookup *l, int32_t *length)
{
    int32_t best = NOWHERE;
    *length = 0;
    for (int i = 0; i < 2 && best < 0; i++) {
        const struct chain *c = &l->chains[i];
        int32_t at = c->previous[l->n - 1];
        for (int walked = 0; at >= 0 && walked < MOST_WALK && *length < MOST_MATCH;
             at = c->previous[at], walked++) {
            int32_t n = match_length(l, at);
            if (n < c->gram || n <= *length)
                continue;
            *length = n;
            best = at;
        }
    }
    return best;
}

static enum draft_ground ground_of(int32_t length)
{
    return length >= 20   ? DRAFT_MATCH_20
           : length >= 10 ? DRAFT_MATCH_10
           : length >= 6  ? DRAFT_MATCH_6
           : length >= 4  ? DRAFT_MATCH_4
           : length == 3  ? DRAFT_MATCH_3
                          : DRAFT_MATCH_2;
}

/* From `at` on; where the text itself ends, the draft goes on in the same period. */
static void copy_from(const struct lookup *l, int32_t at, int32_t length, int32_t most,
                      struct draft *out)
{
    const bool predicted = at < l->n_predicted;
    for (; out->n < most; out->n++, at++) {
        int32_t token = at < l->n ? l->text[at] : out->ids[at - l->n];
        if (token == BOUNDARY)
            break;
        out->ids[out->n] = token;
        out->ground[out->n] = length       ? ground_of(length + out->n)
                              : out->n < 2 ? DRAFT_FORESEEN
                                           : ground_of(out->n);
    }
    out->predicted = predicted && out->n > 0;
}

static void look_up(struct draft_ask *ask)
{
    struct lookup *l = ask->state;
    const struct draft_text *text = &ask->text;
    int32_t length = 0;
    ask->failed = !follow(l, text);
    if (ask->failed)
        return;
    int32_t at = l->n ? find(l, &length) : NOWHERE;
    if (at >= 0)
        copy_from(l, at + 1, length, ask->most, &ask->out);
    else if (text->n_tokens == text->n_prompt + 1 && l->n_predicted > 1 &&
             l->text[0] == text->tokens[text->n_prompt])
        copy_from(l, 1, 0, ask->most, &ask->out); /* the answer began as the prediction does */
}

static void lookup_draft(struct draft_model *m, struct draft_ask *asks, int32_t n)
{
    for (int32_t i = 0; i < n; i++)
        look_up(&asks[i]);
}

const struct drafter lookup_drafter = {
    .name = "ngram",
    .create = lookup_create,
    .destroy = lookup_destroy,
    .draft = lookup_draft,
};
