/* The parts of a text that someone outside wrote: the template engine marks them, the tokenizer
 * recognises no added token in them. */
#pragma once
#include <stddef.h>

/* A part of the text that someone outside wrote: no added token is recognised in it, so that it can
 * never inject one. Half-open byte range; ranges ascend and do not overlap. */
struct text_span {
    size_t start, end;
};
