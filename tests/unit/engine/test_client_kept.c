/* The client's kept connection to the relay: when it is used again, and when a request is sent
 * anew. The relay here is a thread that answers, or closes before or after it has read. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "engine/engine.h"
#include "engine/wire/message.h"

enum turn { ANSWER, READ_AND_CLOSE, CLOSE_UNREAD };

struct relay {
    pthread_t thread;
    int listener, connections, requests; /* what came, once the thread has ended */
    enum turn turns[8];                  /* one a request */
    int n_turns, at;
    char folder[32], path[64];
};

static double later_ms;

double __real_clock_ms(void);
double __wrap_clock_ms(void);

double __wrap_clock_ms(void)
{
    return __real_clock_ms() + later_ms;
}

/* False: the other end has closed. */
static bool read_request(int fd, struct buf *in)
{
    struct frame f;
    size_t used;
    for (;;) {
        struct err e = {0};
        while (frame_parse(in->data, in->len, &f, &used, &e) == 1) {
            const bool whole = f.type == FRAME_RELAY;
            buf_consume(in, used);
            if (whole)
                return true;
        }
        char some[4096];
        const ssize_t n = recv(fd, some, sizeof some, 0);
        if (n <= 0)
            return false;
        buf_append(in, some, (size_t)n);
    }
}

static void answer(int fd)
{
    struct buf out = {0};
    message_put_hello(&out, "relay");
    message_put_event(&out, &(struct engine_event){.type = ENGINE_ACCEPTED, .job = 1});
    message_put_event(&out, &(struct engine_event){.type = ENGINE_DONE, .job = 1});
    send(fd, out.data, out.len, MSG_NOSIGNAL);
    buf_fini(&out);
}

static void serve(struct relay *r, int fd)
{
    struct buf in = {0};
    while (r->at < r->n_turns) {
        char first;
        if (recv(fd, &first, 1, MSG_PEEK) <= 0)
            break;
        const enum turn turn = r->turns[r->at++];
        if (turn == CLOSE_UNREAD || !read_request(fd, &in))
            break;
        r->requests++;
        if (turn == READ_AND_CLOSE)
            break;
        answer(fd);
    }
    close(fd);
    buf_fini(&in);
}

static void *run(void *context)
{
    struct relay *r = context;
    while (r->at < r->n_turns) {
        const int fd = accept(r->listener, NULL, NULL);
        if (fd < 0)
            break;
        r->connections++;
        serve(r, fd);
    }
    return NULL;
}

static void begin(struct relay *r, const enum turn *turns, int n)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    *r = (struct relay){.folder = "/tmp/client_kept.XXXXXX", .n_turns = n};
    memcpy(r->turns, turns, (size_t)n * sizeof *turns);
    later_ms = 0;
    assert_non_null(mkdtemp(r->folder));
    snprintf(r->path, sizeof r->path, "%s/relay", r->folder);
    strcpy(address.sun_path, r->path);
    r->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(r->listener, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(r->listener, 8), 0);
    assert_int_equal(pthread_create(&r->thread, NULL, run, r), 0);
}

static void end(struct relay *r)
{
    shutdown(r->listener, SHUT_RDWR);
    pthread_join(r->thread, NULL);
    close(r->listener);
    unlink(r->path);
    rmdir(r->folder);
}

/* True: the job was taken, and done. */
static bool ask(const struct relay *r, struct engine_job **kept, struct err *e)
{
    static const char request[] = "{\"messages\":[]}";
    const struct engine_relay p = {
        .model = 1, .upstream = -1, .request = request, .n_request = sizeof request - 1};
    struct engine_event ev = {0};
    struct engine_job *j = engine_relay(r->path, &p, kept, e);
    const bool done = j && engine_next(j, &ev, 5000, e) == 1 &&
                      (ev.type != ENGINE_ACCEPTED || engine_next(j, &ev, 5000, e) == 1) &&
                      ev.type == ENGINE_DONE;
    engine_close(&j);
    return done;
}

static void test_sends_again_only_what_was_not_read(void **state)
{
    static const enum turn turns[] = {ANSWER, CLOSE_UNREAD, ANSWER, READ_AND_CLOSE, ANSWER};
    struct engine_job *kept = NULL;
    struct err e = {0};
    struct relay r;
    (void)state;
    begin(&r, turns, 5);
    assert_true(ask(&r, &kept, &e));
    assert_non_null(kept);
    assert_true(ask(&r, &kept, &e)); /* closed unread: another connection takes it */
    assert_non_null(kept);
    assert_false(ask(&r, &kept, &e)); /* read: it may have gone on to an upstream */
    assert_int_equal(e.code, ERR_UNAVAILABLE);
    engine_kept_close(&kept);
    end(&r);
    assert_int_equal(r.requests, 3);
    assert_int_equal(r.connections, 2);
}

static void test_gives_up_a_connection_that_is_too_old(void **state)
{
    static const enum turn turns[] = {ANSWER, ANSWER, ANSWER};
    struct engine_job *kept = NULL;
    struct err e = {0};
    struct relay r;
    (void)state;
    begin(&r, turns, 3);
    for (int i = 0; i < 3; i++, later_ms += 60000)
        assert_true(ask(&r, &kept, &e));
    engine_kept_close(&kept);
    end(&r);
    assert_int_equal(r.requests, 3);
    assert_int_equal(r.connections, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sends_again_only_what_was_not_read),
        cmocka_unit_test(test_gives_up_a_connection_that_is_too_old),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
