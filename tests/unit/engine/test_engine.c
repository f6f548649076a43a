/* The engine as its clients see it: a real process, the demo model, the cpu backend. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/wire/message.h"
#include "tests/unit/engine/engine_process.h"
#include "tests/unit/engine/engine_rig.h"
#include "tests/unit/support/process_cpu.h"
#include "tests/unit/support/patience.h"

static void test_ready_line_and_status_page_agree(void **state)
{
    char line[2048] = {0};
    struct status_page page;
    struct stat st;
    struct err e = {0};
    assert_true(read(engine.out, line, sizeof line - 1) > 0);
    assert_non_null(strstr(line, "\"event\":\"ready\""));
    assert_non_null(strstr(line, "\"strategy\":\"cpu_only\""));
    assert_non_null(strstr(line, "\"cpu_layers\":8,\"total_layers\":8"));
    assert_true(status_read(engine.status, &page, &e));
    assert_int_equal(page.pid, engine.pid);
    assert_string_equal(page.backend, "cpu");
    assert_int_equal(page.n_ctx, 512);
    assert_int_equal(page.n_slots, 4);
    assert_true(page.weight_bytes > 20000000 && page.kv_bytes > 0);
    assert_int_equal(stat(engine.socket, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0660);
}

static void test_answer_is_the_models(void **state)
{
    struct answer_text a;
    struct engine_job_params p = hello_params(50);
    struct engine_job *j = submit(&p);
    assert_true(engine_pending(j)); /* ACCEPTED is there already */
    assert_true(answer_read(j, &a));
    assert_true(a.done);
    assert_string_equal(a.text, "Hi! How can I help?");
    assert_int_equal(a.last.finish, ENGINE_STOP_EOS);
    assert_int_equal(a.last.usage.prompt_tokens, N_HELLO);
    assert_int_equal(a.last.usage.completion_tokens,
                     a.n_tokens + 1); /* the end's token is counted, not sent */
    struct err e = {0};
    struct engine_event ev;
    assert_int_equal(engine_next(j, &ev, 0, &e), -1);
    engine_close(&j);
}

static void test_many_at_once_say_what_each_says_alone(void **state)
{
    enum { N = 64 };
    struct engine_job *jobs[N];
    struct answer_text alone[4], a;
    int32_t prompts[4][N_HELLO];
    for (int i = 0; i < 4; i++) {
        memcpy(prompts[i], hello, sizeof hello);
        prompts[i][3] = 828 + i * 100;
        struct engine_job_params p = hello_params(24);
        p.prompt = prompts[i];
        struct engine_job *j = submit(&p);
        assert_true(answer_read(j, &alone[i]));
        engine_close(&j);
    }
    for (int i = 0; i < N; i++) {
        struct engine_job_params p = hello_params(24);
        p.prompt = prompts[i % 4];
        p.user = (uint64_t)(i % 6);
        jobs[i] = submit(&p);
    }
    for (int i = 0; i < N; i++) {
        assert_true(answer_read(jobs[i], &a));
        assert_true(a.done);
        assert_string_equal(a.text, alone[i % 4].text);
        engine_close(&jobs[i]);
    }
}

static void test_closed_connection_cancels(void **state)
{
    struct status_page before, after;
    struct engine_event ev;
    struct err e = {0};
    assert_true(engine_process_wait_idle(&engine, &before));
    struct engine_job_params p = long_params();
    struct engine_job *j = submit(&p);
    do
        assert_int_equal(engine_next(j, &ev, 60000, &e), 1);
    while (ev.type != ENGINE_TOKENS);
    engine_close(&j);
    assert_true(engine_process_wait_idle(&engine, &after));
    assert_int_equal(after.jobs_done[OUTCOME_CANCELLED], before.jobs_done[OUTCOME_CANCELLED] + 1);
    assert_true(after.completion_tokens - before.completion_tokens < 400);
}

static void test_cancel_ends_the_stream_with_what_there_was(void **state)
{
    struct answer_text a;
    struct engine_event ev;
    struct err e = {0};
    struct engine_job_params p = long_params();
    struct engine_job *j = submit(&p);
    do
        assert_int_equal(engine_next(j, &ev, 60000, &e), 1);
    while (ev.type != ENGINE_TOKENS);
    assert_true(engine_cancel(j, &e));
    assert_true(answer_read(j, &a));
    assert_true(a.done);
    assert_int_equal(a.last.finish, ENGINE_CANCELLED);
    assert_true(a.last.usage.completion_tokens > 0 && a.last.usage.completion_tokens < 490);
    assert_true(engine_cancel(j, &e)); /* too late is no error */
    engine_close(&j);
}

static void test_detached_job_outlives_its_connection(void **state)
{
    struct answer_text direct, one, two;
    struct err e = {0};
    struct engine_job_params p = hello_params(60);
    struct engine_job *j = submit(&p);
    assert_true(answer_read(j, &direct));
    engine_close(&j);
    p.detached = true;
    strcpy(p.key, "message-1");
    j = submit(&p);
    engine_close(&j);
    struct engine_job *a = engine_attach(engine.socket, "message-1", &e);
    struct engine_job *b = engine_attach(engine.socket, "message-1", &e);
    assert_non_null(a);
    assert_non_null(b);
    assert_true(answer_read(a, &one));
    assert_true(answer_read(b, &two));
    assert_string_equal(one.text, direct.text);
    assert_string_equal(two.text, direct.text);
    engine_close(&a);
    engine_close(&b);
    a = engine_attach(engine.socket, "message-1",
                      &e); /* after the end: from the first event again */
    assert_non_null(a);
    assert_true(answer_read(a, &one));
    assert_string_equal(one.text, direct.text);
    engine_close(&a);
    assert_null(engine_attach(engine.socket, "message-2", &e));
    assert_int_equal(e.code, ERR_NOTFOUND);
}

static void test_jobs_are_cancelled_by_key_and_by_id(void **state)
{
    struct answer_text a;
    struct err e = {0};
    char id[32];
    struct engine_job_params p = long_params();
    p.detached = true;
    strcpy(p.key, "by-key");
    struct engine_job *j = submit(&p);
    assert_null(engine_submit(engine.socket, &p, &e)); /* the key is taken */
    assert_int_equal(e.code, ERR_CONFLICT);
    assert_true(engine_cancel_key(engine.socket, "by-key", &e));
    assert_true(answer_read(j, &a));
    assert_int_equal(a.last.finish, ENGINE_CANCELLED);
    engine_close(&j);
    p = long_params();
    j = submit(&p);
    snprintf(id, sizeof id, "#%llu", (unsigned long long)engine_job_id(j));
    assert_true(engine_cancel_key(engine.socket, id, &e));
    assert_true(answer_read(j, &a));
    assert_int_equal(a.last.finish, ENGINE_CANCELLED);
    engine_close(&j);
    assert_false(engine_cancel_key(engine.socket, "#999999", &e));
    assert_int_equal(e.code, ERR_NOTFOUND);
}

static void refuse(struct engine_job_params p, enum err_code code, const char *words)
{
    struct err e = {0};
    assert_null(engine_submit(engine.socket, &p, &e));
    assert_int_equal(e.code, code);
    assert_non_null(strstr(e.text, words));
}

static void test_wrong_jobs_are_refused_with_the_reason(void **state)
{
    static int32_t many[600];
    int32_t outside[2] = {5, 8192};
    struct engine_job_params p = hello_params(5);
    p.prompt = many;
    p.n_prompt = 600;
    refuse(p, ERR_LIMIT, "600 tokens, the context holds 512");
    p.prompt = outside;
    p.n_prompt = 2;
    refuse(p, ERR_INPUT, "token 1 is 8192");
    p = hello_params(5);
    p.sampling.temperature = -1;
    refuse(p, ERR_INPUT, "-1");
}

static void test_full_queue_refuses_and_recovers(void **state)
{
    enum { N = 84 }; /* 4 slots, 80 places in the queue */
    struct engine_job *jobs[N + 8] = {0};
    struct engine_job_params p = long_params();
    struct status_page page;
    struct err e = {0};
    int n = 0;
    do
        p.user = (uint64_t)n + 1; /* together they fill it, no one alone */
    while (n < N + 8 && (jobs[n] = engine_submit(engine.socket, &p, &e)) != NULL && ++n);
    assert_int_equal(e.code, ERR_BUSY);
    assert_non_null(strstr(e.text, "80 jobs are waiting already"));
    assert_true(n >= 80 && n <= N);
    for (int i = 0; i < n; i++)
        engine_close(&jobs[i]);
    assert_true(engine_process_wait_idle(&engine, &page));
    assert_true(page.jobs_refused > 0);
}

static void test_one_user_cannot_fill_the_queue(void **state)
{
    enum { SLOTS = 4, SHARE = 20 }; /* of 80 places */
    struct engine_job *jobs[SLOTS + SHARE + 8] = {0};
    struct engine_job_params p = long_params();
    struct status_page page;
    struct err e = {0};
    int n = 0;
    p.user = 1;
    while (n < SLOTS + SHARE + 8 && (jobs[n] = engine_submit(engine.socket, &p, &e)) != NULL)
        n++;
    assert_int_equal(e.code, ERR_BUSY);
    assert_string_equal(e.field, ENGINE_OWN_JOBS);
    assert_non_null(strstr(e.text, "20 of your jobs are waiting already"));
    assert_true(n >= SHARE && n <= SLOTS + SHARE);
    p = hello_params(5);
    p.user = 2;
    struct engine_job *other = submit(&p);
    struct answer_text a;
    assert_true(answer_read(other, &a));
    assert_true(a.done);
    assert_true(status_read(engine.status, &page, &e));
    assert_true(page.jobs_running + page.jobs_waiting > SHARE / 2); /* long before they end */
    engine_close(&other);
    for (int i = 0; i < n; i++)
        engine_close(&jobs[i]);
    assert_true(engine_process_wait_idle(&engine, &page));
}

static void test_idle_engine_uses_no_cpu_and_keeps_its_heartbeat(void **state)
{
    struct status_page page;
    struct err e = {0};
    assert_true(engine_process_wait_idle(&engine, &page));
    double before = process_cpu_seconds(engine.pid), beat = page.heartbeat, begun = clock_ms();
    poll(NULL, 0, 2200);
    while (page.heartbeat <= beat + 0.9 && clock_ms() < begun + PATIENCE_MS) {
        poll(NULL, 0, 50);
        assert_true(status_read(engine.status, &page, &e));
    }
    assert_true(page.heartbeat > beat + 0.9);
    assert_true(process_cpu_seconds(engine.pid) - before <= 0.025 * (clock_ms() - begun) / 1000);
    assert_int_equal(page.connections, 0);
}

static void test_killed_engine_is_noticed_by_its_clients(void **state)
{
    struct answer_text a;
    struct status_page page;
    struct err e = {0};
    struct engine_job_params p = long_params();
    struct engine_job *j = submit(&p);
    assert_int_equal(engine_process_end(&engine, SIGKILL), 128 + SIGKILL);
    assert_false(answer_read(j, &a));
    engine_close(&j);
    assert_true(status_read(engine.status, &page, &e));
    assert_int_equal(page.state, ENGINE_DOWN);
    assert_null(engine_submit(engine.socket, &p, &e));
    assert_int_equal(e.code, ERR_UNAVAILABLE);
}

static void test_sigterm_finishes_what_fits_the_grace(void **state)
{
    struct answer_text a;
    struct status_page page;
    struct err e = {0};
    struct engine_job_params p = hello_params(50), longer = long_params();
    struct engine_job *quick = submit(&p), *slow = submit(&longer);
    kill(engine.pid, SIGTERM);
    assert_true(answer_read(quick, &a));
    assert_true(a.done && a.last.finish == ENGINE_STOP_EOS);
    assert_true(answer_read(slow, &a));
    assert_true(a.done); /* at its length or cancelled, as fast as this machine is */
    engine_close(&quick);
    engine_close(&slow);
    assert_int_equal(engine_process_end(&engine, 0), 0);
    assert_null(engine_submit(engine.socket, &p, &e)); /* the file may be left: engine_walls.h */
    assert_int_equal(e.code, ERR_UNAVAILABLE);
    assert_true(status_read(engine.status, &page, &e));
    assert_int_equal(page.state, ENGINE_DOWN);
}

static void test_broken_model_ends_with_a_reason(void **state)
{
    struct engine_process other;
    struct status_page page;
    struct err e = {0};
    const char *const extra[] = {"--model", "/nowhere", NULL};
    assert_true(engine_process_start(&other, extra));
    assert_int_equal(engine_process_end(&other, 0), 1);
    assert_true(status_read(other.status, &page, &e));
    assert_int_equal(page.state, ENGINE_DOWN);
    assert_true(page.error[0] != 0);
    engine_process_remove(&other);
}

static void test_second_engine_does_not_disturb_the_first(void **state)
{
    struct engine_process other;
    struct status_page page;
    struct err e = {0};
    const char *const same_socket[] = {"--socket", engine.socket, NULL};
    const char *const same_status[] = {"--status", engine.status, NULL};
    assert_true(engine_process_start(&other, same_socket));
    assert_int_equal(engine_process_end(&other, 0), 1);
    engine_process_remove(&other);
    assert_true(engine_process_start(&other, same_status));
    assert_int_equal(engine_process_end(&other, 0), 1);
    assert_true(status_read(engine.status, &page, &e));
    assert_int_equal(page.state, ENGINE_READY);
    engine_process_remove(&other);
}

int main(void)
{
    const struct CMUnitTest shared[] = {
        cmocka_unit_test(test_ready_line_and_status_page_agree),
        cmocka_unit_test(test_answer_is_the_models),
        cmocka_unit_test(test_many_at_once_say_what_each_says_alone),
        cmocka_unit_test(test_closed_connection_cancels),
        cmocka_unit_test(test_cancel_ends_the_stream_with_what_there_was),
        cmocka_unit_test(test_detached_job_outlives_its_connection),
        cmocka_unit_test(test_jobs_are_cancelled_by_key_and_by_id),
        cmocka_unit_test(test_wrong_jobs_are_refused_with_the_reason),
        cmocka_unit_test(test_full_queue_refuses_and_recovers),
        cmocka_unit_test(test_one_user_cannot_fill_the_queue),
        cmocka_unit_test(test_idle_engine_uses_no_cpu_and_keeps_its_heartbeat),
        cmocka_unit_test(test_second_engine_does_not_disturb_the_first),
    };
    const struct CMUnitTest own[] = {
        cmocka_unit_test_setup_teardown(test_killed_engine_is_noticed_by_its_clients, start_engine,
                                        remove_engine),
        cmocka_unit_test_setup_teardown(test_sigterm_finishes_what_fits_the_grace, start_engine,
                                        remove_engine),
        cmocka_unit_test(test_broken_model_ends_with_a_reason),
    };
    int failed = cmocka_run_group_tests(shared, start_engine, stop_engine);
    return failed + cmocka_run_group_tests(own, NULL, NULL);
}
