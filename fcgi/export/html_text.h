/* Text as HTML: for html.c and html_markdown.c. */
#pragma once
#include <stddef.h>

#include "engine/base/buf.h"

/* Escaped for elements and quoted attributes; control characters but newline and tab become U+FFFD.
 */
void html_text(struct buf *out, const char *text, size_t len);
/* Markdown (CommonMark; tables, task lists, strikethrough, bare links) as elements without script,
 * style, pictures or any attribute but class, start and a link's href and rel; HTML in it is text,
 * pictures are links, only http:, https: and mailto: are links, formulas stay as they were written.
 * What is longer than HTML_MARKDOWN_BYTES, or would become more than HTML_MARKDOWN_GROWTH times as
 * long, stays text: parsers of Markdown have inputs that take them quadratic time, or that grow so.
 */
#define HTML_MARKDOWN_BYTES ((size_t)128 << 10)
#define HTML_MARKDOWN_GROWTH 24
void html_markdown(struct buf *out, const char *text, size_t len);
