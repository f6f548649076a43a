/* Bytes as the engine's socket receives them, from either side: frames, then each kind of payload.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "engine/wire/cache_message.h"
#include "engine/wire/message.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_cache_frame(const struct frame *f, struct arena *a)
{
    struct cache_event ev;
    const struct stored_ref *refs;
    struct err e = {0};
    struct buf again = {0};
    uint64_t number;
    int32_t n;
    if (cache_message_get_event(f, &number, &ev, &e))
        cache_message_put_event(&again, number, &ev);
    if (cache_message_get_list(f, &refs, &n, a, &e))
        cache_message_put_list(&again, FRAME_CACHE_FORGET, refs, n);
    int64_t model;
    if (cache_message_get_list_of(f, &model, &refs, &n, a, &e))
        cache_message_put_list_of(&again, model, refs, n);
    cache_message_get_acknowledge(f, &number, &e);
    buf_fini(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct frame f;
    size_t used;
    struct err e = {0};
    struct event_box box = {0};
    while (frame_parse((const char *)data, size, &f, &used, &e) == 1) {
        struct engine_job_params p;
        struct engine_event ev;
        char key[ENGINE_KEY_SIZE];
        struct arena *a = arena_create((size_t)32 << 20);
        if (message_get_submit(&f, &p, a, &e)) {
            struct buf again = {0};
            if (!message_put_submit(&again, &p, &e) && e.code != ERR_NOMEM)
                abort(); /* what was read as right must be right to write */
            buf_fini(&again);
        }
        if (message_get_event(&f, &ev, &box, &e)) {
            struct buf again = {0};
            message_put_event(&again, &ev);
            buf_fini(&again);
        }
        read_cache_frame(&f, a);
        message_get_key(&f, key, &e);
        message_get_hello(&f, &e);
        arena_destroy(&a);
        data += used;
        size -= used;
    }
    event_box_fini(&box);
    return 0;
}
