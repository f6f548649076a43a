/* json_put.h: ids and times as the API writes them. */
#include "fcgi/http/json_put.h"

#include <stdio.h>

void json_put_id(cJSON *o, const char *name, int64_t id)
{
    char text[24];
    snprintf(text, sizeof text, "%lld", (long long)id);
    cJSON_AddStringToObject(o, name, text);
}

void json_put_time(cJSON *o, const char *name, int64_t ms)
{
    cJSON_AddItemToObject(o, name, ms ? cJSON_CreateNumber((double)ms) : cJSON_CreateNull());
}
