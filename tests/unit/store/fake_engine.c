/* fake_engine.h: an engine whose jobs are known by heart. */
#include "tests/unit/store/fake_engine.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/wire/message.h"

#define MAX_CANCELLED 256

static struct {
    pthread_mutex_t lock;
    char key[MAX_CANCELLED][ENGINE_KEY_SIZE];
    int64_t at[MAX_CANCELLED];
    int n;
} cancelled = {.lock = PTHREAD_MUTEX_INITIALIZER};

struct script {
    int tokens, ms;
    char end;
    long long start;
};

static bool read_script(const char *key, struct script *s)
{
    return sscanf(key, "%*[^.].%d.%d.%c.%lld", &s->tokens, &s->ms, &s->end, &s->start) == 4 &&
           s->end != 'x';
}

static int piece(char *out, size_t size, int i)
{
    return snprintf(out, size, "%s%d ", i % 7 == 0 ? "\xc3\xa9" : "w", i);
}

void fake_engine_text(char *out, size_t size, int n)
{
    size_t len = 0;
    out[0] = 0;
    for (int i = 0; i < n; i++)
        len += (size_t)piece(out + len, size - len, i);
}

void fake_engine_key(char key[48], const char *name, int tokens, int ms, char end)
{
    snprintf(key, 48, "%s.%d.%d.%c.%lld", name, tokens, ms, end, (long long)clock_wall_ms());
}

/* When was it cancelled? INT64_MAX: not. */
static int64_t cancelled_at(const char *key)
{
    int64_t at = INT64_MAX;
    pthread_mutex_lock(&cancelled.lock);
    for (int i = 0; i < cancelled.n; i++)
        if (!strcmp(cancelled.key[i], key))
            at = cancelled.at[i];
    pthread_mutex_unlock(&cancelled.lock);
    return at;
}

static void cancel(const char *key)
{
    pthread_mutex_lock(&cancelled.lock);
    if (cancelled.n < MAX_CANCELLED) {
        snprintf(cancelled.key[cancelled.n], ENGINE_KEY_SIZE, "%s", key);
        cancelled.at[cancelled.n++] = clock_wall_ms();
    }
    pthread_mutex_unlock(&cancelled.lock);
}

static bool send_event(int fd, const struct engine_event *ev)
{
    struct buf b = {0};
    message_put_event(&b, ev);
    bool ok = send(fd, b.data, b.len, MSG_NOSIGNAL) == (ssize_t)b.len;
    buf_fini(&b);
    return ok;
}

static void send_end(int fd, const struct script *s, int n, bool stopped)
{
    struct engine_event ev = {.type = ENGINE_DONE, .job = 1};
    if (s->end == 'f' && !stopped) {
        ev.type = ENGINE_FAILED;
        err_set(&ev.error, ERR_DEVICE, "the device is lost");
    }
    ev.finish = stopped ? ENGINE_CANCELLED : s->end == 'l' ? ENGINE_LENGTH : ENGINE_STOP_EOS;
    ev.usage = (struct engine_usage){.prompt_tokens = 10,
                                     .cached_tokens = 4,
                                     .completion_tokens = n,
                                     .queue_ms = 1,
                                     .prefill_ms = 2,
                                     .decode_ms = 3,
                                     .prefill_tokens_per_s = 4,
                                     .decode_tokens_per_s = 5};
    send_event(fd, &ev);
}

/* Plays the job from its first event on, waiting for those that are still to come. */
static void play(int fd, const char *key)
{
    struct script s;
    char text[64];
    if (!read_script(key, &s)) {
        struct engine_event no = {.type = ENGINE_FAILED};
        err_set(&no.error, ERR_NOTFOUND, "unknown job");
        send_event(fd, &no);
        return;
    }
    if (!send_event(fd, &(struct engine_event){.type = ENGINE_ACCEPTED, .job = 1}) ||
        !send_event(
            fd, &(struct engine_event){.type = ENGINE_PROGRESS, .job = 1, .done = 10, .total = 10}))
        return;
    for (int i = 0; i < s.tokens; i++) {
        const int64_t due = s.start + (int64_t)i * s.ms;
        while (clock_wall_ms() < due && cancelled_at(key) > due) {
            if (recv(fd, text, sizeof text, MSG_DONTWAIT) > 0) /* all that can come now is CANCEL */
                cancel(key);
            usleep(1000);
        }
        if (cancelled_at(key) <= due) {
            send_end(fd, &s, i, true);
            return;
        }
        struct engine_token t = {.id = i};
        struct engine_event ev = {
            .type = ENGINE_TOKENS, .job = 1, .tokens = &t, .n_tokens = 1, .text = text};
        ev.text_len = (size_t)piece(text, sizeof text, i);
        if (!send_event(fd, &ev))
            return;
    }
    if (s.end != 'b')
        send_end(fd, &s, s.tokens, false);
}

static void *serve(void *argument)
{
    int fd = (int)(intptr_t)argument;
    struct buf in = {0}, out = {0};
    char chunk[4096], key[ENGINE_KEY_SIZE];
    struct frame f;
    size_t used;
    bool done = false;
    message_put_hello(&out, "fake");
    send(fd, out.data, out.len, MSG_NOSIGNAL);
    while (!done) {
        struct err e = {0};
        if (frame_parse(in.data ? in.data : "", in.len, &f, &used, &e) != 1) {
            ssize_t n = recv(fd, chunk, sizeof chunk, 0);
            if (n <= 0)
                break;
            buf_append(&in, chunk, (size_t)n);
            continue;
        }
        if (f.type == FRAME_ATTACH && message_get_key(&f, key, &e)) {
            play(fd, key);
            done = true;
        } else if (f.type == FRAME_CANCEL && message_get_key(&f, key, &e)) {
            cancel(key);
            send_event(fd, &(struct engine_event){.type = ENGINE_ACCEPTED, .job = 1});
            done = true;
        } else {
            buf_consume(&in, used);
        }
    }
    shutdown(fd, SHUT_WR);
    while (recv(fd, chunk, sizeof chunk, 0) > 0)
        ;
    close(fd);
    buf_fini(&in);
    buf_fini(&out);
    return NULL;
}

pid_t fake_engine_start(const char *socket_path)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    snprintf(a.sun_path, sizeof a.sun_path, "%s", socket_path);
    unlink(socket_path);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    if (bind(fd, (struct sockaddr *)&a, sizeof a) || listen(fd, 128))
        abort();
    pid_t pid = fork();
    if (pid) {
        close(fd);
        return pid;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGPIPE, SIG_IGN);
    for (;;) {
        pthread_t thread;
        int c = accept(fd, NULL, NULL);
        if (c >= 0 && pthread_create(&thread, NULL, serve, (void *)(intptr_t)c) == 0)
            pthread_detach(thread);
    }
}

void fake_engine_kill(pid_t pid)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}
