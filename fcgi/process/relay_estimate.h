/* How many tokens a request to another server may have, before that server has counted: workers and
 * the relay charge the same. Pure. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#define RELAY_IMAGE_TOKENS 1500

/* request: a chat as engine_relay has it, JSON without blanks. Four bytes are a token; an image is
 * RELAY_IMAGE_TOKENS, however many bytes it has. At least 1. */
int64_t relay_estimate(const char *request, size_t len);
