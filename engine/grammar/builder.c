/* Makes the nodes of expressions and simplifies them where that costs nothing; emit.c turns them
 * into a program. */
#include "engine/grammar/builder.h"

#include <stdlib.h>
#include <string.h>

#include "engine/grammar/builder_state.h"

#define MAX_EXPRESSIONS 2000000
#define MAX_DEPTH 1000
#define MAX_SIZE 10000000u

struct builder *builder_create(size_t max_bytes, struct err *e)
{
    struct builder *b = calloc(1, sizeof *b);
    if (b)
        b->arena = arena_create(max_bytes ? max_bytes : (size_t)64 << 20);
    if (!b || !b->arena) {
        free(b);
        err_set(e, ERR_NOMEM, "no memory to compile a grammar");
        return NULL;
    }
    return b;
}

void builder_destroy(struct builder **b)
{
    if (!*b)
        return;
    arena_destroy(&(*b)->arena);
    free((*b)->nodes);
    free(*b);
    *b = NULL;
}

bool builder_failed(const struct builder *b)
{
    return b->failed;
}

/* Depth and size from the children's. */
static void measure(const struct builder *b, struct expr_node *node)
{
    uint64_t size = 1;
    uint16_t depth = 0;
    if (node->kind == EXPR_BYTES || node->kind == EXPR_CLASS)
        size = (uint64_t)node->n + 1;
    for (uint32_t i = 0; (node->kind == EXPR_SEQ || node->kind == EXPR_ALT) && i < node->n; i++) {
        const struct expr_node *child = &b->nodes[((const expr *)node->list)[i]];
        size += child->size;
        depth = child->depth > depth ? child->depth : depth;
    }
    if (node->kind == EXPR_REPEAT) {
        size += b->nodes[node->body].size;
        depth = b->nodes[node->body].depth;
    }
    node->size = size < MAX_SIZE ? (uint32_t)size : MAX_SIZE;
    node->depth = (uint16_t)(depth + 1);
}

static expr add(struct builder *b, struct expr_node node)
{
    if (b->failed)
        return 0;
    measure(b, &node);
    if (node.depth > MAX_DEPTH) {
        b->failed = true;
        return 0;
    }
    if (b->n == b->cap) {
        int32_t cap = b->cap ? b->cap * 2 : 256;
        struct expr_node *grown =
            cap > MAX_EXPRESSIONS ? NULL : realloc(b->nodes, (size_t)cap * sizeof *grown);
        if (!grown) {
            b->failed = true;
            return 0;
        }
        b->nodes = grown;
        b->cap = cap;
    }
    b->nodes[b->n] = node;
    return b->n++;
}

static const void *copy(struct builder *b, const void *list, size_t bytes)
{
    void *mine = arena_alloc(b->arena, bytes ? bytes : 1);
    if (!mine)
        b->failed = true;
    else if (bytes)
        memcpy(mine, list, bytes);
    return mine;
}

static expr add_list(struct builder *b, enum expr_kind kind, const void *list, size_t n,
                     size_t size)
{
    const void *mine = copy(b, list, n * size);
    return add(
        b, (struct expr_node){.kind = (uint8_t)kind, .n = mine ? (uint32_t)n : 0, .list = mine});
}

expr expr_empty(struct builder *b)
{
    return add(b, (struct expr_node){.kind = EXPR_EMPTY});
}

expr expr_never(struct builder *b)
{
    return add(b, (struct expr_node){.kind = EXPR_NEVER});
}

bool expr_is_never(const struct builder *b, expr x)
{
    return !b->failed && b->nodes[x].kind == EXPR_NEVER;
}

expr expr_bytes(struct builder *b, const void *data, size_t len)
{
    return add_list(b, EXPR_BYTES, data, len, 1);
}

expr expr_text(struct builder *b, const char *text)
{
    return expr_bytes(b, text, strlen(text));
}

expr expr_byte_range(struct builder *b, uint8_t lo, uint8_t hi)
{
    return add(b, (struct expr_node){.kind = EXPR_RANGE, .min = lo, .max = hi});
}

expr expr_token(struct builder *b, int32_t id)
{
    return add(b, (struct expr_node){.kind = EXPR_TOKEN, .min = id});
}

static int by_lo(const void *x, const void *y)
{
    const struct cp_range *a = x, *b = y;
    return a->lo < b->lo ? -1 : a->lo > b->lo;
}

/* In order, joined, without surrogates. */
static size_t tidy(struct cp_range *r, size_t n)
{
    size_t out = 0;
    if (n)
        qsort(r, n, sizeof *r, by_lo);
    for (size_t i = 0; i < n; i++) {
        if (r[i].lo > r[i].hi)
            continue;
        if (out && r[i].lo <= r[out - 1].hi + 1) {
            if (r[i].hi > r[out - 1].hi)
                r[out - 1].hi = r[i].hi;
        } else {
            r[out++] = r[i];
        }
    }
    return out;
}

expr expr_class(struct builder *b, const struct cp_range *ranges, size_t n)
{
    struct cp_range *r = arena_alloc(b->arena, (2 * n + 1) * sizeof *r);
    size_t k = 0;
    if (!r) {
        b->failed = true;
        return 0;
    }
    for (size_t i = 0; i < n; i++) { /* surrogates are no characters */
        struct cp_range c = ranges[i];
        if (c.hi > 0x10FFFF)
            c.hi = 0x10FFFF;
        if (c.lo < 0xD800 && c.hi >= 0xD800)
            r[k++] = (struct cp_range){c.lo, 0xD7FF};
        else if (c.hi < 0xD800)
            r[k++] = c;
        if (c.hi > 0xDFFF)
            r[k++] = (struct cp_range){c.lo > 0xE000 ? c.lo : 0xE000, c.hi};
    }
    k = tidy(r, k);
    if (!k)
        return expr_never(b);
    return add(b, (struct expr_node){.kind = EXPR_CLASS, .n = (uint32_t)k, .list = r});
}

expr expr_class_not(struct builder *b, const struct cp_range *ranges, size_t n)
{
    struct cp_range *in = arena_alloc(b->arena, (2 * n + 2) * sizeof *in), *out = in + n;
    uint32_t from = 0;
    size_t k = 0;
    if (!in) {
        b->failed = true;
        return 0;
    }
    if (n)
        memcpy(in, ranges, n * sizeof *in);
    n = tidy(in, n);
    for (size_t i = 0; i < n; i++) {
        if (in[i].lo > from)
            out[k++] = (struct cp_range){from, in[i].lo - 1};
        from = in[i].hi + 1;
    }
    if (from <= 0x10FFFF)
        out[k++] = (struct cp_range){from, 0x10FFFF};
    return expr_class(b, out, k);
}

/* The part of [lo, hi] within the ranges goes to out. */
static size_t cut(const struct cp_range *r, size_t n, uint32_t lo, uint32_t hi,
                  struct cp_range *out)
{
    size_t k = 0;
    for (size_t i = 0; i < n; i++)
        if (r[i].lo <= hi && r[i].hi >= lo)
            out[k++] = (struct cp_range){r[i].lo > lo ? r[i].lo : lo, r[i].hi < hi ? r[i].hi : hi};
    return k;
}

static bool has(const struct cp_range *r, size_t n, uint32_t cp)
{
    for (size_t i = 0; i < n; i++)
        if (r[i].lo <= cp && cp <= r[i].hi)
            return true;
    return false;
}

expr expr_json_class(struct builder *b, const struct cp_range *ranges, size_t n)
{
    static const char shorts[] = "\"\\\b\f\n\r\t", letters[] = "\"\\bfnrt";
    struct cp_range *raw = arena_alloc(b->arena, (3 * n + 1) * sizeof *raw);
    expr list[40];
    size_t k = 0, n_list = 0;
    if (!raw) {
        b->failed = true;
        return 0;
    }
    k += cut(ranges, n, 0x20, '"' - 1, raw + k);
    k += cut(ranges, n, '"' + 1, '\\' - 1, raw + k);
    k += cut(ranges, n, '\\' + 1, 0x10FFFF, raw + k);
    if (k)
        list[n_list++] = expr_class(b, raw, k);
    for (uint32_t cp = 1; cp <= '\\';
         cp = cp == 0x1F  ? '"'
              : cp == '"' ? '\\'
                          : cp + 1) { /* \u0000 is left out: C strings end there */
        if (!has(ranges, n, cp))
            continue;
        const char *at = strchr(shorts, (int)cp);
        char text[8] = {'\\', at ? letters[at - shorts] : 0};
        static const char hex[] = "0123456789abcdef";
        if (!at)
            memcpy(text, (char[]){'\\', 'u', '0', '0', hex[cp >> 4], hex[cp & 15], 0}, 7);
        list[n_list] = expr_text(b, text);
        if (!b->failed)
            b->nodes[list[n_list]].one = true;
        n_list++;
    }
    return expr_alt(b, list, n_list);
}

expr expr_seq(struct builder *b, const expr *list, size_t n)
{
    for (size_t i = 0; i < n && !b->failed; i++)
        if (b->nodes[list[i]].kind == EXPR_NEVER)
            return expr_never(b);
    return n == 1 ? list[0] : add_list(b, EXPR_SEQ, list, n, sizeof *list);
}

expr expr_alt(struct builder *b, const expr *list, size_t n)
{
    size_t k = 0;
    expr *mine = arena_alloc(b->arena, (n + 1) * sizeof *mine);
    if (!mine) {
        b->failed = true;
        return 0;
    }
    for (size_t i = 0; i < n && !b->failed; i++)
        if (b->nodes[list[i]].kind != EXPR_NEVER)
            mine[k++] = list[i];
    if (k == 0)
        return expr_never(b);
    return k == 1 ? mine[0]
                  : add(b, (struct expr_node){.kind = EXPR_ALT, .n = (uint32_t)k, .list = mine});
}

void expr_list_add(struct builder *b, struct expr_list *l, expr x)
{
    if (l->n == l->cap) {
        size_t cap = l->cap ? l->cap * 2 : 8;
        expr *grown = arena_alloc(b->arena, cap * sizeof *grown);
        if (!grown) {
            b->failed = true;
            return;
        }
        if (l->n)
            memcpy(grown, l->at, l->n * sizeof *grown);
        l->at = grown;
        l->cap = cap;
    }
    l->at[l->n++] = x;
}

expr expr_seq_list(struct builder *b, const struct expr_list *l)
{
    return l->n ? expr_seq(b, l->at, l->n) : expr_empty(b);
}

expr expr_alt_list(struct builder *b, const struct expr_list *l)
{
    return expr_alt(b, l->at, l->n);
}

expr expr_repeat(struct builder *b, expr x, int32_t min, int32_t max)
{
    if (b->failed)
        return 0;
    if (max == 0 || b->nodes[x].kind == EXPR_EMPTY)
        return expr_empty(b);
    if (b->nodes[x].kind == EXPR_NEVER)
        return min ? x : expr_empty(b);
    if (min == 1 && max == 1)
        return x;
    return add(
        b, (struct expr_node){
               .kind = EXPR_REPEAT, .body = x, .min = min, .max = max, .plain = b->nodes[x].plain});
}

expr expr_optional(struct builder *b, expr x)
{
    return expr_repeat(b, x, 0, 1);
}

void expr_mark_plain(struct builder *b, expr x)
{
    if (!b->failed)
        b->nodes[x].plain = true;
}

expr expr_seq2(struct builder *b, expr x, expr y)
{
    return expr_seq(b, (expr[]){x, y}, 2);
}

expr expr_seq3(struct builder *b, expr x, expr y, expr z)
{
    return expr_seq(b, (expr[]){x, y, z}, 3);
}

expr expr_alt2(struct builder *b, expr x, expr y)
{
    return expr_alt(b, (expr[]){x, y}, 2);
}

expr expr_rule(struct builder *b, const char *name)
{
    const char *mine = name ? arena_strdup(b->arena, name) : NULL;
    return add(b, (struct expr_node){.kind = EXPR_RULE, .body = -1, .list = mine});
}

void expr_define(struct builder *b, expr rule, expr body)
{
    if (!b->failed)
        b->nodes[rule].body = body;
}

static int64_t utf8_length(const char *s, uint32_t n)
{
    int64_t chars = 0;
    for (uint32_t i = 0; i < n; i++)
        chars += ((unsigned char)s[i] & 0xC0) != 0x80;
    return chars;
}

/* Depth is bounded: readers refuse deep nesting, and rules are not followed. */
void expr_length(const struct builder *b, expr x, int64_t *min, int64_t *max)
{
    const struct expr_node *n = &b->nodes[x];
    *min = *max = 0;
    switch (n->kind) {
    case EXPR_BYTES:
        *min = *max = n->one ? 1 : utf8_length(n->list, n->n);
        break;
    case EXPR_RANGE:
    case EXPR_TOKEN:
    case EXPR_CLASS:
        *min = *max = 1;
        break;
    case EXPR_RULE:
        *max = -1;
        break;
    case EXPR_SEQ:
    case EXPR_ALT:
        for (uint32_t i = 0; i < n->n; i++) {
            int64_t lo, hi;
            bool seq = n->kind == EXPR_SEQ;
            expr_length(b, ((const expr *)n->list)[i], &lo, &hi);
            *min = seq ? *min + lo : i == 0 || lo < *min ? lo : *min;
            *max = hi < 0 || *max < 0 ? -1 : seq ? *max + hi : hi > *max ? hi : *max;
        }
        break;
    case EXPR_REPEAT: {
        int64_t lo, hi;
        expr_length(b, n->body, &lo, &hi);
        *min = lo * n->min;
        *max = n->max == EXPR_NO_MAX ? (hi == 0 ? 0 : -1) : hi < 0 ? -1 : hi * n->max;
        break;
    }
    default:
        break;
    }
}
