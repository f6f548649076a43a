/* A state machine that follows JSON byte by byte and tells whether it is incomplete, whole or
 * malformed. */
#include "engine/chat/parse_json.h"

#include <string.h>

enum {
    EXPECT_TOP,
    EXPECT_VALUE,
    EXPECT_FIRST_VALUE,
    EXPECT_FIRST_KEY,
    EXPECT_KEY,
    EXPECT_COLON,
    EXPECT_NEXT
};
enum { IN_NOTHING, IN_STRING, IN_WORD, IN_NUMBER };
enum {
    NUMBER_SIGN,
    NUMBER_ZERO,
    NUMBER_INTEGER,
    NUMBER_POINT,
    NUMBER_FRACTION,
    NUMBER_E,
    NUMBER_E_SIGN,
    NUMBER_EXPONENT
};

void json_machine_begin(struct json_machine *m)
{
    *m = (struct json_machine){.expect = EXPECT_TOP};
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static struct json_member_place *current(struct json_machine *m)
{
    return m->depth == 1 && m->stack[0] == '{' && m->n_members &&
                   m->n_members <= JSON_MACHINE_MEMBERS
               ? &m->member[m->n_members - 1]
               : NULL;
}

/* A value has ended before byte `end`. */
static enum json_status value_ended(struct json_machine *m, uint32_t end)
{
    struct json_member_place *place = current(m);
    if (place)
        place->value_end = end;
    m->in = IN_NOTHING;
    m->expect = EXPECT_NEXT;
    return m->depth == 0 ? JSON_WHOLE : JSON_MORE;
}

static enum json_status begin_value(struct json_machine *m, char c)
{
    struct json_member_place *place = current(m);
    if (place)
        place->value = m->n - 1;
    if (c == '{' || c == '[') {
        if (m->depth == JSON_MACHINE_DEPTH)
            return JSON_WRONG;
        m->stack[m->depth++] = (uint8_t)c;
        m->expect = c == '{' ? EXPECT_FIRST_KEY : EXPECT_FIRST_VALUE;
        return JSON_MORE;
    }
    if (m->depth == 0)
        return JSON_WRONG;
    if (c == '"') {
        m->in = IN_STRING;
        m->is_key = false;
    } else if (c == 't' || c == 'f' || c == 'n') {
        m->in = IN_WORD;
        m->word = c == 't' ? "rue" : c == 'f' ? "alse" : "ull";
    } else if (c == '-' || (c >= '0' && c <= '9')) {
        m->in = IN_NUMBER;
        m->number = c == '-' ? NUMBER_SIGN : c == '0' ? NUMBER_ZERO : NUMBER_INTEGER;
    } else {
        return JSON_WRONG;
    }
    return JSON_MORE;
}

static enum json_status begin_key(struct json_machine *m)
{
    if (m->depth == 1) {
        if (m->n_members < JSON_MACHINE_MEMBERS)
            m->member[m->n_members].key = m->n - 1;
        m->n_members++;
    }
    m->in = IN_STRING;
    m->is_key = true;
    return JSON_MORE;
}

static enum json_status close(struct json_machine *m, char c)
{
    if (m->stack[m->depth - 1] != (c == '}' ? '{' : '['))
        return JSON_WRONG;
    m->depth--;
    return value_ended(m, m->n);
}

static enum json_status string_byte(struct json_machine *m, char c)
{
    if (m->hex) {
        if (!((c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'f')))
            return JSON_WRONG;
        m->hex--;
    } else if (m->escape) {
        m->escape = false;
        if (c == 'u')
            m->hex = 4;
        else if (!c || !strchr("\"\\/bfnrt", c))
            return JSON_WRONG;
    } else if (c == '\\') {
        m->escape = true;
    } else if (c == '"') {
        if (!m->is_key)
            return value_ended(m, m->n);
        struct json_member_place *place = current(m);
        if (place)
            place->key_end = m->n;
        m->in = IN_NOTHING;
        m->expect = EXPECT_COLON;
    }
    return JSON_MORE;
}

/* Takes the byte into the number; false when the number is over before it. */
static bool number_byte(struct json_machine *m, char c)
{
    bool digit = c >= '0' && c <= '9', e = (c | 32) == 'e';
    switch (m->number) {
    case NUMBER_SIGN:
        if (digit)
            m->number = c == '0' ? NUMBER_ZERO : NUMBER_INTEGER;
        return digit;
    case NUMBER_ZERO:
    case NUMBER_INTEGER:
        if (digit)
            return m->number == NUMBER_INTEGER;
        m->number = c == '.' ? NUMBER_POINT : e ? NUMBER_E : m->number;
        return c == '.' || e;
    case NUMBER_POINT:
    case NUMBER_FRACTION:
        if (digit)
            m->number = NUMBER_FRACTION;
        else if (e && m->number == NUMBER_FRACTION)
            m->number = NUMBER_E;
        else
            return false;
        return true;
    case NUMBER_E:
        if (c != '+' && c != '-' && !digit)
            return false;
        m->number = digit ? NUMBER_EXPONENT : NUMBER_E_SIGN;
        return true;
    default:
        if (digit)
            m->number = NUMBER_EXPONENT;
        return digit;
    }
}

static bool number_is_whole(const struct json_machine *m)
{
    return m->number == NUMBER_ZERO || m->number == NUMBER_INTEGER ||
           m->number == NUMBER_FRACTION || m->number == NUMBER_EXPONENT;
}

static enum json_status between(struct json_machine *m, char c)
{
    if (is_space(c))
        return m->expect == EXPECT_TOP ? JSON_WRONG : JSON_MORE;
    switch (m->expect) {
    case EXPECT_FIRST_VALUE:
        if (c == ']')
            return close(m, c);
        return begin_value(m, c);
    case EXPECT_TOP:
    case EXPECT_VALUE:
        return begin_value(m, c);
    case EXPECT_FIRST_KEY:
        if (c == '}')
            return close(m, c);
        return c == '"' ? begin_key(m) : JSON_WRONG;
    case EXPECT_KEY:
        return c == '"' ? begin_key(m) : JSON_WRONG;
    case EXPECT_COLON:
        m->expect = EXPECT_VALUE;
        return c == ':' ? JSON_MORE : JSON_WRONG;
    default:
        if (c == ',') {
            m->expect = m->stack[m->depth - 1] == '{' ? EXPECT_KEY : EXPECT_VALUE;
            return JSON_MORE;
        }
        return c == '}' || c == ']' ? close(m, c) : JSON_WRONG;
    }
}

enum json_status json_machine_byte(struct json_machine *m, char c)
{
    if (m->n == UINT32_MAX)
        return JSON_WRONG;
    m->n++;
    switch (m->in) {
    case IN_STRING:
        return string_byte(m, c);
    case IN_WORD:
        if (*m->word != c)
            return JSON_WRONG;
        return *++m->word ? JSON_MORE : value_ended(m, m->n);
    case IN_NUMBER:
        if (number_byte(m, c))
            return JSON_MORE;
        if (!number_is_whole(m))
            return JSON_WRONG;
        value_ended(m, m->n - 1);
        return between(m, c);
    default:
        return between(m, c);
    }
}

const struct json_member_place *json_machine_member(const struct json_machine *m, const char *text,
                                                    const char *name)
{
    size_t n = strlen(name);
    for (uint32_t i = 0; i < m->n_members && i < JSON_MACHINE_MEMBERS; i++) {
        const struct json_member_place *p = &m->member[i];
        if (p->key_end - p->key == n + 2 && !memcmp(text + p->key + 1, name, n))
            return p;
    }
    return NULL;
}
