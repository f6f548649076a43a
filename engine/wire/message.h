/* The content of frames: a job's parameters (client to engine) and its events (engine to client).
 * Both ends use the same two pairs of functions, so that the format is defined once.
 * Everything that is decoded is checked: counts, sizes, ranges, finite numbers, and no byte left
 * over. No state; any thread. */
#pragma once
#include "engine/base/arena.h"
#include "engine/base/buf.h"
#include "engine/engine.h"
#include "engine/wire/frame.h"

/* The largest SUBMIT frame: 2 Mi tokens, references to stored blocks, a prediction, the ends of
 * texts, and the smaller fields. */
#define MESSAGE_MAX_SUBMIT                                                                         \
    ((uint32_t)(8 << 20) + ENGINE_MAX_STORED * 32u + ENGINE_MAX_PREDICTION * 4u +                  \
     ENGINE_MAX_TEXTS * 8u + (64 << 10))

void message_put_hello(struct buf *b, const char *program);
/* ERR_UNSUPPORTED: another protocol version (the text has both). */
bool message_get_hello(const struct frame *f, struct err *e);

/* ERR_INPUT (naming the field) when the parameters break engine.h's rules; b is then left as it
 * was. */
bool message_put_submit(struct buf *b, const struct engine_job_params *p, struct err *e);
/* Fills *p; its pointers point into the arena. */
bool message_get_submit(const struct frame *f, struct engine_job_params *p, struct arena *a,
                        struct err *e);
/* The rules themselves: ranges, counts, keys. Ids are checked against the vocabulary by the engine.
 */
bool message_check_params(const struct engine_job_params *p, struct err *e);

/* The same for a job of the relay. *p's request points into the frame. */
bool message_put_relay(struct buf *b, const struct engine_relay *p, struct err *e);
bool message_get_relay(const struct frame *f, struct engine_relay *p, struct err *e);

void message_put_key(struct buf *b, enum frame_type type,
                     const char *key); /* ATTACH, CANCEL; NULL: no key */
bool message_get_key(const struct frame *f, char key[ENGINE_KEY_SIZE],
                     struct err *e); /* "" for none */

void message_put_event(struct buf *b, const struct engine_event *ev);
/* Receives an event; owner calls event_box_fini. Zeroed = empty. */
struct event_box {
    struct engine_token *tokens;
    int32_t cap_tokens;
    float *values;
    int64_t cap_values;
    char stop_string[ENGINE_MAX_STOP_BYTES + 1];
};
/* ev points into the frame and the box: valid until either changes. */
bool message_get_event(const struct frame *f, struct engine_event *ev, struct event_box *box,
                       struct err *e);
void event_box_fini(struct event_box *box);
