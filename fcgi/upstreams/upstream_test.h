/* Asks one upstream for a short answer by way of the relay: the key, the model's name, the network
 * and the stream are what a user's request would meet. Blocks. */
#pragma once
#include <stdint.h>

#include "engine/base/err.h"

#define UPSTREAM_TEST_MS 20000

struct upstream_test {
    int64_t model, upstream;
    const char *relay_socket;
};
struct upstream_tested {
    double first_ms, total_ms;
    int32_t prompt_tokens, completion_tokens;
};
/* False: *e as relay_error_read has it. */
bool upstream_test_run(const struct upstream_test *t, struct upstream_tested *out, struct err *e);
