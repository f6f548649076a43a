/* The scope of the engine's prompt cache: no user's request may learn from its speed what another
 * user has sent; nor one whose key may not read the user's conversations what stands in them: how
 * many words were drafted by them (engine/draft/recall.h) tells that word by word. */
#pragma once
#include <stddef.h>

struct request;

/* The scope of the request's user, or of a part of it that `salt` names (NULL or "": none). */
void cache_scope_name(char *out, size_t size, const struct request *r, const char *salt);
