/* Frames: header, field writer, field reader. All integers little-endian, byte by byte, so that the
 * format is the same on every host; the compiler turns the byte shuffling into plain loads and
 * stores. */
#include "engine/wire/frame.h"

#include <string.h>

static void put_le(unsigned char *at, uint64_t v, int n)
{
    for (int i = 0; i < n; i++)
        at[i] = (unsigned char)(v >> (8 * i));
}

static uint64_t get_le(const unsigned char *at, int n)
{
    uint64_t v = 0;
    for (int i = 0; i < n; i++)
        v |= (uint64_t)at[i] << (8 * i);
    return v;
}

size_t frame_begin(struct buf *b, enum frame_type type)
{
    unsigned char header[FRAME_HEADER_BYTES] = {0};
    size_t start = b->len;
    put_le(header + 4, (uint64_t)type, 2);
    buf_append(b, header, sizeof header);
    return start;
}

void frame_end(struct buf *b, size_t start)
{
    if (b->failed)
        return;
    size_t len = b->len - start - FRAME_HEADER_BYTES;
    if (len > FRAME_MAX_BYTES) {
        b->failed = true;
        return;
    }
    put_le((unsigned char *)b->data + start, len, 4);
}

void frame_put_u32(struct buf *b, uint32_t v)
{
    unsigned char raw[4];
    put_le(raw, v, 4);
    buf_append(b, raw, sizeof raw);
}

void frame_put_u64(struct buf *b, uint64_t v)
{
    unsigned char raw[8];
    put_le(raw, v, 8);
    buf_append(b, raw, sizeof raw);
}

void frame_put_f32(struct buf *b, float v)
{
    uint32_t raw;
    memcpy(&raw, &v, sizeof raw);
    frame_put_u32(b, raw);
}

void frame_put_f64(struct buf *b, double v)
{
    uint64_t raw;
    memcpy(&raw, &v, sizeof raw);
    frame_put_u64(b, raw);
}

void frame_put_bytes(struct buf *b, const void *data, uint32_t len)
{
    frame_put_u32(b, len);
    if (len)
        buf_append(b, data, len);
}

int frame_parse(const char *data, size_t len, struct frame *f, size_t *used, struct err *e)
{
    const unsigned char *at = (const unsigned char *)data;
    if (len < FRAME_HEADER_BYTES)
        return 0;
    uint32_t payload = (uint32_t)get_le(at, 4);
    uint32_t type = (uint32_t)get_le(at + 4, 2);
    uint32_t flags = (uint32_t)get_le(at + 6, 2);
    uint32_t reserved = (uint32_t)get_le(at + 8, 4);
    if (payload > FRAME_MAX_BYTES) {
        err_set(e, ERR_LIMIT, "frame of %u bytes, at most %u are allowed", payload,
                FRAME_MAX_BYTES);
        return -1;
    }
    if (type < FRAME_HELLO || type >= FRAME__N) {
        err_set(e, ERR_FORMAT, "unknown frame type %u", type);
        return -1;
    }
    if (flags || reserved) {
        err_set(e, ERR_FORMAT, "frame flags %u, reserved %u: both must be 0", flags, reserved);
        return -1;
    }
    if (len - FRAME_HEADER_BYTES < payload)
        return 0;
    *f = (struct frame){
        .type = (enum frame_type)type, .payload = at + FRAME_HEADER_BYTES, .len = payload};
    *used = FRAME_HEADER_BYTES + (size_t)payload;
    return 1;
}

void frame_reader_init(struct frame_reader *r, const struct frame *f)
{
    *r = (struct frame_reader){.at = f->payload, .end = f->payload + f->len};
}

/* The next n bytes, or NULL (and failed) if the frame has fewer. */
static const unsigned char *take(struct frame_reader *r, size_t n)
{
    if (r->failed || (size_t)(r->end - r->at) < n) {
        r->failed = true;
        return NULL;
    }
    const unsigned char *at = r->at;
    r->at += n;
    return at;
}

uint32_t frame_get_u32(struct frame_reader *r)
{
    const unsigned char *at = take(r, 4);
    return at ? (uint32_t)get_le(at, 4) : 0;
}

uint64_t frame_get_u64(struct frame_reader *r)
{
    const unsigned char *at = take(r, 8);
    return at ? get_le(at, 8) : 0;
}

float frame_get_f32(struct frame_reader *r)
{
    uint32_t raw = frame_get_u32(r);
    float v;
    memcpy(&v, &raw, sizeof v);
    return v;
}

double frame_get_f64(struct frame_reader *r)
{
    uint64_t raw = frame_get_u64(r);
    double v;
    memcpy(&v, &raw, sizeof v);
    return v;
}

const char *frame_get_bytes(struct frame_reader *r, uint32_t max, uint32_t *len)
{
    uint32_t n = frame_get_u32(r);
    *len = 0;
    if (n > max) {
        r->failed = true;
        return NULL;
    }
    const unsigned char *at = take(r, n);
    if (at)
        *len = n;
    return (const char *)at;
}
