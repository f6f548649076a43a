/* What an account holds beside its conversations, as JSON: who, defaults, presets, prompts, keys, use. No secret: of a key
 * its name and beginning. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/buf.h"
#include "engine/base/err.h"

struct arena;
struct store;

bool export_account(struct buf *out, struct store *s, struct arena *a, int64_t user_id, int64_t exported_at, struct err *e);
