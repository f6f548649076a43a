/* tool_result.h: the kinds of content that the protocol has. */
#include "fcgi/tools/tool_result.h"

#include <string.h>

#include "engine/base/json/json.h"
#include "engine/base/utf8.h"

#define MAX_TYPE 40 /* bytes of a kind that is not known */

static const char *or_empty(const char *text)
{
    return text ? text : "";
}

/* Bytes that so many letters of base64 hold. */
static size_t bytes_of(const char *data)
{
    return data ? strlen(data) / 4 * 3 : 0;
}

/* Not cut within a character. */
static void put_unknown(struct buf *out, const char *type)
{
    size_t n = strlen(type);
    if (n > MAX_TYPE)
        n = utf8_valid((const unsigned char *)type, MAX_TYPE);
    buf_printf(out, "[%.*s: not known here]", (int)n, type);
}

static void put_part(struct buf *out, const cJSON *part)
{
    const char *type = or_empty(json_text(part, "type")), *text = json_text(part, "text");
    const cJSON *resource = json_member(part, "resource");
    if (!strcmp(type, "text") && text)
        buf_puts(out, text);
    else if (!strcmp(type, "image") || !strcmp(type, "audio"))
        buf_printf(out, "[%s, %s, %zu bytes: not shown to the model]", type,
                   or_empty(json_text(part, "mimeType")), bytes_of(json_text(part, "data")));
    else if (!strcmp(type, "resource_link"))
        buf_printf(out, "[%s](%s)", or_empty(json_text(part, "name")),
                   or_empty(json_text(part, "uri")));
    else if (!strcmp(type, "resource") && json_text(resource, "text"))
        buf_printf(out, "%s:\n%s", or_empty(json_text(resource, "uri")),
                   json_text(resource, "text"));
    else if (!strcmp(type, "resource"))
        buf_printf(out, "[resource %s, %s, %zu bytes: not shown to the model]",
                   or_empty(json_text(resource, "uri")), or_empty(json_text(resource, "mimeType")),
                   bytes_of(json_text(resource, "blob")));
    else
        put_unknown(out, *type ? type : "content");
}

static void cut(struct buf *out, size_t most)
{
    const size_t whole = out->len;
    if (whole <= most)
        return;
    out->len = utf8_valid((const unsigned char *)out->data, most);
    out->data[out->len] = '\0';
    buf_printf(out, "\n[cut: the first %zu of %zu bytes]", out->len, whole);
}

bool tool_result_text(const cJSON *result, size_t most, struct buf *out, bool *failed)
{
    const cJSON *content = json_member(result, "content"), *part,
                *structured = json_member(result, "structuredContent");
    *failed = cJSON_IsTrue(json_member(result, "isError"));
    cJSON_ArrayForEach (part, content) {
        if (out->len)
            buf_puts(out, "\n\n");
        put_part(out, part);
    }
    if (!out->len && structured)
        json_write(out, structured);
    if (!out->len)
        buf_puts(out, *failed ? "The tool failed and says no more." : "The tool gave nothing.");
    if (!out->failed)
        cut(out, most);
    return !out->failed;
}
