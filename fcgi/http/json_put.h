/* Ids and times in replies, which have one form everywhere. */
#pragma once
#include <cjson/cJSON.h>
#include <stdint.h>

void json_put_id(cJSON *o, const char *name,
                 int64_t id); /* ids are strings in JSON: a double can't hold them all */
void json_put_time(cJSON *o, const char *name, int64_t ms); /* Unix milliseconds; 0 is null */
