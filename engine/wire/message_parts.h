/* Parts of frames whose code has a file of its own. For the files that encode messages. */
#pragma once
#include "engine/base/buf.h"
#include "engine/engine.h"
#include "engine/wire/frame.h"

struct arena;
struct event_box;

void message_put_string(struct buf *b, const char *s);
/* Into a fixed array; a string that does not fit, or holds a NUL, is an error of the frame. */
void message_get_string(struct frame_reader *r, char *out, size_t size);

void message_put_speculation(struct buf *b, const struct engine_speculation *s);
void message_get_speculation(struct frame_reader *r, struct engine_speculation *s);

/* The texts of an embedding job: the rules, and both ways. */
bool message_check_texts(const struct engine_job_params *p, struct err *e);
void message_put_texts(struct buf *b, const struct engine_job_params *p);
bool message_get_texts(struct frame_reader *r, struct engine_job_params *p, struct arena *a,
                       struct err *e);
/* A malformed frame sets r->failed and is no error yet; the error is memory. */
void message_put_vectors(struct buf *b, const struct engine_event *ev);
bool message_get_vectors(struct frame_reader *r, struct engine_event *ev, struct event_box *box,
                         struct err *e);
