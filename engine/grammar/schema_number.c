/* Numbers, and ranges of them as patterns of digits. Digits are bounded: a model must come to an
 * end, a double must hold what is written. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/json/json.h"
#include "engine/grammar/schema_internal.h"

#define MAX_DIGITS 15 /* of a whole part, of a fraction: a double tells 15 digits apart */
#define MAX_BOUND 999999999999999.0

static expr digit_range(struct json_schema *s, char lo, char hi)
{
    return lo > hi ? expr_never(s->b) : expr_byte_range(s->b, (uint8_t)lo, (uint8_t)hi);
}

static expr digits(struct json_schema *s, int min, int max)
{
    return expr_repeat(s->b, digit_range(s, '0', '9'), min, max);
}

/* ---- whole numbers of a fixed length */

/* lo and hi: as many digits; free: that side no longer binds. */
static expr same_length(struct json_schema *s, const char *lo, const char *hi, bool free_lo,
                        bool free_hi)
{
    struct builder *b = s->b;
    struct expr_list all = {0};
    int left = (int)strlen(lo);
    if (!left)
        return expr_empty(b);
    if (free_lo && free_hi)
        return digits(s, left, left);
    char from = free_lo ? '0' : *lo, to = free_hi ? '9' : *hi;
    if (from > to)
        return expr_never(b);
    if (!free_lo && !free_hi && from == to)
        return expr_seq2(b, digit_range(s, from, to), same_length(s, lo + 1, hi + 1, false, false));
    if (!free_lo)
        expr_list_add(
            b, &all,
            expr_seq2(b, digit_range(s, from, from), same_length(s, lo + 1, hi + 1, false, true)));
    expr_list_add(
        b, &all,
        expr_seq2(b,
                  digit_range(s, free_lo ? from : (char)(from + 1), free_hi ? to : (char)(to - 1)),
                  digits(s, left - 1, left - 1)));
    if (!free_hi)
        expr_list_add(
            b, &all,
            expr_seq2(b, digit_range(s, to, to), same_length(s, lo + 1, hi + 1, true, false)));
    return expr_alt_list(b, &all);
}

/* lo .. hi, 0 <= lo; without leading zeros. */
static expr whole_range(struct json_schema *s, int64_t lo, int64_t hi)
{
    struct expr_list all = {0};
    char from[24], to[24];
    if (lo > hi)
        return expr_never(s->b);
    for (int n = snprintf(from, sizeof from, "%lld", (long long)lo);
         n <= snprintf(to, sizeof to, "%lld", (long long)hi); n++) {
        char least[24], most[24];
        memset(least, '0', sizeof least);
        memset(most, '9', sizeof most);
        least[0] = '1';
        least[n] = most[n] = 0;
        bool first = n == (int)strlen(from), last = n == (int)strlen(to);
        expr_list_add(s->b, &all,
                      same_length(s, first ? from : least, last ? to : most, false, false));
    }
    return expr_alt_list(s->b, &all);
}

/* ---- fractions */

struct fraction { /* digits behind the point, without zeros at the end */
    char at[40];
    bool open; /* exclusive */
};

static bool is_end(const char *f)
{
    return !*f;
}

struct fraction_bounds { /* digits behind the point; NULL: no bound */
    const char *lo, *hi;
    bool open_lo, open_hi; /* the bound itself is left out */
};

/* Digit strings d, as fractions, with 0.d over (or at) 0.lo and under (or at) 0.hi. Ends anywhere
 * that this holds; `first`: not before the first digit. */
static expr fraction_range(struct json_schema *s, struct fraction_bounds x, int left, bool first)
{
    struct builder *b = s->b;
    struct expr_list all = {0};
    const char *lo = x.lo, *hi = x.hi;
    bool may_end =
        !first && (!lo || (is_end(lo) && !x.open_lo)) && (!hi || !is_end(hi) || !x.open_hi);
    if (may_end)
        expr_list_add(b, &all, expr_empty(b));
    if (lo && is_end(lo) && !x.open_lo)
        lo = NULL;
    if (!lo && !hi) {
        expr_list_add(b, &all, digits(s, first, left));
        return left >= (first ? 1 : 0) ? expr_alt_list(b, &all) : expr_never(b);
    }
    if (left > 0) {
        char from = lo ? (is_end(lo) ? '0' : *lo) : '0', to = hi ? (is_end(hi) ? '0' : *hi) : '9';
        const struct fraction_bounds next = {.lo = lo && !is_end(lo) ? lo + 1 : lo,
                                             .open_lo = x.open_lo,
                                             .hi = hi && !is_end(hi) ? hi + 1 : hi,
                                             .open_hi = x.open_hi};
        const struct fraction_bounds above = {.lo = next.lo, .open_lo = x.open_lo};
        const struct fraction_bounds below = {.hi = next.hi, .open_hi = x.open_hi};
        if (from == to) {
            expr_list_add(
                b, &all,
                expr_seq2(b, digit_range(s, from, to), fraction_range(s, next, left - 1, false)));
        } else if (from < to) {
            if (lo)
                expr_list_add(b, &all,
                              expr_seq2(b, digit_range(s, from, from),
                                        fraction_range(s, above, left - 1, false)));
            expr_list_add(
                b, &all,
                expr_seq2(b, digit_range(s, lo ? (char)(from + 1) : from, hi ? (char)(to - 1) : to),
                          digits(s, 0, left - 1)));
            if (hi)
                expr_list_add(b, &all,
                              expr_seq2(b, digit_range(s, to, to),
                                        fraction_range(s, below, left - 1, false)));
        }
    }
    return expr_alt_list(b, &all);
}

/* ---- bounds */

struct bound {
    bool set, open;
    double value; /* not negative once split by sign */
    int64_t whole;
    struct fraction fraction;
};

static bool split_bound(struct json_schema *s, struct bound *x)
{
    char text[64];
    x->whole = (int64_t)x->value;
    snprintf(text, sizeof text, "%.*f", MAX_DIGITS, x->value);
    for (int n = 0; n <= MAX_DIGITS; n++) { /* the shortest that reads back the same */
        char shorter[64];
        double back = 0;
        snprintf(shorter, sizeof shorter, "%.*f", n, x->value);
        sscanf(shorter, "%lf", &back);
        if (!(back < x->value) && !(back > x->value)) {
            const char *point = strchr(shorter, '.');
            snprintf(x->fraction.at, sizeof x->fraction.at, "%s", point ? point + 1 : "");
            return true;
        }
    }
    return schema_fail(s, ERR_UNSUPPORTED, "a bound with more than %d digits behind the point",
                       MAX_DIGITS) >= 0;
}

struct bound_keywords {
    const char *closed, *open;
    double sign; /* 1: the larger of two bounds counts; -1: the smaller */
};

static bool read_bound(struct json_schema *s, const cJSON *schema, const struct bound_keywords *k,
                       struct bound *x)
{
    const cJSON *shut = cJSON_GetObjectItemCaseSensitive(schema, k->closed);
    const cJSON *open = cJSON_GetObjectItemCaseSensitive(schema, k->open);
    if ((shut && !cJSON_IsNumber(shut)) || (open && !cJSON_IsNumber(open)))
        return schema_fail(s, ERR_INPUT, "'%s' and '%s' must be numbers", k->closed, k->open) >= 0;
    *x = (struct bound){0};
    if (shut)
        *x = (struct bound){.set = true, .value = shut->valuedouble};
    if (open && (!shut || open->valuedouble * k->sign >= shut->valuedouble * k->sign))
        *x = (struct bound){.set = true, .open = true, .value = open->valuedouble};
    if (x->set && fabs(x->value) > MAX_BOUND)
        return schema_fail(s, ERR_UNSUPPORTED, "a bound over %.0f", MAX_BOUND) >= 0;
    return true;
}

/* Numbers without a sign from lo to hi (not set: no bound). */
static expr real_range(struct json_schema *s, const struct bound *lo, const struct bound *hi,
                       int places)
{
    struct builder *b = s->b;
    struct expr_list all = {0};
    const char *low = lo->set ? lo->fraction.at : "", *high = hi->set ? hi->fraction.at : NULL;
    int64_t from = lo->set ? lo->whole : 0, to = hi->set ? hi->whole : (int64_t)MAX_BOUND;
    expr point = expr_text(b, ".");
    bool one = hi->set && from == to;
    bool whole_lo = is_end(low) && !lo->open; /* the bound's whole part alone may be written */
    bool whole_hi = high && (!is_end(high) || !hi->open);
    if (hi->set && (from > to))
        return expr_never(b);
    /* at the lower bound's whole part */
    const struct fraction_bounds low_edge = {
        .lo = low, .open_lo = lo->open, .hi = one ? high : NULL, .open_hi = one && hi->open};
    const struct fraction_bounds high_edge = {.hi = high, .open_hi = hi->open};
    expr edge = expr_seq2(b, point, fraction_range(s, low_edge, places, true));
    bool alone = whole_lo && (!one || whole_hi);
    expr_list_add(b, &all,
                  expr_seq2(b, whole_range(s, from, from), alone ? expr_optional(b, edge) : edge));
    if (one)
        return expr_alt_list(b, &all);
    expr any = expr_optional(b, expr_seq2(b, point, digits(s, 1, places)));
    expr_list_add(b, &all, expr_seq2(b, whole_range(s, from + 1, hi->set ? to - 1 : to), any));
    if (hi->set) {
        edge = expr_seq2(b, point, fraction_range(s, high_edge, places, true));
        expr_list_add(
            b, &all,
            expr_seq2(b, whole_range(s, to, to), whole_hi ? expr_optional(b, edge) : edge));
    }
    return expr_alt_list(b, &all);
}

static int whole_digits(const struct bound *x)
{
    char text[40];
    return x->set ? snprintf(text, sizeof text, "%.0f", floor(fabs(x->value))) : 1;
}

/* -0, which is in no schema's mind, is left out of ranges. */
static expr number_range(struct json_schema *s, struct bound lo, struct bound hi)
{
    struct builder *b = s->b;
    struct expr_list all = {0};
    int n = whole_digits(&lo) > whole_digits(&hi) ? whole_digits(&lo) : whole_digits(&hi);
    int places = MAX_DIGITS - n < 1 ? 1 : MAX_DIGITS - n > 9 ? 9 : MAX_DIGITS - n;
    const struct bound zero = {.set = true};
    if (!hi.set || hi.value > 0 || (!(hi.value < 0) && !hi.open)) { /* from 0 up */
        struct bound low = lo.set && (lo.value > 0 || (!(lo.value < 0) && lo.open)) ? lo : zero,
                     high = hi;
        if (!split_bound(s, &low) || (high.set && !split_bound(s, &high)))
            return -1;
        places = (int)strlen(low.fraction.at) > places ? (int)strlen(low.fraction.at) : places;
        places = (int)strlen(high.fraction.at) > places ? (int)strlen(high.fraction.at) : places;
        expr_list_add(b, &all, real_range(s, &low, &high, places));
    }
    if (!lo.set || lo.value < 0) { /* below 0 */
        struct bound low = hi.set && hi.value < 0 ? hi : (struct bound){.set = true, .open = true},
                     high = lo;
        low.value = fabs(low.value);
        high.value = fabs(high.value);
        if (!split_bound(s, &low) || (high.set && !split_bound(s, &high)))
            return -1;
        places = (int)strlen(low.fraction.at) > places ? (int)strlen(low.fraction.at) : places;
        places = (int)strlen(high.fraction.at) > places ? (int)strlen(high.fraction.at) : places;
        expr_list_add(b, &all, expr_seq2(b, expr_text(b, "-"), real_range(s, &low, &high, places)));
    }
    return expr_alt_list(b, &all);
}

static expr integer_range(struct json_schema *s, const struct bound *lo, const struct bound *hi)
{
    struct builder *b = s->b;
    int64_t from = lo->set ? (int64_t)ceil(lo->value) : -(int64_t)MAX_BOUND;
    int64_t to = hi->set ? (int64_t)floor(hi->value) : (int64_t)MAX_BOUND;
    struct expr_list all = {0};
    if (lo->open && !((double)from > lo->value))
        from++;
    if (hi->open && !((double)to < hi->value))
        to--;
    if (from > to)
        return schema_fail(s, ERR_INPUT, "no integer lies between the bounds");
    if (to >= 0)
        expr_list_add(b, &all, whole_range(s, from > 0 ? from : 0, to));
    if (from < 0)
        expr_list_add(b, &all,
                      expr_seq2(b, expr_text(b, "-"), whole_range(s, to < 0 ? -to : 1, -from)));
    return expr_alt_list(b, &all);
}

static expr free_number(struct json_schema *s, bool integer)
{
    struct builder *b = s->b;
    expr *kept = integer ? &s->integer : &s->number;
    if (*kept >= 0)
        return *kept;
    expr whole = expr_alt2(b, expr_text(b, "0"),
                           expr_seq2(b, digit_range(s, '1', '9'), digits(s, 0, MAX_DIGITS - 1)));
    expr x = expr_seq2(b, expr_optional(b, expr_text(b, "-")), whole);
    if (!integer) {
        expr fraction = expr_optional(b, expr_seq2(b, expr_text(b, "."), digits(s, 1, MAX_DIGITS)));
        expr e = expr_class(b, (struct cp_range[]){{'e', 'e'}, {'E', 'E'}}, 2);
        expr sign = expr_optional(b, expr_class(b, (struct cp_range[]){{'+', '+'}, {'-', '-'}}, 2));
        x = expr_seq3(b, x, fraction, expr_optional(b, expr_seq3(b, e, sign, digits(s, 1, 2))));
    }
    *kept = expr_rule(b, integer ? "integer" : "number");
    expr_define(b, *kept, x);
    return *kept;
}

expr schema_number(struct json_schema *s, const cJSON *schema, bool integer)
{
    struct bound lo, hi;
    static const struct bound_keywords lower = {"minimum", "exclusiveMinimum", 1};
    static const struct bound_keywords upper = {"maximum", "exclusiveMaximum", -1};
    if (!read_bound(s, schema, &lower, &lo) || !read_bound(s, schema, &upper, &hi))
        return -1;
    const cJSON *multiple = cJSON_GetObjectItemCaseSensitive(schema, "multipleOf"); /* 1, if any */
    integer = integer || multiple;
    if (!lo.set && !hi.set)
        return free_number(s, integer);
    if (integer)
        return integer_range(s, &lo, &hi);
    if (lo.set && hi.set &&
        (lo.value > hi.value || (!(lo.value < hi.value) && (lo.open || hi.open))))
        return schema_fail(s, ERR_INPUT, "no number lies between the bounds");
    return number_range(s, lo, hi);
}
