/* Texts in queries and forms (application/x-www-form-urlencoded). Pure. */
#pragma once
#include <stdbool.h>

#include "engine/base/buf.h"

/* Each: false when there is no memory, which buf remembers. */
bool oidc_form_text(struct buf *b, const char *text);
bool oidc_form_add(struct buf *b, const char *name,
                   const char *value); /* & before all but the first */
