/* The content of the frames about the prompt cache on disk: references in a job and in the feed's
 * requests, and the feed's events. Both ends use the same pairs of functions; everything that is
 * decoded is checked. No state; any thread. */
#pragma once
#include "engine/base/arena.h"
#include "engine/base/buf.h"
#include "engine/wire/frame.h"
#include "engine/wire/prompt_cache.h"

#define CACHE_MESSAGE_REF_BYTES 32u
#define CACHE_MESSAGE_MAX_REFS ((int32_t)ENGINE_MAX_STORED) /* of one frame */

/* A count and references, inside any frame. */
void cache_message_put_refs(struct buf *b, const struct stored_ref *refs, int32_t n);
/* Into the arena. False: too many, or the frame is too short (r->failed), or no memory. */
bool cache_message_get_refs(struct frame_reader *r, const struct stored_ref **refs, int32_t *n,
                            struct arena *a);

/* A whole frame with nothing in it: FOLLOW, RECONCILE_BEGIN, RECONCILE_END. */
void cache_message_put_empty(struct buf *b, enum frame_type type);
/* A whole frame of references: FORGET, RECONCILE. */
void cache_message_put_list(struct buf *b, enum frame_type type, const struct stored_ref *refs,
                            int32_t n);
bool cache_message_get_list(const struct frame *f, const struct stored_ref **refs, int32_t *n,
                            struct arena *a, struct err *e);
/* FORGET_OF: the model, above 0, and references. */
void cache_message_put_list_of(struct buf *b, int64_t model, const struct stored_ref *refs,
                               int32_t n);
bool cache_message_get_list_of(const struct frame *f, int64_t *model,
                               const struct stored_ref **refs, int32_t *n, struct arena *a,
                               struct err *e);

/* Events are numbered from 1; an acknowledgement names the last one that is dealt with. */
void cache_message_put_event(struct buf *b, uint64_t number, const struct cache_event *ev);
bool cache_message_get_event(const struct frame *f, uint64_t *number, struct cache_event *ev,
                             struct err *e);
void cache_message_put_acknowledge(struct buf *b, uint64_t number);
bool cache_message_get_acknowledge(const struct frame *f, uint64_t *number, struct err *e);
