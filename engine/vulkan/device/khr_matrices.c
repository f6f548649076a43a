/* khr_matrices.h: one pass over a module's instructions, each a word of length and opcode and then
 * its operands. */
#include "engine/vulkan/device/khr_matrices.h"

#include <stdlib.h>
#include <string.h>

enum {
    HEAD_WORDS = 5,
    BOUND_AT = 3, /* of the head: one more than the greatest id */
    OP_EXTENSION = 10,
    OP_CAPABILITY = 17,
    OP_TYPE_INT = 21,
    OP_CONSTANT_TRUE = 41,
    OP_CONSTANT_FALSE = 42,
    OP_CONSTANT = 43,
    OP_SPEC_CONSTANT_OP = 52,
    OP_DECORATE = 71,
    DECORATION_SPEC_ID = 1,
    NV_CAPABILITY = 5357,
    NV_TYPE = 5358,
    NV_LOAD = 5359,
    NV_STORE = 5360,
    NV_MUL_ADD = 5361,
    NV_LENGTH = 5362,
    KHR_CAPABILITY = 6022,
    KHR_TYPE = 4456,
    KHR_LOAD = 4457,
    KHR_STORE = 4458,
    KHR_MUL_ADD = 4459,
    USE_LEFT = 0,
    USE_RIGHT = 1,
    USE_SUM = 2,
    N_NUMBERS = 3, /* constants 0, 1, 2 that are added */
};

enum meaning { PLAIN, DIMENSION_M, DIMENSION_N, DIMENSION_K, COLUMNS_FOLLOW, ROWS_FOLLOW };

struct rewriting {
    const uint32_t *at; /* this instruction */
    uint32_t length, opcode;
    uint8_t *meanings; /* [bound], enum meaning of an id */
    uint32_t bound;    /* of the module as it was: the first number's id */
    uint32_t word;     /* the type of 32-bit words without a sign; 0: none yet */
    bool has_numbers;
    struct buf *out;
    struct err *e;
};

static bool put(struct rewriting *r, const uint32_t *words, uint32_t n)
{
    return buf_append(r->out, words, n * sizeof *words) ||
           err_set(r->e, ERR_NOMEM, "no memory for a shader");
}

static bool put_op(struct rewriting *r, uint32_t opcode, const uint32_t *operands, uint32_t n)
{
    const uint32_t head = (n + 1) << 16 | opcode;
    return put(r, &head, 1) && put(r, operands, n);
}

static enum meaning meaning_of(const struct rewriting *r, uint32_t id)
{
    return id < r->bound ? (enum meaning)r->meanings[id] : PLAIN;
}

static bool refuse(struct rewriting *r, const char *what)
{
    return err_set(r->e, ERR_INTERNAL, "a shader for matrix units has %s", what);
}

/* The constants 0, 1, 2, by id `bound` and the two after it, before the first type that needs them.
 */
static bool put_numbers(struct rewriting *r)
{
    if (r->has_numbers)
        return true;
    if (!r->word)
        return refuse(r, "a matrix before its words");
    r->has_numbers = true;
    bool ok = true;
    for (uint32_t i = 0; ok && i < N_NUMBERS; i++)
        ok = put_op(r, OP_CONSTANT, (const uint32_t[]){r->word, r->bound + i, i}, 3);
    return ok;
}

static bool put_type(struct rewriting *r) /* result, component, scope, rows, columns */
{
    const enum meaning rows = meaning_of(r, r->at[4]), columns = meaning_of(r, r->at[5]);
    uint32_t use;
    if (rows == DIMENSION_M && columns == DIMENSION_K)
        use = USE_LEFT;
    else if (rows == DIMENSION_K && columns == DIMENSION_N)
        use = USE_RIGHT;
    else if (rows == DIMENSION_M && columns == DIMENSION_N)
        use = USE_SUM;
    else
        return refuse(r, "a matrix of unknown use");
    const uint32_t operands[] = {r->at[1], r->at[2], r->at[3], r->at[4], r->at[5], r->bound + use};
    return put_numbers(r) && put_op(r, KHR_TYPE, operands, 6);
}

/* NV: pointer, [object,] stride, whether columns follow each other; KHR: layout, then stride. `at`:
 * where the stride stands. */
static bool put_access(struct rewriting *r, uint32_t opcode, uint32_t at)
{
    uint32_t operands[16];
    const enum meaning follows = at + 1 < r->length ? meaning_of(r, r->at[at + 1]) : PLAIN;
    if (r->length > 16 || (follows != COLUMNS_FOLLOW && follows != ROWS_FOLLOW))
        return refuse(r, "a layout that is not known");
    memcpy(operands, r->at + 1, (r->length - 1) * sizeof *operands);
    operands[at - 1] = r->bound + (follows == COLUMNS_FOLLOW);
    operands[at] = r->at[at];
    return put_op(r, opcode, operands, r->length - 1);
}

/* Notes what later instructions refer to. */
static void learn(struct rewriting *r)
{
    static const struct {
        uint32_t spec;
        enum meaning meaning;
    } dimensions[] = {
        {KHR_MATRIX_M, DIMENSION_M}, {KHR_MATRIX_N, DIMENSION_N}, {KHR_MATRIX_K, DIMENSION_K}};
    const uint32_t *at = r->at;
    if (r->opcode == OP_TYPE_INT && at[2] == 32 && at[3] == 0)
        r->word = at[1];
    if ((r->opcode == OP_CONSTANT_TRUE || r->opcode == OP_CONSTANT_FALSE) && at[2] < r->bound)
        r->meanings[at[2]] = r->opcode == OP_CONSTANT_TRUE ? COLUMNS_FOLLOW : ROWS_FOLLOW;
    if (r->opcode != OP_DECORATE || r->length != 4 || at[2] != DECORATION_SPEC_ID ||
        at[1] >= r->bound)
        return;
    for (size_t i = 0; i < sizeof dimensions / sizeof dimensions[0]; i++)
        if (at[3] == dimensions[i].spec)
            r->meanings[at[1]] = dimensions[i].meaning;
}

static bool put_extension(struct rewriting *r)
{
    static const char nv[] = "SPV_NV_cooperative_matrix";
    static const union {
        char text[28]; /* zeros to the end of the last word */
        uint32_t words[7];
    } khr = {"SPV_KHR_cooperative_matrix"};
    if (strncmp((const char *)(r->at + 1), nv, (r->length - 1) * sizeof *r->at) != 0)
        return put(r, r->at, r->length);
    return put_op(r, OP_EXTENSION, khr.words, 7);
}

static bool rewrite_one(struct rewriting *r)
{
    learn(r);
    switch (r->opcode) {
    case OP_EXTENSION:
        return put_extension(r);
    case OP_CAPABILITY:
        return put_op(
            r, OP_CAPABILITY,
            (const uint32_t[]){r->at[1] == NV_CAPABILITY ? (uint32_t)KHR_CAPABILITY : r->at[1]}, 1);
    case NV_TYPE:
        return put_type(r);
    case NV_LOAD: /* result's type, result, pointer, stride ... */
        return put_access(r, KHR_LOAD, 4);
    case NV_STORE: /* pointer, object, stride ... */
        return put_access(r, KHR_STORE, 3);
    case NV_MUL_ADD:
        return put_op(r, KHR_MUL_ADD, r->at + 1, r->length - 1);
    case NV_LENGTH:
        return refuse(r, "the length of a matrix");
    case OP_SPEC_CONSTANT_OP:
        return r->at[3] == NV_LENGTH ? refuse(r, "the length of a matrix")
                                     : put(r, r->at, r->length);
    default:
        return put(r, r->at, r->length);
    }
}

bool khr_matrices_used(const struct shader *s)
{
    const uint32_t *at = s->code + HEAD_WORDS, *end = s->code + s->bytes / sizeof *s->code;
    for (; at < end && (*at & 0xffff) == OP_CAPABILITY; at += *at >> 16)
        if (at[1] == NV_CAPABILITY)
            return true;
    return false;
}

bool khr_matrices_of(const struct shader *s, struct buf *out, struct err *e)
{
    const uint32_t *end = s->code + s->bytes / sizeof *s->code;
    uint32_t head[HEAD_WORDS];
    struct rewriting r = {.bound = s->code[BOUND_AT], .out = out, .e = e};
    memcpy(head, s->code, sizeof head);
    head[BOUND_AT] += N_NUMBERS;
    r.meanings = calloc(r.bound, 1);
    bool ok = (r.meanings != NULL || err_set(e, ERR_NOMEM, "no memory for a shader")) &&
              put(&r, head, HEAD_WORDS);
    for (r.at = s->code + HEAD_WORDS; ok && r.at < end; r.at += r.length) {
        r.length = *r.at >> 16;
        r.opcode = *r.at & 0xffff;
        ok = r.length > 0 && r.length <= (uint32_t)(end - r.at) ? rewrite_one(&r)
                                                                : refuse(&r, "a broken end");
    }
    free(r.meanings);
    return ok;
}
