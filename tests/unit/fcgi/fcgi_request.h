/* A request without a web server: its FastCGI parameters as "NAME=value" strings. */
#pragma once
#include <fcgiapp.h>

#include "engine/text/text_model.h"
#include "fcgi/http/request.h"
#include "fcgi/process/worker.h"

struct fake_request {
    FCGX_Request fcgx;
    struct worker worker;
    struct request r;
};

/* params: NULL-terminated, outlives the request. text: may be NULL. */
void fake_request_open(struct fake_request *f, char **params, const struct text_model *text);
void fake_request_close(struct fake_request *f);
