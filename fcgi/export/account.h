/* What an account holds beside its conversations, as JSON: who, defaults, presets, prompts, keys,
 * use. No secret: of a key its name and beginning. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/buf.h"
#include "engine/base/err.h"

struct arena;
struct export_params;

/* Of *p: the store, the user and the time. */
bool export_account(struct buf *out, const struct export_params *p, struct arena *a, struct err *e);
