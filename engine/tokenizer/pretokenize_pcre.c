/* Compiles and runs one split pattern by PCRE2, over text whose newer code points are replaced by
 * older ones of the same class. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "engine/tokenizer/pretokenize_pcre.h"

#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/buf.h"
#include "engine/base/utf8.h"
#include "engine/tokenizer/pretokenize_pattern.h"

enum {
    PATTERN_MAX = 64 << 10,
    MATCH_LIMIT = 10 * 1000 * 1000,
    JIT_STACK_START = 32 << 10,
    JIT_STACK_MAX = 16 << 20
};

struct pcre_pattern {
    pcre2_code *code;
};

struct pcre_scratch {
    pcre2_match_data *match;
    pcre2_match_context *context;
    pcre2_jit_stack *stack;
    struct buf shadow;
};

/* ^ and $ stand at every line's ends, and a line ends with a line feed only, as in Ruby. */
static pcre2_code *compile(const char *pattern, size_t len, struct err *e)
{
    int code;
    PCRE2_SIZE at;
    pcre2_compile_context *context = pcre2_compile_context_create(NULL);
    if (!context) {
        err_set(e, ERR_NOMEM, "out of memory");
        return NULL;
    }
    pcre2_set_newline(context, PCRE2_NEWLINE_LF);
    pcre2_code *compiled = pcre2_compile(
        (PCRE2_SPTR)pattern, len, PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C,
        &code, &at, context);
    if (!compiled) {
        char text[128];
        pcre2_get_error_message(code, (PCRE2_UCHAR *)text, sizeof text);
        err_set(e, ERR_UNSUPPORTED, "split pattern: %s at character %zu", text, (size_t)at);
    }
    pcre2_compile_context_free(context);
    return compiled;
}

struct pcre_pattern *pcre_pattern_create(const char *pattern, size_t len, struct err *e)
{
    struct pcre_pattern *p = calloc(1, sizeof *p);
    struct buf b = {.limit = PATTERN_MAX};
    if (!p)
        err_set(e, ERR_NOMEM, "out of memory");
    else if (pretokenize_pattern_rewrite(pattern, len, &b, e))
        p->code = compile(b.data ? b.data : "", b.len, e);
    buf_fini(&b);
    if (p && !p->code)
        pcre_pattern_destroy(&p);
    if (p) /* without a JIT, as under MemoryDenyWriteExecute, it interprets to the same result */
        pcre2_jit_compile(p->code, PCRE2_JIT_COMPLETE);
    return p;
}

void pcre_pattern_destroy(struct pcre_pattern **p)
{
    if (!*p)
        return;
    pcre2_code_free((*p)->code);
    free(*p);
    *p = NULL;
}

struct pcre_scratch *pcre_scratch_create(void)
{
    struct pcre_scratch *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->match = pcre2_match_data_create(1, NULL);
    s->context = pcre2_match_context_create(NULL);
    s->stack = pcre2_jit_stack_create(JIT_STACK_START, JIT_STACK_MAX, NULL);
    if (!s->match || !s->context) {
        pcre_scratch_destroy(&s);
        return NULL;
    }
    pcre2_set_match_limit(s->context, MATCH_LIMIT);
    if (s->stack)
        pcre2_jit_stack_assign(s->context, NULL, s->stack);
    return s;
}

void pcre_scratch_destroy(struct pcre_scratch **s)
{
    if (!*s)
        return;
    pcre2_match_data_free((*s)->match);
    pcre2_match_context_free((*s)->context);
    pcre2_jit_stack_free((*s)->stack);
    buf_fini(&(*s)->shadow);
    free(*s);
    *s = NULL;
}

/* One old code point of three bytes and one of four for each class, as substitutes for newer ones.
 */
static uint32_t stand_in(uint32_t cp)
{
    static const uint32_t three[UNICODE__N] = {0x200B, 0x1E00, 0x1E01, 0x1F88, 0x1D2C, 0x1200,
                                               0x1DC0, 0x2150, 0x2010, 0x2190, 0x2000};
    static const uint32_t four[UNICODE__N] = {0xE0001, 0x10400, 0x10428, 0,       0x16B40, 0x10000,
                                              0x10A01, 0x10107, 0x10100, 0x1F300, 0};
    uint32_t other = (cp < 0x10000 ? three : four)[unicode_class(cp)];
    return cp < 0x800 || !other ? cp : other;
}

const char *pcre_scratch_subject(struct pcre_scratch *s, const char *text, size_t len)
{
    const unsigned char *p = (const unsigned char *)text, *end = p + len;
    bool copied = false;
    while (p < end) {
        uint32_t cp;
        size_t n = *p < 0x80 ? 1 : utf8_next(p, &cp);
        if (n > 2 && unicode_bits(cp) & UNICODE_PCRE_WRONG) {
            if (!copied) {
                buf_clear(&s->shadow);
                if (!buf_append(&s->shadow, text, len))
                    return NULL;
                copied = true;
            }
            utf8_encode(stand_in(cp),
                        (unsigned char *)s->shadow.data + (p - (const unsigned char *)text));
        }
        p += n;
    }
    return copied ? s->shadow.data : text;
}

int pcre_pattern_find(const struct pcre_pattern *p, struct pcre_scratch *s,
                      const struct pcre_search *search, size_t match[2], struct err *e)
{
    int rc = pcre2_match(p->code, (PCRE2_SPTR)search->subject, search->len, search->from,
                         PCRE2_NO_UTF_CHECK, s->match, s->context);
    if (rc == PCRE2_ERROR_NOMATCH)
        return 0;
    if (rc < 0) {
        bool limit = rc == PCRE2_ERROR_MATCHLIMIT || rc == PCRE2_ERROR_JIT_STACKLIMIT ||
                     rc == PCRE2_ERROR_HEAPLIMIT || rc == PCRE2_ERROR_DEPTHLIMIT;
        err_set(e, limit ? ERR_LIMIT : ERR_INTERNAL,
                limit ? "the text needs too many steps of the tokenizer's split pattern"
                      : "the tokenizer's split pattern failed (PCRE2 %d)",
                rc);
        return -1;
    }
    const PCRE2_SIZE *range = pcre2_get_ovector_pointer(s->match);
    match[0] = range[0];
    match[1] = range[1];
    return 1;
}
