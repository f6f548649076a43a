/* Frames on the engine's socket: 12-byte header {u32 payload length, u16 type, u16 flags, u32
 * reserved 0}, little-endian, then the payload. Unknown types and lengths over the limit end the
 * connection. The fields inside a payload are written and read by frame_writer / frame_reader,
 * which check bounds. Used by both ends; each connection belongs to one thread. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/buf.h"
#include "engine/base/err.h"

#define FRAME_HEADER_BYTES 12
#define FRAME_MAX_BYTES ((uint32_t)64 << 20)

enum frame_type {
    FRAME_HELLO = 1, /* both ways: u32 protocol version, string program */
    FRAME_SUBMIT,    /* to the engine: a job */
    FRAME_ATTACH,    /* to the engine: key */
    FRAME_CANCEL,    /* to the engine: this connection's job; or with a key: that one */
    FRAME_ACCEPTED,  /* the rest: to the client */
    FRAME_PROGRESS,
    FRAME_PROMPT_SCORES,
    FRAME_TOKENS,
    FRAME_DONE,
    FRAME_ERROR,
    /* the prompt cache's feed (cache_message.h) */
    FRAME_CACHE_FOLLOW,      /* to the engine: events from now on; and its reply */
    FRAME_CACHE_EVENT,       /* to the client */
    FRAME_CACHE_ACKNOWLEDGE, /* the rest: to the engine */
    FRAME_CACHE_FORGET,
    FRAME_CACHE_FORGET_OF, /* in another model's folder */
    FRAME_CACHE_RECONCILE_BEGIN,
    FRAME_CACHE_RECONCILE,
    FRAME_CACHE_RECONCILE_END,
    FRAME_RELAY,   /* to the relay: an answer that another server gives (struct engine_relay) */
    FRAME_VECTORS, /* to the client: of an embedding job */
    FRAME__N
};

struct frame {
    enum frame_type type;
    const unsigned char *payload; /* inside the receive buffer; valid until it is consumed */
    uint32_t len;
};

/* Begins a frame in b; the frame_put_* calls append; frame_end fixes the length. */
size_t frame_begin(struct buf *b, enum frame_type type);
void frame_end(struct buf *b, size_t start);
void frame_put_u32(struct buf *b, uint32_t v);
void frame_put_u64(struct buf *b, uint64_t v);
void frame_put_f32(struct buf *b, float v);
void frame_put_f64(struct buf *b, double v);
void frame_put_bytes(struct buf *b, const void *data, uint32_t len); /* u32 length, then bytes */

/* 1: *f is a whole frame at the front of the buffer (total size in *used); 0: more bytes needed;
 * -1: *e. */
int frame_parse(const char *data, size_t len, struct frame *f, size_t *used, struct err *e);

struct frame_reader {
    const unsigned char *at, *end;
    bool failed; /* read past the end: every later read gives 0 */
};
void frame_reader_init(struct frame_reader *r, const struct frame *f);
uint32_t frame_get_u32(struct frame_reader *r);
uint64_t frame_get_u64(struct frame_reader *r);
float frame_get_f32(struct frame_reader *r);
double frame_get_f64(struct frame_reader *r);
/* Points into the frame; len capped at max, else failed. */
const char *frame_get_bytes(struct frame_reader *r, uint32_t max, uint32_t *len);
