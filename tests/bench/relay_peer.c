/* Both ends of relay.mjs, fast enough not to be what is measured: one thread and one epoll each.
 *
 *   relay_peer serve
 *       an upstream on a port of its own, which it prints. "TOKENS PAUSE_US FIRST_US" in a chat's
 * message orders so many pieces, so far apart, the first one after FIRST_US of computing (0: at
 * once, or where there are pauses somewhere in one); each holds the time at which it was written,
 * "@NANOSECONDS ". relay_peer ask PORT STREAMS REQUESTS TOKENS "PAUSE_US FIRST_US" MODEL KEY asks
 * so many times on each of so many connections, and prints as JSON how long whole answers and their
 * pieces took. The clock is the machine's, the same for both ends. */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#define MOST 1024              /* connections */
#define ROOM ((size_t)1 << 20) /* bytes of a request, or of an answer that is not yet read */

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void fail(const char *what)
{
    perror(what);
    exit(1);
}

static void write_all(int fd, const char *data, size_t len)
{
    while (len) {
        const ssize_t n = send(fd, data, len, MSG_NOSIGNAL);
        if (n <= 0)
            return; /* whoever asked has gone, and reading says so */
        data += n;
        len -= (size_t)n;
    }
}

static void no_delay(int fd)
{
    const int one = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
}

static void watch(int epoll, int fd, uint64_t tag)
{
    struct epoll_event ev = {.events = EPOLLIN, .data.u64 = tag};
    if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &ev) != 0)
        fail("epoll_ctl");
}

/* ---- the upstream */

struct stream {
    int fd; /* 0: free */
    char *in;
    size_t len;
    int64_t tokens, pause, next; /* next: 0: it writes nothing now */
    bool begun;
};

static size_t put_chunk(char *out, const char *data)
{
    return (size_t)sprintf(out, "%zx\r\n%s\r\n", strlen(data), data);
}

/* What is due: a piece, or the end; the head goes with the first. */
static void write_due(struct stream *s)
{
    char out[2048], data[512];
    size_t n = 0;
    if (!s->begun)
        n = (size_t)sprintf(out, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
                                 "Transfer-Encoding: chunked\r\n\r\n");
    s->begun = true;
    if (s->tokens-- > 0) {
        snprintf(data, sizeof data,
                 "data: {\"id\":\"x\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":"
                 "\"m\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"@%lld \"},"
                 "\"finish_reason\":null}]}\n\n",
                 (long long)now_ns());
        n += put_chunk(out + n, data);
        s->next += s->pause;
        write_all(s->fd, out, n);
        return;
    }
    n +=
        put_chunk(out + n, "data: {\"id\":\"x\",\"object\":\"chat.completion.chunk\",\"created\":1,"
                           "\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{},"
                           "\"finish_reason\":\"stop\"}]}\n\n");
    n += put_chunk(out + n, "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":5,"
                            "\"completion_tokens\":1}}\n\n");
    n += put_chunk(out + n, "data: [DONE]\n\n");
    n += (size_t)sprintf(out + n, "0\r\n\r\n");
    write_all(s->fd, out, n);
    s->next = 0;
}

static void take_order(struct stream *s, const char *body)
{
    static const char mark[] = "\"content\":\"";
    const char *at = strstr(body, mark);
    char *more;
    s->begun = false;
    s->tokens = at ? strtoll(at + sizeof mark - 1, &more, 10) : 0;
    s->pause = at ? strtoll(more, &more, 10) * 1000 : 0;
    const int64_t first = at ? strtoll(more, NULL, 10) * 1000 : 0,
                  somewhere = (int64_t)((double)rand() / RAND_MAX * (double)s->pause);
    s->next = now_ns() + (first ? first : somewhere);
    while (s->next && !s->pause && !first)
        write_due(s);
}

/* One request at a time: nobody pipelines. */
static void take_request(struct stream *s)
{
    char *body = strstr(s->in, "\r\n\r\n"), *length;
    if (!body)
        return;
    length = strcasestr(s->in, "content-length:");
    const size_t head = (size_t)(body - s->in) + 4,
                 want = length && length < body ? strtoul(length + 15, NULL, 10) : 0;
    if (s->len < head + want)
        return;
    if (!strncmp(s->in, "GET ", 4)) {
        static const char list[] = "HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\n{\"data\":[]}";
        write_all(s->fd, list, sizeof list - 1);
    } else {
        take_order(s, body);
    }
    s->len = 0;
}

static void serve_stream(struct stream *s)
{
    const ssize_t n = recv(s->fd, s->in + s->len, ROOM - 1 - s->len, MSG_DONTWAIT);
    if (n <= 0) {
        close(s->fd);
        free(s->in);
        *s = (struct stream){0};
        return;
    }
    s->len += (size_t)n;
    s->in[s->len] = 0;
    take_request(s);
}

static void accept_stream(int listening, int epoll, struct stream all[MOST])
{
    const int fd = accept4(listening, NULL, NULL, SOCK_CLOEXEC);
    int i = 0;
    while (i < MOST && all[i].fd)
        i++;
    if (fd < 0 || i == MOST)
        fail("accept");
    no_delay(fd);
    all[i] = (struct stream){.fd = fd, .in = malloc(ROOM)};
    if (!all[i].in)
        fail("malloc");
    watch(epoll, fd, (uint64_t)i + 2);
}

static void set_timer(int timer, const struct stream all[MOST])
{
    int64_t least = 0;
    for (int i = 0; i < MOST; i++)
        if (all[i].next && (!least || all[i].next < least))
            least = all[i].next;
    const struct itimerspec at = {
        .it_value = {.tv_sec = least / 1000000000, .tv_nsec = least % 1000000000}};
    timerfd_settime(timer, TFD_TIMER_ABSTIME, &at, NULL);
}

static int serve(void)
{
    static struct stream all[MOST];
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t size = sizeof address;
    const int listening = socket(AF_INET, SOCK_STREAM, 0), epoll = epoll_create1(0),
              timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
    if (bind(listening, (struct sockaddr *)&address, sizeof address) || listen(listening, MOST) ||
        getsockname(listening, (struct sockaddr *)&address, &size))
        fail("listen");
    printf("%d\n", ntohs(address.sin_port));
    fflush(stdout);
    watch(epoll, listening, 0);
    watch(epoll, timer, 1);
    for (;;) {
        struct epoll_event ev[64];
        const int n = epoll_wait(epoll, ev, 64, -1);
        for (int i = 0; i < n; i++)
            if (ev[i].data.u64 == 0)
                accept_stream(listening, epoll, all);
            else if (ev[i].data.u64 >= 2 && all[ev[i].data.u64 - 2].fd)
                serve_stream(&all[ev[i].data.u64 - 2]);
        const int64_t now = now_ns();
        for (int i = 0; i < MOST; i++)
            if (all[i].next && all[i].next <= now)
                write_due(&all[i]);
        set_timer(timer, all);
    }
    return 0;
}

/* ---- the client */

struct times {
    double *at;
    size_t n, cap;
};

static void note(struct times *t, double us)
{
    if (t->n == t->cap) {
        t->cap = t->cap ? 2 * t->cap : 4096;
        t->at = realloc(t->at, t->cap * sizeof *t->at);
        if (!t->at)
            fail("realloc");
    }
    t->at[t->n++] = us;
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static void print_times(const char *name, struct times *t)
{
    static const struct {
        const char *name;
        double at;
    } parts[] = {{"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}, {"p999", 0.999}, {"max", 1}};
    qsort(t->at, t->n, sizeof *t->at, by_size);
    printf("\"%s\":{\"n\":%zu", name, t->n);
    for (size_t i = 0; t->n && i < sizeof parts / sizeof *parts; i++) {
        const size_t k = (size_t)(parts[i].at * (double)t->n);
        printf(",\"%s\":%.1f", parts[i].name, t->at[k < t->n ? k : t->n - 1]);
    }
    printf("}");
}

struct asker {
    int fd, left;
    int64_t began;
    char *in;
    size_t len, seen; /* seen: what was looked at for pieces */
    bool done;
};

struct load {
    char request[1024];
    size_t n_request;
    struct times whole, done, pieces; /* whole: to the end of HTTP's answer; done: to [DONE] */
    int64_t tokens, got;              /* got: pieces of all answers */
    int running;
};

static void ask_again(struct asker *a, const struct load *l)
{
    a->len = a->seen = 0;
    a->done = false;
    a->began = now_ns();
    write_all(a->fd, l->request, l->n_request);
}

static void take_pieces(struct asker *a, struct load *l, int64_t at)
{
    for (char *p; (p = memchr(a->in + a->seen, '@', a->len - a->seen)) != NULL;) {
        char *end;
        const int64_t written = strtoll(p + 1, &end, 10);
        if (end == a->in + a->len)
            return; /* the number goes on */
        a->seen = (size_t)(end - a->in);
        note(&l->pieces, (double)(at - written) / 1e3);
        l->got++;
    }
    a->seen = a->len;
}

static void take_answer(struct asker *a, struct load *l)
{
    const ssize_t n = recv(a->fd, a->in + a->len, ROOM - 1 - a->len, MSG_DONTWAIT);
    const int64_t at = now_ns();
    if (n <= 0)
        fail("the connection ended");
    a->len += (size_t)n;
    a->in[a->len] = 0;
    if (a->len > 12 && strncmp(a->in, "HTTP/1.1 200", 12) != 0) {
        fprintf(stderr, "%s\n", a->in);
        exit(1);
    }
    take_pieces(a, l, at);
    if (!a->done && memmem(a->in + a->len - (size_t)n, (size_t)n, "[DONE]", 6)) {
        a->done = true;
        note(&l->done, (double)(at - a->began) / 1e3);
    }
    if (a->len < 5 || memcmp(a->in + a->len - 5, "0\r\n\r\n", 5) != 0) {
        if (a->len > ROOM / 2 && a->seen == a->len) {
            memmove(a->in + 12, a->in + a->len - 8,
                    8); /* the status stays, and what may be the end's */
            a->len = a->seen = 20;
        }
        return;
    }
    note(&l->whole, (double)(at - a->began) / 1e3);
    if (--a->left > 0)
        ask_again(a, l);
    else
        l->running--;
}

static int connect_to(int port)
{
    const struct sockaddr_in address = {.sin_family = AF_INET,
                                        .sin_addr = {htonl(INADDR_LOOPBACK)},
                                        .sin_port = htons((uint16_t)port)};
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(fd, (const struct sockaddr *)&address, sizeof address))
        fail("connect");
    no_delay(fd);
    return fd;
}

static void make_request(struct load *l, char **words)
{
    char body[512];
    const int n = snprintf(body, sizeof body,
                           "{\"model\":\"%s\",\"stream\":true,\"messages\":[{\"role\":\"user\","
                           "\"content\":\"%s %s\"}]}",
                           words[6], words[4], words[5]);
    l->n_request = (size_t)snprintf(
        l->request, sizeof l->request,
        "POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer %s\r\n"
        "Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
        words[7], n, body);
}

static int ask(char **words)
{
    static struct asker all[MOST];
    struct load l = {.tokens = atoll(words[4])};
    const int streams = atoi(words[2]), requests = atoi(words[3]), epoll = epoll_create1(0);
    if (streams < 1 || streams > MOST || requests < 1)
        return 2;
    make_request(&l, words);
    for (int i = 0; i < streams; i++) {
        all[i] =
            (struct asker){.fd = connect_to(atoi(words[1])), .left = requests, .in = malloc(ROOM)};
        if (!all[i].in)
            fail("malloc");
        watch(epoll, all[i].fd, (uint64_t)i);
    }
    const int64_t began = now_ns();
    l.running = streams;
    for (int i = 0; i < streams; i++)
        ask_again(&all[i], &l);
    while (l.running) {
        struct epoll_event ev[64];
        const int n = epoll_wait(epoll, ev, 64, 60000);
        if (n <= 0)
            fail("no answer for a minute");
        for (int i = 0; i < n; i++)
            take_answer(&all[ev[i].data.u64], &l);
    }
    printf("{\"wall_ms\":%.1f,\"missing\":%lld,", (double)(now_ns() - began) / 1e6,
           (long long)(l.tokens * streams * requests - l.got));
    print_times("request_us", &l.whole);
    printf(",");
    print_times("done_us", &l.done);
    printf(",");
    print_times("piece_us", &l.pieces);
    printf("}\n");
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 2 && !strcmp(argv[1], "serve"))
        return serve();
    if (argc == 9 && !strcmp(argv[1], "ask"))
        return ask(argv + 1);
    fprintf(stderr,
            "usage: relay_peer serve | ask PORT STREAMS REQUESTS TOKENS PAUSE_US[ FIRST_US] "
            "MODEL KEY\n");
    return 2;
}
