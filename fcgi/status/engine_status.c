/* engine_status.h: the page that the engine writes, as workers read it. */
#include "fcgi/status/engine_status.h"

#include <stdio.h>

#include "fcgi/http/request.h"
#include "fcgi/process/worker.h"

bool engine_status_read(const struct request *r, struct status_page *page)
{
    struct err e = {0};
    if (!status_read(r->worker->status_path, page, &e)) {
        *page = (struct status_page){.state = ENGINE_DOWN};
        snprintf(page->error, sizeof page->error, "the engine has not started");
    }
    return page->state == ENGINE_READY;
}

void engine_status_put_parts(cJSON *o, const struct status_page *page)
{
    cJSON *parts = cJSON_AddObjectToObject(o, "parts");
    for (int i = 0; i < STATUS_PARTS && page->parts[i].name[0]; i++) {
        const struct status_part *p = &page->parts[i];
        cJSON *part = cJSON_AddObjectToObject(parts, p->name);
        cJSON_AddNumberToObject(part, "bytes", (double)p->bytes);
        cJSON *formats = cJSON_AddObjectToObject(part, "formats");
        for (int k = 0; k < STATUS_PART_FORMATS && p->formats[k].text[0]; k++)
            cJSON_AddNumberToObject(formats, p->formats[k].text, (double)p->formats[k].bytes);
    }
}
