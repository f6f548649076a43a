/* The HTTP side of a serving process: what process/child.h does with each connection that it
 * accepts. */
#pragma once
#include "fcgi/process/child.h"

void *serve_open(struct FCGX_Request *fcgx, const struct worker *w,
                 const struct child_params *alone);
void serve_request(void *server, struct store *store);
void serve_close(void *server);
