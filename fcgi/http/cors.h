/* Pages of other origins: those of the allow-list may call the API with a key, from /v1 and the
 * other open paths. Never /api, where a cookie counts: no credentials are allowed, whoever asks.
 * Thread: the request's. */
#pragma once
#include <stdbool.h>

#include "engine/base/err.h"

struct request;

/* A list of origins separated by blanks, or "*". ERR_INPUT: something that no browser sends as
 * Origin. */
bool cors_check(const char *origins, struct err *e);
/* Adds the headers of any reply when the request's Origin is on the worker's list. */
void cors_headers(struct request *r);
/* And those of the answer to a preflight. methods: "GET, POST". */
void cors_preflight(struct request *r, const char *methods);
