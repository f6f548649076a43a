/* fcgi/process/stream_abort.c: the master ends the stream of a process that died, and nobody
 * else's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>

#include "fcgi/http/dialect.h"
#include "fcgi/ollama/ollama.h"
#include "fcgi/process/stream_abort.h"

static struct stream_abort abort_master;
static int nginx_end; /* the other end of the connection that a child accepted */

/* A child accepts for the slot, hands over, and dies: its own descriptor closes. */
static void accept_and_die(int slot, int request)
{
    int fd[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fd), 0);
    stream_abort_hand_over(abort_master.child_fd, slot, fd[0], request);
    close(fd[0]);
    nginx_end = fd[1];
}

static int set_up(void **state)
{
    struct err e = {0};
    return stream_abort_init(&abort_master, &e) ? 0 : -1;
}

static int tear_down(void **state)
{
    stream_abort_fini(&abort_master);
    close(nginx_end);
    return 0;
}

/* Reads one record; the content is cut to `size` - 1 and ended with a NUL. Returns the type, 0 at
 * the end. */
static int read_record(int request, char *content, size_t size)
{
    unsigned char head[8], body[1024];
    ssize_t n = recv(nginx_end, head, sizeof head, MSG_WAITALL);
    if (n == 0)
        return 0;
    assert_int_equal(n, 8);
    assert_int_equal(head[0], 1);
    assert_int_equal(head[2] << 8 | head[3], request);
    size_t len = (size_t)(head[4] << 8 | head[5]);
    assert_true(len < sizeof body && len < size);
    assert_int_equal(len ? recv(nginx_end, body, len, MSG_WAITALL) : 0, len);
    memcpy(content, body, len);
    content[len] = '\0';
    return head[1];
}

static void test_an_open_stream_gets_its_error_event(void **state)
{
    char text[1024];
    accept_and_die(7, 300);
    stream_abort_collect(&abort_master);
    stream_abort_end(&abort_master, 7, STREAM_OPEN, dialect_stream_abort(0));
    assert_int_equal(read_record(300, text, sizeof text), 6);
    assert_memory_equal(text, "data: {\"error\":", 15);
    assert_non_null(strstr(text, "\n\ndata: [DONE]\n\n"));
    assert_int_equal(read_record(300, text, sizeof text), 6);
    assert_string_equal(text, "");
    assert_int_equal(read_record(300, text, sizeof text), 3);
    assert_int_equal(read_record(300, text, sizeof text), 0);
}

static void test_each_dialect_has_its_own_error_event(void **state)
{
    static const char *const begin[] = {"data: {\"error\":{",
                                        "event: error\ndata: {\"type\":\"error\",\"code\":",
                                        "event: error\ndata: {\"type\":\"error\",\"error\":{",
                                        "data: {\"error\":{", "{\"error\":\""};
    for (int i = 0; api_dialects[i]; i++) {
        char text[1024];
        accept_and_die(3, 9);
        stream_abort_collect(&abort_master);
        stream_abort_end(&abort_master, 3, STREAM_OPEN, dialect_stream_abort(i));
        assert_int_equal(read_record(9, text, sizeof text), 6);
        assert_string_equal(text, api_dialects[i]->stream_abort.error_event); /* none is cut */
        assert_string_equal(text + strlen(text) - 2,
                            api_dialects[i]->stream_abort.close_event ? "\n\n" : "}\n");
        if (i < (int)(sizeof begin / sizeof begin[0]))
            assert_memory_equal(text, begin[i], strlen(begin[i]));
        assert_int_equal(strstr(text, "[DONE]") != NULL, i == 0);
        if (api_dialects[i + 1])
            close(nginx_end);
    }
    assert_string_equal(dialect_stream_abort(-1), dialect_stream_abort(0));
    assert_string_equal(dialect_stream_abort(99), dialect_stream_abort(0));
}

static void test_a_half_written_event_is_ended_first(void **state)
{
    char text[1024];
    accept_and_die(0, 1);
    stream_abort_collect(&abort_master);
    stream_abort_end(&abort_master, 0, STREAM_WRITING, dialect_stream_abort(0));
    assert_int_equal(read_record(1, text, sizeof text), 6);
    assert_string_equal(text, ":\n\n"); /* a comment, where the event turns out to be whole */
    assert_int_equal(read_record(1, text, sizeof text), 6);
    assert_memory_equal(text, "data: ", 6);
}

/* Readers of lines know no comments, and stumble over an empty line. */
static void test_lines_are_ended_without_a_comment(void **state)
{
    char text[1024];
    accept_and_die(0, 1);
    stream_abort_collect(&abort_master);
    stream_abort_end(&abort_master, 0, STREAM_WRITING, &ollama_dialect.stream_abort);
    assert_int_equal(read_record(1, text, sizeof text), 6);
    assert_memory_equal(text, "{\"error\":", 9);
}

static void test_without_a_stream_the_connection_just_closes(void **state)
{
    char text[1024];
    accept_and_die(5, 1);
    stream_abort_collect(&abort_master);
    stream_abort_end(&abort_master, 5, STREAM_NONE, dialect_stream_abort(0));
    assert_int_equal(read_record(1, text, sizeof text), 0);
    stream_abort_end(&abort_master, 5, STREAM_OPEN,
                     dialect_stream_abort(0)); /* nothing is there any more */
}

static void test_the_next_connection_replaces_the_last(void **state)
{
    char text[1024];
    accept_and_die(5, 1);
    int first = nginx_end;
    accept_and_die(5, 2);
    stream_abort_collect(&abort_master);
    char byte;
    assert_int_equal(recv(first, &byte, 1, MSG_DONTWAIT), 0); /* closed without a word */
    close(first);
    stream_abort_end(&abort_master, 5, STREAM_OPEN, dialect_stream_abort(0));
    assert_int_equal(read_record(2, text, sizeof text), 6);
}

static void test_nonsense_is_thrown_away(void **state)
{
    assert_int_equal(send(abort_master.child_fd, "xyz", 3, 0), 3);
    assert_int_equal(send(abort_master.child_fd, "12345678", 8, 0), 8); /* no descriptor */
    stream_abort_hand_over(abort_master.child_fd, SHARED_CHILDREN, 0, 1);
    stream_abort_hand_over(abort_master.child_fd, -1, 0, 1);
    stream_abort_collect(&abort_master);
    accept_and_die(1, 1);
    stream_abort_collect(&abort_master);
    assert_true(abort_master.connections[1].fd >= 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_an_open_stream_gets_its_error_event, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_each_dialect_has_its_own_error_event, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_a_half_written_event_is_ended_first, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_lines_are_ended_without_a_comment, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_without_a_stream_the_connection_just_closes, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_the_next_connection_replaces_the_last, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_nonsense_is_thrown_away, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
