/* The checked JSON reader: what json_scan accepts, cJSON must accept too, and writing must read
 * back. */
#include <stdint.h>
#include <stdlib.h>

#include "engine/base/json/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct err e = {0};
    cJSON *v = json_parse((const char *)data, size, NULL, &e);
    if (!v) {
        if (e.code == ERR_NONE)
            abort();
        return 0;
    }
    struct buf b = {0};
    if (!json_write(&b, v))
        abort();
    cJSON *again = json_parse(b.data, b.len, NULL, &e);
    if (!again)
        abort();
    cJSON_Delete(again);
    cJSON_Delete(v);
    buf_fini(&b);
    return 0;
}
