/* upstream_test.h: a job of a few tokens. */
#include "fcgi/upstreams/upstream_test.h"

#include <string.h>

#include "engine/base/clock.h"
#include "engine/engine.h"
#include "fcgi/http/relay_error.h"

static const char question[] =
    "{\"messages\":[{\"role\":\"user\",\"content\":\"Say OK.\"}],\"max_tokens\":16}";

static bool take(const struct engine_event *ev, double began, struct upstream_tested *out,
                 bool *over, struct err *e)
{
    const double ms = clock_ms() - began;
    if (ev->type == ENGINE_TOKENS && !out->first_ms)
        out->first_ms = ms;
    *over = ev->type == ENGINE_DONE;
    if (*over) {
        out->total_ms = ms;
        out->prompt_tokens = ev->usage.prompt_tokens;
        out->completion_tokens = ev->usage.completion_tokens;
    }
    if (ev->type == ENGINE_FAILED)
        *e = ev->error;
    return ev->type != ENGINE_FAILED;
}

bool upstream_test_run(const struct upstream_test *t, struct upstream_tested *out, struct err *e)
{
    const struct engine_relay p = {.model = t->model,
                                   .upstream = t->upstream,
                                   .request = question,
                                   .n_request = strlen(question),
                                   .most_tokens = 16,
                                   .request_id = "test"};
    const double began = clock_ms(), until = began + UPSTREAM_TEST_MS;
    *out = (struct upstream_tested){0};
    struct engine_job *job = engine_relay(t->relay_socket, &p, NULL, e);
    bool ok = job != NULL, over = false;
    while (ok && !over) {
        struct engine_event ev;
        const double left = until - clock_ms();
        int got = left > 0 ? engine_next(job, &ev, (int)left, e) : 0;
        if (got == 0)
            ok = err_set(e, ERR_UNAVAILABLE, "it did not end its answer within %d s",
                         UPSTREAM_TEST_MS / 1000);
        else
            ok = got > 0 && take(&ev, began, out, &over, e);
    }
    engine_close(&job);
    if (!ok)
        relay_error_read(e);
    return ok;
}
