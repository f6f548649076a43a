/* project.h: reading sources that are stored, or that an import brings. */
#include <string.h>

#include "engine/base/json/json.h"
#include "fcgi/attachments/attachment.h"
#include "fcgi/projects/project.h"

bool project_put_passages(struct buf *out, const cJSON *sources)
{
    const cJSON *p, *list = json_member(sources, "passages");
    struct buf head = {0};
    if (cJSON_GetArraySize(list) == 0)
        return true;
    buf_puts(out, "Passages from the project's files that match the question:\n\n");
    cJSON_ArrayForEach (p, list) {
        head.len = 0;
        buf_printf(&head, "[%d] %s", (int)cJSON_GetNumberValue(json_member(p, "n")),
                   json_text(p, "name"));
        out->failed |= head.failed || !attachment_block(out, head.data, json_text(p, "text"));
    }
    buf_fini(&head);
    return !out->failed;
}

static int last_of(const cJSON *list)
{
    const cJSON *item;
    int n = 0;
    cJSON_ArrayForEach (item, list) {
        const double x = cJSON_GetNumberValue(json_member(item, "n"));
        n = x > n && x < 1e6 ? (int)x : n;
    }
    return n;
}

int project_last_number(const cJSON *sources)
{
    const int files = last_of(json_member(sources, "files"));
    const int passages = last_of(json_member(sources, "passages"));
    return files > passages ? files : passages;
}

static bool is_count(const cJSON *o, const char *name, double max)
{
    const double v = cJSON_GetNumberValue(json_member(o, name));
    return v >= 0 && v <= max && v == (double)(int64_t)v;
}

static bool item_fits(const cJSON *o, bool passage)
{
    const char *sha = json_text(o, "sha256");
    if (!cJSON_IsObject(o) || !is_count(o, "n", 1e6) || !json_text(o, "name") || !sha ||
        strspn(sha, "0123456789abcdef") != 64 || sha[64])
        return false;
    return !passage ||
           (json_text(o, "text") && is_count(o, "start", 1e9) && is_count(o, "end", 1e9));
}

bool project_sources_fit(const cJSON *sources)
{
    static const char *const lists[] = {"files", "passages"};
    const cJSON *item;
    if (!cJSON_IsObject(sources) || !json_text(sources, "project") ||
        !json_text(sources, "instructions") || !cJSON_IsBool(json_member(sources, "indexing")))
        return false;
    for (int i = 0; i < 2; i++) {
        const cJSON *list = json_member(sources, lists[i]);
        if (!cJSON_IsArray(list))
            return false;
        cJSON_ArrayForEach (item, list)
            if (!item_fits(item, i == 1))
                return false;
    }
    return true;
}
