/* fcgi/process/local_model.c: whose a detached job is, and which models of the list are opened. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/base/err.h"
#include "engine/base/file.h"
#include "fcgi/process/local_model.h"
#include "fcgi/process/state.h"

static void test_a_jobs_key_says_which_engine_has_it(void **state)
{
    (void)state;
    const struct worker w = {
        .engine_run = "/run/x", .engine_socket = "/run/x/engine.sock", .relay_socket = "relay"};
    const struct worker second = {
        .first = &w, .engine_run = "/run/x", .engine_socket = "/run/x/model-3.sock"};
    const struct {
        const char *key;
        int64_t id;
        const char *socket;
    } rows[] = {{"m3:abc", 3, "/run/x/model-3.sock"},
                {"m12345:abc", 12345, "/run/x/model-12345.sock"},
                {"m3abc", 0, "/run/x/engine.sock"},
                {"m-3:abc", 0, "/run/x/engine.sock"},
                {"m0:abc", 0, "/run/x/engine.sock"},
                {"mAbc:", 0, "/run/x/engine.sock"},
                {"abc", 0, "/run/x/engine.sock"},
                {"", 0, "/run/x/engine.sock"},
                {"up:abc", 0, "relay"}};
    char at[WORKER_SOCKET_BYTES];
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_int_equal(local_model_of_job(rows[i].key), rows[i].id);
        assert_string_equal(worker_job_socket(&w, rows[i].key, at), rows[i].socket);
    }
    /* the first model's jobs are the first one's, whichever model the request is for */
    assert_string_equal(worker_job_socket(&second, "abc", at), "/run/x/engine.sock");
}

/* Writes the list into the folder, and reads it. */
static void read_list(struct worker *w, const char *text)
{
    char path[512];
    struct err e = {0};
    snprintf(path, sizeof path, "%s/%s", w->run_dir, STATE_LOCAL_MODELS);
    assert_true(file_write_atomic(path, text, strlen(text), 0600, &e));
    assert_true(local_models_open(w, &e));
}

static void test_a_model_that_cannot_be_opened_has_a_worker_without_text(void **state)
{
    (void)state;
    char dir[] = "/tmp/local-XXXXXX", text[512];
    assert_non_null(mkdtemp(dir));
    struct worker w = {.run_dir = dir, .engine_run = dir, .cache_dir = dir, .n_locals = -1};
    struct err e = {0};
    assert_true(local_models_open(&w, &e));
    assert_int_equal(w.n_locals, -1); /* no list: nobody runs engines */
    snprintf(text, sizeof text,
             "{\"pid\":%d,\"models\":[{\"id\":7,\"name\":\"x\",\"path\":\"/nowhere\"},{\"id\":8}]}",
             (int)getpid());
    read_list(&w, text);
    assert_int_equal(w.n_locals, 1);
    const struct worker *m = local_model_of(&w, 7);
    assert_non_null(m);
    assert_null(m->text);
    assert_string_equal(m->model_id, "x");
    assert_ptr_equal(m->first, &w);
    assert_ptr_equal(local_model_of(m, 7), m); /* also asked of itself */
    assert_null(local_model_of(&w, 8));
    read_list(&w,
              "{\"pid\":2147483646,\"models\":[{\"id\":7,\"name\":\"x\",\"path\":\"/nowhere\"}]}");
    assert_int_equal(w.n_locals, -1); /* of a `sluice up` that was killed */
    local_models_close(&w);
    snprintf(text, sizeof text, "%s/%s", dir, STATE_LOCAL_MODELS);
    unlink(text);
    rmdir(dir);
}

static void test_a_changed_list_opens_only_what_is_new_in_it(void **state)
{
    (void)state;
    char dir[] = "/tmp/local-XXXXXX", model[512], line[640], text[2048];
    const char *top = getenv("srcdir");
    assert_non_null(mkdtemp(dir));
    snprintf(model, sizeof model, "%s/engine/demo-model", top ? top : ".");
    struct worker w = {.pool = POOL_STREAM, .run_dir = dir, .engine_run = dir, .n_locals = -1};
    snprintf(line, sizeof line, "{\"id\":7,\"name\":\"x\",\"path\":\"%s\"}", model);
    snprintf(text, sizeof text, "{\"pid\":%d,\"models\":[%s]}", (int)getpid(), line);
    read_list(&w, text);
    const struct text_model *first = local_model_of(&w, 7)->text;
    assert_non_null(first);
    snprintf(text, sizeof text,
             "{\"pid\":%d,\"models\":[{\"id\":3,\"name\":\"y\",\"path\":\"%s\"},%s]}",
             (int)getpid(), model, line);
    read_list(&w, text);
    assert_int_equal(w.n_locals, 2);
    assert_ptr_equal(local_model_of(&w, 7)->text, first);
    assert_non_null(local_model_of(&w, 3)->text);
    assert_ptr_not_equal(local_model_of(&w, 3)->text, first);
    struct worker recorder = w;
    recorder.pool = POOL_RECORD;
    recorder.locals = NULL;
    recorder.n_locals = -1;
    struct err e = {0};
    assert_true(local_models_open(&recorder, &e));
    assert_int_equal(recorder.n_locals, -1); /* it reads no text */
    local_models_close(&w);
    snprintf(text, sizeof text, "%s/%s", dir, STATE_LOCAL_MODELS);
    unlink(text);
    rmdir(dir);
}

static void test_those_who_wait_are_counted_while_they_live(void **state)
{
    (void)state;
    struct shared *s = calloc(1, sizeof *s);
    assert_non_null(s);
    struct shared_child *c = s->pool[POOL_STREAM].child;
    for (int i = 0; i < 4; i++) {
        c[i].pid = getpid();
        c[i].state = CHILD_BUSY;
        c[i].waits_local = i > 0;
    }
    assert_int_equal(local_models_waiting(s), 3);
    c[2].state = CHILD_NONE; /* as its master leaves it */
    c[2].pid = 0;
    assert_int_equal(local_models_waiting(s), 2);
    assert_true(shared_row_claim(&c[2], getpid()));
    c[2].state = CHILD_BUSY; /* the row's next process, which does not wait */
    assert_int_equal(local_models_waiting(s), 2);
    free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_jobs_key_says_which_engine_has_it),
        cmocka_unit_test(test_a_changed_list_opens_only_what_is_new_in_it),
        cmocka_unit_test(test_those_who_wait_are_counted_while_they_live),
        cmocka_unit_test(test_a_model_that_cannot_be_opened_has_a_worker_without_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
