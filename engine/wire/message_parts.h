/* Parts of frames whose code has a file of its own. For message.c and event.c. */
#pragma once
#include "engine/base/buf.h"
#include "engine/engine.h"
#include "engine/wire/frame.h"

void message_put_speculation(struct buf *b, const struct engine_speculation *s);
void message_get_speculation(struct frame_reader *r, struct engine_speculation *s);
