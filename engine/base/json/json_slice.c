/* Finds members and elements in a JSON text that json_parse has accepted, without a tree. */
#include "engine/base/json/json_slice.h"

#include <string.h>

static const struct json_slice none;

static const char *past_space(const char *p, const char *end)
{
    while (p < end && (*p == ' ' || *p == '\t' || *p == '\n' || *p == '\r'))
        p++;
    return p;
}

static const char *past_string(const char *p, const char *end)
{
    for (p++; p < end && *p != '"'; p++)
        if (*p == '\\')
            p++;
    return p < end ? p + 1 : end;
}

static const char *past_value(const char *p, const char *end)
{
    if (p < end && *p == '"')
        return past_string(p, end);
    if (p == end || (*p != '{' && *p != '[')) {
        while (p < end && !strchr(",]} \t\r\n", *p))
            p++;
        return p;
    }
    for (int depth = 0; p < end;) {
        if (*p == '"') {
            p = past_string(p, end);
            continue;
        }
        depth += (*p == '{' || *p == '[') - (*p == '}' || *p == ']');
        p++;
        if (!depth)
            break;
    }
    return p;
}

struct json_slice json_slice_of(const char *text, size_t len)
{
    const char *end = text + len, *p = past_space(text, end);
    return (struct json_slice){p, (size_t)(past_value(p, end) - p)};
}

struct json_slice json_slice_member(struct json_slice o, const char *name)
{
    if (!o.text || o.len < 2 || *o.text != '{')
        return none;
    const char *end = o.text + o.len - 1, *p = past_space(o.text + 1, end);
    const size_t want = strlen(name);
    while (p < end && *p == '"') {
        const char *key = p + 1;
        p = past_string(p, end);
        const bool found = (size_t)(p - key) == want + 1 && !memcmp(key, name, want);
        p = past_space(p, end);
        p = past_space(p < end ? p + 1 : p, end); /* ':' */
        if (found)
            return (struct json_slice){p, (size_t)(past_value(p, end) - p)};
        p = past_space(past_value(p, end), end);
        p = past_space(p < end ? p + 1 : p, end); /* ',' */
    }
    return none;
}

struct json_slice json_slice_next(struct json_slice a, struct json_slice before)
{
    if (!a.text || a.len < 2 || *a.text != '[')
        return none;
    const char *end = a.text + a.len - 1,
               *p = past_space(before.text ? before.text + before.len : a.text + 1, end);
    if (before.text)
        p = past_space(p < end ? p + 1 : p, end); /* ',' */
    return p < end ? (struct json_slice){p, (size_t)(past_value(p, end) - p)} : none;
}
