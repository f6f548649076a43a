/* Which backend runs: names, "auto", and what happens when the GPU refuses a model: a whole engine
 * over a Vulkan backend that refuses every one (refusing_vulkan.c). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/backend/backend.h"
#include "engine/base/file.h"
#include "tests/unit/engine/engine_process.h"

static struct engine_process engine;

static int remove_engine(void **state)
{
    engine_process_remove(&engine);
    return 0;
}

static void start_on(const char *backend, const char *device, const char *refuse_with,
                     const char *strategy)
{
    const char *const extra[] = {"--backend", backend, "--device",   device,   "--ctx", "256",
                                 "--slots",   "1",     "--strategy", strategy, NULL};
    setenv("SLUICE_ENGINE", "tests/unit/engine_refusing", 1);
    setenv("REFUSE_WITH", refuse_with, 1);
    assert_true(engine_process_start(&engine, extra));
}

static void start(const char *backend, const char *refuse_with, const char *strategy)
{
    start_on(backend, "auto", refuse_with, strategy);
}

static void test_names_select(void **state)
{
    struct err e = {0};
    assert_ptr_equal(backend_select("cpu", &e), &cpu_backend);
    assert_ptr_equal(backend_select("vulkan", &e), &vulkan_backend);
    assert_ptr_equal(backend_select("auto", &e), &vulkan_backend);
    assert_ptr_equal(backend_select(NULL, &e), &vulkan_backend);
    assert_null(backend_select("gpu", &e));
    assert_int_equal(e.code, ERR_INPUT);
    assert_string_equal(e.field, "backend");
}

static void test_only_auto_and_only_a_models_refusal_falls_back(void **state)
{
    static const enum err_code models[] = {ERR_UNSUPPORTED, ERR_NOMEM, ERR_LIMIT},
                               others[] = {ERR_DEVICE, ERR_FORMAT, ERR_IO};
    for (int i = 0; i < 3; i++) {
        struct err model = {.code = models[i]}, other = {.code = others[i]};
        assert_ptr_equal(backend_fallback("auto", &vulkan_backend, &model), &cpu_backend);
        assert_ptr_equal(backend_fallback(NULL, &vulkan_backend, &model), &cpu_backend);
        assert_null(backend_fallback("vulkan", &vulkan_backend, &model));
        assert_null(backend_fallback("auto", &cpu_backend, &model));
        assert_null(backend_fallback("auto", &vulkan_backend, &other));
    }
}

static void test_a_refused_model_runs_on_the_cpu(void **state)
{
    static const char *const codes[] = {"unsupported", "nomem"};
    for (int i = 0; i < 2; i++) {
        struct status_page page;
        struct err e = {0};
        start_on("auto", i ? "auto:a GPU" : "auto", codes[i], "auto");
        assert_true(engine_process_wait_ready(&engine));
        assert_true(status_read(engine.status, &page, &e));
        assert_string_equal(page.backend, "cpu");
        assert_string_equal(page.strategy, "cpu_only");
        assert_string_equal(page.backend_note, "vulkan: layer 3: no kernel for this");
        assert_string_equal(page.error, "");
        int threads = 0;
        assert_int_equal(sscanf(page.device, "cpu, %d thread", &threads), 1);
        assert_int_equal(page.n_threads,
                         threads); /* those that there are, not the machine's processors */
        const int32_t prompt[] = {8184, 296, 198, 828};
        struct engine_job_params p = {.prompt = prompt,
                                      .n_prompt = 4,
                                      .max_tokens = 3,
                                      .top_logprobs = -1,
                                      .ignore_eos = true,
                                      .sampling = {.top_p = 1, .repetition_penalty = 1}};
        struct engine_job *j = engine_submit(engine.socket, &p, &e);
        assert_non_null(j);
        static struct answer_text a;
        assert_true(answer_read(j, &a));
        assert_int_equal(a.n_tokens, 3);
        engine_close(&j);
        assert_int_equal(engine_process_end(&engine, SIGTERM), 0);
        engine_process_remove(&engine);
    }
}

/* Memory for experts had been taken as the GPU's plan says it: the cpu's plan is met all the same.
 */
static void test_a_gpu_that_refuses_late_leaves_nothing_behind(void **state)
{
    struct status_page page;
    struct err e = {0};
    struct buf log = {0};
    char path[128];
    start("auto", "late", "ssd_streaming");
    assert_true(engine_process_wait_ready(&engine));
    assert_true(status_read(engine.status, &page, &e));
    assert_string_equal(page.backend, "cpu");
    assert_string_equal(page.strategy, "ssd_streaming");
    snprintf(path, sizeof path, "%s/log", engine.dir);
    assert_true(file_read(path, 1 << 20, &log, &e));
    assert_non_null(strstr(log.data, "no kernel for this"));
    /* the store that the GPU's plan had is gone: the cpu's owns the dense weights too */
    const char *gpus = strstr(log.data, "experts stay on disk"),
               *own = gpus ? strstr(gpus + 1, "experts stay on disk") : NULL;
    if (!own || strstr(own, " dense=0 ") || strstr(log.data, "the plan was not met"))
        fail_msg("%s", log.data);
    buf_fini(&log);
    assert_int_equal(engine_process_end(&engine, SIGTERM), 0);
}

static void refused(const char *backend, const char *device, const char *code)
{
    start_on(backend, device, code, "auto");
    assert_int_not_equal(engine_process_end(&engine, 0), 0);
    engine_process_remove(&engine);
}

static void test_other_refusals_stand(void **state)
{
    refused("auto", "auto", "device");
    refused("auto", "auto", "format");
    refused("vulkan", "auto", "unsupported");
    refused("auto", "a GPU", "late"); /* it and no other was asked for */
    refused("cpu", "a GPU", "late");
    refused("auto", "", "late");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names_select),
        cmocka_unit_test(test_only_auto_and_only_a_models_refusal_falls_back),
        cmocka_unit_test_teardown(test_a_refused_model_runs_on_the_cpu, remove_engine),
        cmocka_unit_test_teardown(test_a_gpu_that_refuses_late_leaves_nothing_behind,
                                  remove_engine),
        cmocka_unit_test_teardown(test_other_refusals_stand, remove_engine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
