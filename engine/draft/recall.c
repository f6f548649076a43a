/* recall.h: a piece for each KV block, its tokens linked by the hash of the three that end there. A
 * search walks over the latest places of equal words; of those that match the text over the longest
 * stretch the most decide each token, and how many they are says how sure that is. */
#include "engine/draft/recall.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/hash.h"
#include "engine/memory/memory_plan.h"

#define GRAM 3        /* tokens that must be equal */
#define MOST_WALK 16  /* places that a search looks at, latest first */
#define MOST_MATCH 12 /* longer matches are not told apart */
#define PLACES (BACKEND_BLOCK_TOKENS + RECALL_TAIL) /* of a piece */

/* Places are numbered through all pieces; 0 stands for none, so that fresh memory means it. */
struct link {
    int32_t next;     /* the place before this one with the same hash, plus 1 */
    int32_t previous; /* the place after it, plus 1; or -1 - bucket: this is the latest */
};

struct piece { /* of a block; known while serial != 0 */
    uint64_t serial, parent_serial, child_serial;
    int32_t parent, child; /* pieces; where the serials still fit */
    int32_t n;             /* tokens: a block and its tail, if it has one */
    int32_t tokens[PLACES];
    struct link links[PLACES];
    char scope[ENGINE_SCOPE_SIZE];
};

struct recall {
    struct piece *pieces; /* [n_blocks] */
    int32_t *heads;       /* [n_heads]: the latest place, plus 1 */
    int32_t n_blocks, n_heads;
    uint64_t last_serial;
};

_Static_assert(sizeof(struct piece) + BACKEND_BLOCK_TOKENS * sizeof(int32_t) == MEMORY_RECALL_BYTES,
               "what is planned for a block");

struct recall *recall_create(int32_t n_blocks, struct err *e)
{
    struct recall *r = calloc(1, sizeof *r);
    if (!r)
        goto nomem;
    r->n_blocks = n_blocks;
    r->n_heads = n_blocks * BACKEND_BLOCK_TOKENS;
    r->pieces = calloc((size_t)n_blocks, sizeof *r->pieces);
    r->heads = calloc((size_t)r->n_heads, sizeof *r->heads);
    if (r->pieces && r->heads)
        return r;
nomem:
    err_set(e, ERR_NOMEM, "no memory for the words of %d KV blocks", n_blocks);
    recall_destroy(&r);
    return NULL;
}

void recall_destroy(struct recall **r)
{
    if (!*r)
        return;
    free((*r)->pieces);
    free((*r)->heads);
    free(*r);
    *r = NULL;
}

static struct link *link_of(struct recall *r, int32_t place)
{
    return &r->pieces[place / PLACES].links[place % PLACES];
}

/* Of the tokens that end with last[0], in texts of this scope. */
static int32_t bucket_of(const struct recall *r, const char *scope, const int32_t *last)
{
    const uint64_t h =
        hash64(last - (GRAM - 1), GRAM * sizeof *last, hash64(scope, strlen(scope), 0));
    return (int32_t)((h >> 32) * (uint64_t)r->n_heads >> 32);
}

static void put_in(struct recall *r, int32_t place, int32_t bucket)
{
    const int32_t next = r->heads[bucket];
    *link_of(r, place) = (struct link){.next = next, .previous = -1 - bucket};
    if (next)
        link_of(r, next - 1)->previous = place + 1;
    r->heads[bucket] = place + 1;
}

static void take_out(struct recall *r, int32_t place)
{
    const struct link was = *link_of(r, place);
    if (was.previous > 0)
        link_of(r, was.previous - 1)->next = was.next;
    else if (was.previous < 0)
        r->heads[-1 - was.previous] = was.next;
    if (was.next)
        link_of(r, was.next - 1)->previous = was.previous;
    *link_of(r, place) = (struct link){0};
}

/* Takes over `n` tokens of the text from place `at` on, behind those that the piece has. */
static void take_over(struct recall *r, const struct draft_text *text, int32_t at, int32_t block,
                      int32_t n)
{
    struct piece *p = &r->pieces[block];
    for (int32_t i = at; i < at + n; i++, p->n++) {
        p->tokens[p->n] = text->tokens[i];
        if (i >= GRAM - 1)
            put_in(r, block * PLACES + p->n, bucket_of(r, p->scope, &text->tokens[i]));
    }
}

static void cut(struct recall *r, int32_t block, int32_t n)
{
    struct piece *p = &r->pieces[block];
    while (p->n > n)
        take_out(r, block * PLACES + --p->n);
}

void recall_add(struct recall *r, const struct draft_text *text, int32_t at, int32_t block,
                int32_t parent)
{
    struct piece *p = &r->pieces[block];
    if (p->serial || (at && !r->pieces[parent].serial))
        return;
    p->serial = ++r->last_serial;
    strncpy(p->scope, text->scope, sizeof p->scope - 1);
    p->parent_serial = p->child_serial = 0;
    if (at) {
        p->parent = parent;
        p->parent_serial = r->pieces[parent].serial;
        r->pieces[parent].child = block;
        r->pieces[parent].child_serial = p->serial;
    }
    take_over(r, text, at, block, BACKEND_BLOCK_TOKENS);
}

void recall_end(struct recall *r, const struct draft_text *text, int32_t at, int32_t block)
{
    const int32_t n = text->n_tokens - at;
    if (!r->pieces[block].serial || n <= 0)
        return;
    cut(r, block, BACKEND_BLOCK_TOKENS);
    take_over(r, text, at, block, n < RECALL_TAIL ? n : RECALL_TAIL);
}

void recall_forget(struct recall *r, int32_t block)
{
    while (r->pieces[block].serial) {
        const struct piece was = r->pieces[block];
        cut(r, block, 0);
        r->pieces[block] = (struct piece){0};
        if (!was.child_serial || r->pieces[was.child].serial != was.child_serial)
            return;
        block = was.child;
    }
}

/* Moves to the place before in the same text. False: there is none. */
static bool step_back(const struct recall *r, int32_t *place)
{
    const struct piece *p = &r->pieces[*place / PLACES];
    if (*place % PLACES) {
        --*place;
        return true;
    }
    if (!p->parent_serial || r->pieces[p->parent].serial != p->parent_serial)
        return false;
    *place = p->parent * PLACES + BACKEND_BLOCK_TOKENS - 1;
    return true;
}

/* The latest that followed; -1: nothing did. */
static int32_t place_after(const struct recall *r, int32_t place)
{
    const struct piece *p = &r->pieces[place / PLACES];
    const int32_t at = place % PLACES + 1;
    if (at == BACKEND_BLOCK_TOKENS && p->child_serial &&
        r->pieces[p->child].serial == p->child_serial)
        return p->child * PLACES;
    return at < p->n ? place + 1 : -1;
}

static int32_t token_at(const struct recall *r, int32_t place)
{
    return r->pieces[place / PLACES].tokens[place % PLACES];
}

/* How many tokens before and at the place equal the text's last ones. */
static int32_t match_length(const struct recall *r, const struct draft_text *text, int32_t place)
{
    int32_t n = 0;
    if (strcmp(r->pieces[place / PLACES].scope, text->scope) != 0)
        return 0;
    while (n < MOST_MATCH && n < text->n_tokens &&
           token_at(r, place) == text->tokens[text->n_tokens - 1 - n]) {
        n++;
        if (!step_back(r, &place))
            break;
    }
    return n;
}

struct found {
    int32_t places[MOST_WALK]; /* [n] what would be next, the latest first */
    int32_t n, length;
};

static void find(const struct recall *r, const struct draft_text *text, struct found *f)
{
    const int32_t *last = &text->tokens[text->n_tokens - 1];
    int32_t at = r->heads[bucket_of(r, text->scope, last)];
    *f = (struct found){.length = GRAM};
    for (int32_t walked = 0; at && walked < MOST_WALK; walked++) {
        const int32_t length = match_length(r, text, at - 1), next = place_after(r, at - 1);
        if (length > f->length && next >= 0) {
            f->length = length;
            f->n = 0;
        }
        if (length == f->length && next >= 0)
            f->places[f->n++] = next;
        at = r->pieces[(at - 1) / PLACES].links[(at - 1) % PLACES].next;
    }
}

/* The token that most of the places have; the latest of equals. */
static int32_t vote(const struct recall *r, const struct found *f, int32_t *token)
{
    int32_t most = 0;
    for (int32_t i = 0; i < f->n; i++) {
        const int32_t own = token_at(r, f->places[i]);
        int32_t n = 0;
        for (int32_t k = i; k < f->n; k++)
            n += token_at(r, f->places[k]) == own;
        if (n > most) {
            most = n;
            *token = own;
        }
    }
    return most;
}

static enum draft_ground ground_of(int32_t votes, int32_t n, int32_t length)
{
    const int share = 2 * votes < n          ? 0
                      : 100 * votes < 85 * n ? 1
                      : votes < n            ? 2
                      : n == 1               ? 3
                      : n < 4                ? 4
                                             : 5;
    return (enum draft_ground)(DRAFT_RECALL + 3 * share + (length < 4 ? 0 : length < 8 ? 1 : 2));
}

void recall_draft(const struct recall *r, const struct draft_text *text, int32_t most,
                  struct draft *out)
{
    struct found f;
    int32_t token = 0;
    if (text->n_tokens < GRAM)
        return;
    find(r, text, &f);
    while (out->n < most && f.n) {
        const int32_t votes = vote(r, &f, &token);
        out->ground[out->n] = ground_of(votes, f.n, f.length++);
        out->ids[out->n++] = token;
        int32_t kept = 0;
        for (int32_t i = 0; i < f.n; i++) {
            const int32_t next =
                token_at(r, f.places[i]) == token ? place_after(r, f.places[i]) : -1;
            if (next >= 0)
                f.places[kept++] = next;
        }
        f.n = kept;
    }
}

static void recall_ask(struct draft_model *m, struct draft_ask *asks, int32_t n)
{
    for (int32_t i = 0; i < n; i++)
        if (asks[i].text.recall)
            recall_draft(asks[i].text.recall, &asks[i].text, asks[i].most, &asks[i].out);
}

const struct drafter recall_drafter = {
    .name = "ngram",
    .create = drafter_begin,
    .destroy = drafter_leave,
    .draft = recall_ask,
};
