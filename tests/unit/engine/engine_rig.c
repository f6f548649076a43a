/* Starts and ends the engine, and submits jobs. */
#include "tests/unit/engine/engine_rig.h"

struct engine_process engine;

/* "<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n" of the golden
 * greedy.json */
const int32_t hello[N_HELLO] = {8184, 296, 198,  828, 8185, 198, 8184,
                                298,  198, 8186, 302, 8187, 302};

int start_engine(void **state)
{
    const char *const extra[] = {"--ctx", "512",         "--slots", "4", "--max-queue",
                                 "80",    "--log-level", "warn",    NULL};
    return engine_process_start(&engine, extra) && engine_process_wait_ready(&engine) ? 0 : -1;
}

int remove_engine(void **state)
{
    engine_process_remove(&engine);
    return 0;
}

int stop_engine(void **state)
{
    int status = engine_process_end(&engine, SIGTERM);
    if (status != 0)
        fprintf(stderr, "sluice-engine ended with status %d\n", status);
    engine_process_remove(&engine);
    return status;
}

struct engine_job_params hello_params(int32_t max_tokens)
{
    return (struct engine_job_params){.prompt = hello,
                                      .n_prompt = N_HELLO,
                                      .max_tokens = max_tokens,
                                      .top_logprobs = -1,
                                      .sampling = {.top_p = 1, .repetition_penalty = 1}};
}

struct engine_job *submit(const struct engine_job_params *p)
{
    struct err e = {0};
    struct engine_job *j = engine_submit(engine.socket, p, &e);
    if (!j)
        fail_msg("%s", e.text);
    return j;
}

struct engine_job_params long_params(void)
{
    struct engine_job_params p = hello_params(490);
    p.ignore_eos = true;
    return p;
}
