/* fcgi_request.h: a request without a web server. */
#include "tests/unit/fcgi/fcgi_request.h"

#include <stdlib.h>
#include <string.h>

void fake_request_open(struct fake_request *f, char **params, const struct text_model *text)
{
    struct err e = {0};
    memset(f, 0, sizeof *f);
    f->fcgx.envp = params;
    f->fcgx.ipcFd = -1;
    f->worker.text = text;
    if (!request_init(&f->r, &f->fcgx, &f->worker))
        abort();
    request_begin(&f->r, NULL, &e);
}

void fake_request_close(struct fake_request *f)
{
    cJSON_Delete(f->r.json);
    f->r.json = NULL;
    request_fini(&f->r);
}
