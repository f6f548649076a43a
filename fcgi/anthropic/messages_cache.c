/* messages.h: the marks cache_control of a request. Every prompt is kept with and without one; a
 * mark's ttl says how long its blocks are kept on disk before they make room first. */
#include <stdio.h>
#include <string.h>

#include "engine/base/json/json.h"
#include "fcgi/anthropic/messages.h"

#define NAME "cache_control"

static bool bad(const char *where, const char *member, const char *why, struct err *e)
{
    char field[96];
    snprintf(field, sizeof field, "%.64s" NAME "%s", where, member);
    return err_field(e, ERR_INPUT, field, "%s", why);
}

/* The longest of several holds; without a ttl it is as long as there is room. */
static void keep(struct chat_request *c, int64_t seconds)
{
    if (!c->cache_marked || !seconds || (c->keep_seconds && seconds > c->keep_seconds))
        c->keep_seconds = seconds;
    c->cache_marked = true;
}

/* where: path of the object that holds the mark, with its dot. */
static bool read_mark(struct chat_request *c, const cJSON *holder, const char *where, struct err *e)
{
    const cJSON *mark = json_member(holder, NAME), *type, *ttl;
    if (!mark)
        return true;
    type = json_member(mark, "type");
    ttl = json_member(mark, "ttl");
    if (!cJSON_IsObject(mark))
        return bad(where, "", "must be an object", e);
    if (!cJSON_IsString(type) || strcmp(type->valuestring, "ephemeral") != 0)
        return bad(where, ".type", "must be ephemeral", e);
    if (ttl && (!cJSON_IsString(ttl) ||
                (strcmp(ttl->valuestring, "5m") != 0 && strcmp(ttl->valuestring, "1h") != 0)))
        return bad(where, ".ttl", "must be 5m or 1h", e);
    keep(c, !ttl ? 0 : *ttl->valuestring == '1' ? 3600 : 300);
    return true;
}

/* Of a list of blocks or tools; a block of content that holds blocks itself is a tool's result. */
static bool read_list(struct chat_request *c, const cJSON *list, const char *where, struct err *e)
{
    const cJSON *item, *inner;
    int i = 0;
    if (!cJSON_IsArray(list))
        return true;
    cJSON_ArrayForEach (item, list) {
        char path[64];
        int k = 0;
        snprintf(path, sizeof path, "%.40s[%d].", where, i++);
        if (!read_mark(c, item, path, e))
            return false;
        const cJSON *content = json_member(item, "content");
        if (!cJSON_IsArray(content))
            continue;
        cJSON_ArrayForEach (inner, content) {
            snprintf(path, sizeof path, "%.30s[%d].content[%d].", where, i - 1, k++);
            if (!read_mark(c, inner, path, e))
                return false;
        }
    }
    return true;
}

bool messages_read_cache(struct chat_request *c, const cJSON *body, struct err *e)
{
    const cJSON *messages = json_member(body, "messages"), *message;
    int i = 0;
    if (!read_mark(c, body, "", e) || !read_list(c, json_member(body, "system"), "system", e) ||
        !read_list(c, json_member(body, "tools"), "tools", e))
        return false;
    cJSON_ArrayForEach (message, messages) {
        char path[40];
        snprintf(path, sizeof path, "messages[%d].content", i++);
        if (!read_list(c, json_member(message, "content"), path, e))
            return false;
    }
    return true;
}
