/* The result of rendering a template: its text, and which parts of it are untrusted. */
#pragma once
#include <stddef.h>

#include "engine/base/buf.h"
#include "engine/base/json/text_span.h"

struct rendered { /* owner calls rendered_fini; zeroed = empty */
    struct buf text;
    struct text_span *untrusted; /* parts that came from messages, tools or kwargs */
    size_t n_untrusted, cap_untrusted;
};
void rendered_fini(struct rendered *r);
