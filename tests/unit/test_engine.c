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
#include "tests/unit/engine_process.h"
#include "tests/unit/process_cpu.h"

static struct engine_process engine;

/* "<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n" of the golden greedy.json */
static const int32_t hello[] = {8184, 296, 198, 828, 8185, 198, 8184, 298, 198, 8186, 302, 8187, 302};
#define N_HELLO ((int32_t)(sizeof hello / sizeof hello[0]))

static int start_engine(void **state)
{
    const char *const extra[] = {"--ctx", "512", "--slots", "4", "--max-queue", "80", "--log-level", "warn", NULL};
    return engine_process_start(&engine, extra) && engine_process_wait_ready(&engine) ? 0 : -1;
}

static int remove_engine(void **state)
{
    engine_process_remove(&engine);
    return 0;
}

/* A clean end, so that a sanitizer can count what was never freed. */
static int stop_engine(void **state)
{
    int status = engine_process_end(&engine, SIGTERM);
    if (status != 0)
        fprintf(stderr, "sluice-engine ended with status %d\n", status);
    engine_process_remove(&engine);
    return status;
}

static struct engine_job_params hello_params(int32_t max_tokens)
{
    return (struct engine_job_params){.prompt = hello, .n_prompt = N_HELLO, .max_tokens = max_tokens, .top_logprobs = -1,
                                      .sampling = {.top_p = 1, .repetition_penalty = 1}};
}

static struct engine_job *submit(const struct engine_job_params *p)
{
    struct err e = {0};
    struct engine_job *j = engine_submit(engine.socket, p, &e);
    if (!j)
        fail_msg("%s", e.text);
    return j;
}

/* A job that goes on until it is stopped: 400 tokens take the cpu long enough. */
static struct engine_job_params long_params(void)
{
    struct engine_job_params p = hello_params(490);
    p.ignore_eos = true;
    return p;
}

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
    assert_int_equal(a.last.usage.completion_tokens, a.n_tokens + 1); /* the end's token is counted, not sent */
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
        p.user = (uint64_t)(i % 3);
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
    a = engine_attach(engine.socket, "message-1", &e); /* after the end: from the first event again */
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
    while (n < N + 8 && (jobs[n] = engine_submit(engine.socket, &p, &e)) != NULL)
        n++;
    assert_int_equal(e.code, ERR_BUSY);
    assert_non_null(strstr(e.text, "80 jobs are waiting already"));
    assert_true(n >= 80 && n <= N);
    for (int i = 0; i < n; i++)
        engine_close(&jobs[i]);
    assert_true(engine_process_wait_idle(&engine, &page));
    assert_true(page.jobs_refused > 0);
}

static int raw_connection(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    strcpy(address.sun_path, engine.socket);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    return fd;
}

/* Of those who gave up waiting for an engine that hung: a cancel is heard when it goes on, a job is not begun. */
static void test_who_left_is_heard_and_not_served(void **state)
{
    struct err e = {0};
    struct answer_text a;
    struct status_page before, after;
    struct buf out = {0};
    assert_true(engine_process_wait_idle(&engine, &before));
    struct engine_job_params p = long_params();
    p.detached = true;
    strcpy(p.key, "left-cancel");
    struct engine_job *j = submit(&p);
    kill(engine.pid, SIGSTOP);
    assert_int_equal(waitpid(engine.pid, NULL, WUNTRACED), engine.pid);
    assert_true(engine_cancel_async(engine.socket, p.key, &e));
    strcpy(p.key, "left-job");
    message_put_hello(&out, "test");
    assert_true(message_put_submit(&out, &p, &e));
    int fd = raw_connection();
    assert_int_equal(send(fd, out.data, out.len, MSG_NOSIGNAL), out.len);
    close(fd);
    buf_fini(&out);
    kill(engine.pid, SIGCONT);
    assert_true(answer_read(j, &a));
    assert_int_equal(a.last.finish, ENGINE_CANCELLED);
    engine_close(&j);
    assert_true(engine_process_wait_idle(&engine, &after));
    assert_int_equal(after.jobs_accepted, before.jobs_accepted + 1);
    assert_null(engine_attach(engine.socket, "left-job", &e));
    assert_int_equal(e.code, ERR_NOTFOUND);
}

static void test_garbage_ends_its_own_connection_only(void **state)
{
    struct answer_text a;
    unsigned seed = 1;
    for (int i = 0; i < 50; i++) {
        char bytes[256];
        int fd = raw_connection();
        for (size_t k = 0; k < sizeof bytes; k++) {
            seed = seed * 1103515245u + 12345;
            bytes[k] = (char)(seed >> 16);
        }
        if (i % 2)
            memcpy(bytes, "\x08\0\0\0\x01\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0", 20); /* a right HELLO first */
        send(fd, bytes, i % 3 ? sizeof bytes : (size_t)i, MSG_NOSIGNAL);
        shutdown(fd, SHUT_WR);
        while (recv(fd, bytes, sizeof bytes, 0) > 0)
            ;
        close(fd);
    }
    struct engine_job_params p = hello_params(5);
    struct engine_job *j = submit(&p);
    assert_true(answer_read(j, &a));
    assert_true(a.done);
    engine_close(&j);
}

static void test_reader_that_sleeps_does_not_stop_others(void **state)
{
    struct answer_text a;
    struct engine_job_params p = long_params();
    p.top_logprobs = 20;
    struct engine_job *sleeper = submit(&p); /* some 90 KiB of events that nobody reads now */
    struct engine_job_params other = hello_params(20);
    struct engine_job *j = submit(&other);
    assert_true(answer_read(j, &a));
    assert_true(a.done);
    engine_close(&j);
    assert_true(answer_read(sleeper, &a)); /* it finds everything later */
    assert_true(a.done);
    assert_int_equal(a.n_tokens, 490);
    engine_close(&sleeper);
}

static void test_random_disconnects_leave_nothing_behind(void **state)
{
    enum { N = 150 };
    struct engine_job *jobs[8] = {0};
    struct status_page page;
    struct engine_event ev;
    struct err e = {0};
    unsigned seed = 3;
    for (int i = 0; i < N; i++) {
        seed = seed * 1103515245u + 12345;
        unsigned dice = seed >> 16, at = dice % 8;
        if (jobs[at]) {
            if (dice & 8)
                engine_cancel(jobs[at], &e);
            if (dice & 16)
                engine_next(jobs[at], &ev, (int)(dice % 20), &e);
            engine_close(&jobs[at]);
        } else {
            struct engine_job_params p = dice & 32 ? long_params() : hello_params((int32_t)(dice % 10));
            p.user = dice % 3;
            p.detached = dice % 5 == 0;
            snprintf(p.key, sizeof p.key, "hammer-%d", i);
            jobs[at] = submit(&p);
            if (p.detached && dice & 64)
                assert_true(engine_cancel_key(engine.socket, p.key, &e));
        }
    }
    for (int i = 0; i < 8; i++)
        engine_close(&jobs[i]);
    for (int i = 0; i < N; i++) {
        char key[ENGINE_KEY_SIZE];
        snprintf(key, sizeof key, "hammer-%d", i);
        engine_cancel_key(engine.socket, key, &e);
    }
    assert_true(engine_process_wait_idle(&engine, &page));
    assert_int_equal(status_jobs_succeeded(page.jobs_done) + page.jobs_done[OUTCOME_FAILED], page.jobs_accepted);
    assert_int_equal(page.n_jobs, 0);
}

static void test_idle_engine_uses_no_cpu_and_keeps_its_heartbeat(void **state)
{
    struct status_page page;
    struct err e = {0};
    assert_true(engine_process_wait_idle(&engine, &page));
    double before = process_cpu_seconds(engine.pid), beat = page.heartbeat;
    poll(NULL, 0, 2200);
    assert_true(process_cpu_seconds(engine.pid) - before <= 0.05);
    assert_true(status_read(engine.status, &page, &e));
    assert_true(page.heartbeat > beat + 0.9);
    assert_int_equal(page.connections, 0);
}

static void test_without_descriptors_connections_wait_and_nothing_spins(void **state)
{
    struct rlimit old;
    struct answer_text a;
    struct engine_job_params p = hello_params(50);
    struct status_page page;
    assert_true(engine_process_wait_idle(&engine, &page));
    assert_int_equal(prlimit(engine.pid, RLIMIT_NOFILE, NULL, &old), 0);
    assert_int_equal(prlimit(engine.pid, RLIMIT_NOFILE, &(struct rlimit){.rlim_cur = 3, .rlim_max = old.rlim_max}, NULL), 0);
    int waiting = raw_connection();
    struct pollfd greeted = {.fd = waiting, .events = POLLIN};
    double before = process_cpu_seconds(engine.pid);
    assert_int_equal(poll(&greeted, 1, 1000), 0);
    assert_true(process_cpu_seconds(engine.pid) - before <= 0.1);
    assert_int_equal(prlimit(engine.pid, RLIMIT_NOFILE, &old, NULL), 0);
    assert_int_equal(poll(&greeted, 1, 10000), 1); /* HELLO */
    close(waiting);
    struct engine_job *j = submit(&p);
    assert_true(answer_read(j, &a) && a.done);
    engine_close(&j);
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
    double before = clock_ms();
    assert_null(engine_submit(engine.socket, &p, &e));
    assert_int_equal(e.code, ERR_UNAVAILABLE);
    assert_true(clock_ms() - before < 2500);
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
    assert_true(access(engine.socket, F_OK) != 0);
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
        cmocka_unit_test(test_who_left_is_heard_and_not_served),
        cmocka_unit_test(test_garbage_ends_its_own_connection_only),
        cmocka_unit_test(test_reader_that_sleeps_does_not_stop_others),
        cmocka_unit_test(test_random_disconnects_leave_nothing_behind),
        cmocka_unit_test(test_idle_engine_uses_no_cpu_and_keeps_its_heartbeat),
        cmocka_unit_test(test_without_descriptors_connections_wait_and_nothing_spins),
        cmocka_unit_test(test_second_engine_does_not_disturb_the_first),
    };
    const struct CMUnitTest own[] = {
        cmocka_unit_test_setup_teardown(test_killed_engine_is_noticed_by_its_clients, start_engine, remove_engine),
        cmocka_unit_test_setup_teardown(test_sigterm_finishes_what_fits_the_grace, start_engine, remove_engine),
        cmocka_unit_test(test_broken_model_ends_with_a_reason),
    };
    int failed = cmocka_run_group_tests(shared, start_engine, stop_engine);
    return failed + cmocka_run_group_tests(own, NULL, NULL);
}
