/* Times, roles, file names and the system prompt, as several formats write them. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/base/json/json.h"
#include "fcgi/export/format.h"

const char *export_time(int64_t ms, char out[EXPORT_TIME_SIZE])
{
    const time_t t = (time_t)(ms / 1000);
    struct tm tm;
    if (!gmtime_r(&t, &tm) || !strftime(out, EXPORT_TIME_SIZE, "%Y-%m-%d %H:%M UTC", &tm))
        out[0] = '\0';
    return out;
}

const char *export_role(enum store_role r)
{
    static const char *const names[ROLE__N] = {"System", "User", "Assistant", "Tool"};
    return names[r];
}

void export_line(struct buf *out, const char *text)
{
    for (; *text; text++)
        buf_putc(out, (unsigned char)*text < ' ' || *text == 0x7f ? ' ' : *text);
}

char *export_system(const char *settings)
{
    struct err why = {0};
    const char *system = NULL;
    cJSON *v = json_parse(settings, strlen(settings),
                          &(struct json_limits){.max_bytes = STORE_SETTINGS_BYTES}, &why);
    char *copy = v && json_get_string(v, "system", &system, &why) && system && *system
                     ? strdup(system)
                     : NULL;
    cJSON_Delete(v);
    return copy;
}

void export_file_names(struct buf *out, const char *attachments)
{
    struct err why = {0};
    const cJSON *file;
    if (!strcmp(attachments, "[]"))
        return;
    cJSON *list = json_parse(attachments, strlen(attachments), NULL, &why);
    cJSON_ArrayForEach (file, list) {
        const char *name = json_text(file, "name");
        if (out->len)
            buf_puts(out, ", ");
        export_line(out, name ? name : "");
    }
    cJSON_Delete(list);
}
