/* An engine without a model, for tests of what stands before it: takes sluice-engine's arguments,
 * speaks its protocol, and answers as the last user message orders: the text after "fake:" in the
 * prompt is a JSON object
 *   {"text": what to say, "prefill_ms", "token_ms", "finish": "stop"|"length", "refuse": error
 * code's name, "fail_after": tokens before an error event, "die_after": tokens before the
 * connection breaks, "say_prompt": true: the answer is the prompt's own text, "say_cache": true: it
 * is what the job says of the prompt cache, "cached", "from_ram", "from_disk": tokens of the usage,
 * "steps": [what to say first, what after one tool's result behind the order, after two, ...]: an
 * agent's loop, "when": {words: what to say instead if they stand in the prompt, ...}: the last
 * that fits counts; the first letter of the words is written as \u00XX, or the order itself would
 * hold them}. Without an order it says "ok". A model folder with a file fake-refuses is not loaded;
 * in one with a file fake-context prompts longer than its configuration's context are refused, as
 * an engine does. One process per connection; detached jobs: fake_detached.h. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/json/json.h"
#include "engine/text/text_model.h"
#include "engine/tokenizer/detokenizer.h"
#include "engine/wire/message.h"
#include "engine/wire/status.h"
#include "tests/api/fake_detached.h"

#define PREFILL_STEP_MS 100

#define CANCEL_LOOK_MS 10

struct fake {
    int fd; /* -1: the client of a detached job has gone */
    const char *folder;
    struct fake_detached detached; /* when job.detached */
    uint64_t id;
    struct text_model *text;
    struct engine_job_params job;
    struct arena *arena;
    const char *say, *finish, *refuse;
    int64_t prefill_ms, token_ms, fail_after, die_after;
    int64_t cached, from_ram, from_disk;
    char cache_words[160];
};

static const char *argument(int argc, char **argv, const char *name)
{
    for (int i = 1; i + 1 < argc; i++)
        if (!strcmp(argv[i], name))
            return argv[i + 1];
    fprintf(stderr, "scripted_engine: %s is needed\n", name);
    exit(2);
}

/* The client has gone: so does the job, unless it was detached. */
static void client_left(struct fake *f)
{
    if (!f->job.detached)
        _exit(0);
    close(f->fd);
    f->fd = -1;
}

static void send_buf(struct fake *f, struct buf *b)
{
    for (size_t at = 0; f->fd >= 0 && at < b->len;) {
        ssize_t n = send(f->fd, b->data + at, b->len - at, MSG_NOSIGNAL);
        if (n <= 0)
            client_left(f);
        else
            at += (size_t)n;
    }
    buf_clear(b);
}

static void send_event(struct fake *f, struct engine_event *ev)
{
    struct buf b = {0};
    ev->job = f->id;
    message_put_event(&b, ev);
    if (f->job.detached)
        fake_detached_note(&f->detached, &b);
    send_buf(f, &b);
    buf_fini(&b);
}

/* Sleeps; ends with the client, or true when it asked to cancel. */
static bool rest(struct fake *f, int64_t ms)
{
    double until = clock_ms() + (double)ms;
    do {
        struct pollfd p = {.fd = f->fd, .events = POLLIN};
        double left = until - clock_ms();
        if (f->job.detached && fake_detached_cancelled(&f->detached))
            return true;
        if (f->job.detached && left > CANCEL_LOOK_MS)
            left = CANCEL_LOOK_MS;
        if (poll(&p, 1, left > 0 ? (int)left : 0) <= 0)
            continue;
        char bytes[256];
        if (recv(f->fd, bytes, sizeof bytes, 0) > 0)
            return true; /* the only frame that a client sends now is CANCEL */
        client_left(f);
    } while (clock_ms() < until);
    return false;
}

static int32_t context; /* tokens that a prompt may have; 0: any number */

/* Which step it is is counted by the results that the template shows behind the order; the last
 * step holds on. */
static void take_step(struct fake *f, const cJSON *steps, const char *order)
{
    int n = 0;
    for (const char *at = order; (at = strstr(at, "<tool_response>")); at++)
        n++;
    const int last = cJSON_GetArraySize(steps) - 1;
    const char *text = cJSON_GetStringValue(cJSON_GetArrayItem(steps, n < last ? n : last));
    if (text)
        f->say = text;
}

/* What the prompt says elsewhere, such as a request to sum the conversation up, may change the
 * answer. */
static void take_words(struct fake *f, const cJSON *when, const char *prompt)
{
    for (const cJSON *o = when ? when->child : NULL; o; o = o->next)
        if (cJSON_IsString(o) && strstr(prompt, o->string))
            f->say = o->valuestring;
}

static void read_cache(struct fake *f, const cJSON *o)
{
    struct err e = {0};
    bool say = false;
    json_get_bool(o, "say_cache", &say, &e);
    json_get_int(o, "cached", 0, 1 << 20, &f->cached, &e);
    json_get_int(o, "from_ram", 0, 1 << 20, &f->from_ram, &e);
    json_get_int(o, "from_disk", 0, 1 << 20, &f->from_disk, &e);
    snprintf(f->cache_words, sizeof f->cache_words, "owner=%s keep=%lld scope=%s",
             f->job.cache_owner, (long long)f->job.cache_keep_seconds, f->job.scope);
    if (say)
        f->say = f->cache_words;
}

/* The order in the prompt. */
static void read_order(struct fake *f)
{
    struct detokenizer d;
    struct buf text = {0};
    struct err e = {0};
    f->say = "ok";
    f->finish = "stop";
    f->refuse = "";
    f->fail_after = f->die_after = -1;
    detokenizer_init(&d, f->text->vocab, false);
    for (int32_t i = 0; i < f->job.n_prompt; i++)
        detokenizer_push(&d, f->job.prompt[i], &text);
    char *order = NULL, *end = NULL;
    for (char *at = text.data; at && (at = strstr(at, "fake:{")); at += 5)
        order = at + 5;
    for (char *at = order; at && (at = strchr(at, '}')); at++) {
        cJSON *o = json_parse(order, (size_t)(at + 1 - order), NULL, &e);
        end = at + 1;
        if (!o)
            continue;
        bool say_prompt = false;
        json_get_bool(o, "say_prompt", &say_prompt, &e);
        if (say_prompt)
            f->say = text.data; /* lives as long as this process */
        read_cache(f, o);
        json_get_string(o, "text", &f->say, &e);
        take_step(f, json_member(o, "steps"), order);
        take_words(f, json_member(o, "when"), text.data);
        json_get_string(o, "finish", &f->finish, &e);
        json_get_string(o, "refuse", &f->refuse, &e);
        json_get_int(o, "prefill_ms", 0, 600000, &f->prefill_ms, &e);
        json_get_int(o, "token_ms", 0, 600000, &f->token_ms, &e);
        json_get_int(o, "fail_after", 0, 1 << 20, &f->fail_after, &e);
        json_get_int(o, "die_after", 0, 1 << 20, &f->die_after, &e);
        break; /* the tree lives as long as this process */
    }
    (void)end;
}

static enum err_code code_of(const char *name)
{
    for (int i = 0; i < ERR__N; i++)
        if (!strcmp(err_code_name((enum err_code)i), name))
            return (enum err_code)i;
    return ERR_INTERNAL;
}

static bool prefill(struct fake *f)
{
    for (int64_t at = 0; at < f->prefill_ms; at += PREFILL_STEP_MS) {
        send_event(f,
                   &(struct engine_event){.type = ENGINE_PROGRESS,
                                          .total = f->job.n_prompt,
                                          .done = (int32_t)(f->job.n_prompt * at / f->prefill_ms)});
        if (rest(f, PREFILL_STEP_MS))
            return false;
    }
    return true;
}

static void fill_token(struct engine_token *t, int32_t id, int n_top)
{
    *t = (struct engine_token){.id = id, .logprob = -0.5f, .n_top = n_top};
    for (int k = 0; k < n_top; k++) {
        t->top[k].id = k == 0 ? id : k;
        t->top[k].logprob = -0.5f - (float)k;
    }
}

static void answer(struct fake *f)
{
    struct ids ids = {0};
    struct detokenizer d;
    struct buf piece = {0};
    struct err e = {0};
    bool cancelled = !prefill(f);
    double began = clock_ms();
    int32_t n = 0;
    tokenizer_encode(
        f->text->tokenizer,
        &(struct tokenizer_input){.text = f->say, .len = strlen(f->say), .mode = TOKENIZE_SPECIAL},
        &ids, &e);
    detokenizer_init(&d, f->text->vocab, f->job.special_text);
    for (; !cancelled && n < (int32_t)ids.n && n < f->job.max_tokens; n++) {
        struct engine_token token;
        if (n == f->die_after)
            _exit(1);
        if (n == f->fail_after) {
            struct engine_event ev = {.type = ENGINE_FAILED};
            err_set(&ev.error, ERR_DEVICE, "the device was lost");
            send_event(f, &ev);
            return;
        }
        detokenizer_push(&d, ids.at[n], &piece);
        fill_token(&token, ids.at[n], f->job.top_logprobs > 0 ? f->job.top_logprobs : 0);
        send_event(f, &(struct engine_event){.type = ENGINE_TOKENS,
                                             .tokens = &token,
                                             .n_tokens = 1,
                                             .decode_ms = clock_ms() - began,
                                             .text = piece.data ? piece.data : "",
                                             .text_len = piece.len});
        buf_clear(&piece);
        cancelled = f->token_ms && rest(f, f->token_ms);
    }
    bool cut = n < (int32_t)ids.n || !strcmp(f->finish, "length");
    struct engine_event done = {.type = ENGINE_DONE,
                                .finish = cancelled ? ENGINE_CANCELLED
                                          : cut     ? ENGINE_LENGTH
                                                    : ENGINE_STOP_EOS,
                                .usage = {.prompt_tokens = f->job.n_prompt,
                                          .cached_tokens = (int32_t)f->cached,
                                          .cached_from_ram = (int32_t)f->from_ram,
                                          .cached_from_disk = (int32_t)f->from_disk,
                                          .cache_bytes = (uint64_t)f->from_disk * 1000,
                                          .cache_miss = "unknown",
                                          .completion_tokens = n,
                                          .prefill_ms = (double)f->prefill_ms,
                                          .decode_ms = clock_ms() - began}};
    send_event(f, &done);
}

/* A client that asks for another connection's job. */
static void serve_key(struct fake *f, const struct frame *frame)
{
    char key[ENGINE_KEY_SIZE];
    struct err e = {0};
    bool attach = frame->type == FRAME_ATTACH;
    if (!message_get_key(frame, key, &e))
        _exit(1);
    bool found =
        attach ? fake_detached_replay(f->folder, key, f->fd) : fake_detached_cancel(f->folder, key);
    struct engine_event ev = {.type = ENGINE_FAILED};
    err_set(&ev.error, ERR_NOTFOUND, "no job has this key");
    f->id = 0; /* a refusal, not the end of a job: who attaches too early asks again */
    if (!found)
        send_event(f, &ev);
    else if (!attach)
        send_event(f, &(struct engine_event){.type = ENGINE_ACCEPTED});
    _exit(0);
}

/* There is no cache on disk here, which the recorder asks for. */
static void refuse_follower(struct fake *f)
{
    struct engine_event ev = {.type = ENGINE_FAILED};
    f->id = 0;
    err_set(&ev.error, ERR_UNSUPPORTED, "this engine keeps no cache on disk");
    send_event(f, &ev);
    _exit(0);
}

/* Reads frames until SUBMIT came. */
static bool take_job(struct fake *f)
{
    struct buf in = {0}, out = {0};
    struct err e = {0};
    struct frame frame;
    size_t used;
    char bytes[65536];
    message_put_hello(&out, "fake-engine");
    /* who has left already may have asked for a cancel on the way */
    const bool left = send(f->fd, out.data, out.len, MSG_NOSIGNAL) < 0;
    buf_fini(&out);
    for (;;) {
        int got = frame_parse(in.data ? in.data : "", in.len, &frame, &used, &e);
        if (got < 0)
            return false;
        if (got == 1 && frame.type == FRAME_SUBMIT)
            return !left && message_get_submit(&frame, &f->job, f->arena, &e);
        if (got == 1 && (frame.type == FRAME_ATTACH || frame.type == FRAME_CANCEL))
            serve_key(f, &frame);
        if (got == 1 && frame.type == FRAME_CACHE_FOLLOW)
            refuse_follower(f);
        if (got == 1) {
            buf_consume(&in, used);
            continue;
        }
        ssize_t n = recv(f->fd, bytes, sizeof bytes, 0);
        if (n <= 0)
            return false;
        buf_append(&in, bytes, (size_t)n);
    }
}

static void serve(struct fake *f)
{
    if (!take_job(f))
        return;
    read_order(f);
    if (context && f->job.n_prompt >= context)
        f->refuse = "limit";
    if (*f->refuse) {
        struct engine_event ev = {.type = ENGINE_FAILED};
        f->id = 0; /* no job was made */
        err_set(&ev.error, code_of(f->refuse), "refused as ordered");
        send_event(f, &ev);
        return;
    }
    if (f->job.detached && !fake_detached_begin(&f->detached, f->folder, f->job.key))
        return;
    send_event(f, &(struct engine_event){.type = ENGINE_ACCEPTED, .queue_position = 0});
    answer(f);
    shutdown(f->fd, SHUT_WR);
    char rest_of_it[256];
    while (recv(f->fd, rest_of_it, sizeof rest_of_it, 0) > 0)
        ;
}

static int open_socket(const char *path)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    snprintf(a.sun_path, sizeof a.sun_path, "%s", path);
    unlink(path);
    if (fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof a) != 0 || listen(fd, 512) != 0) {
        perror(path);
        exit(1);
    }
    return fd;
}

static void publish(struct status_writer *w, const struct text_model *m, const char *path,
                    int running)
{
    struct status_page *p = status_begin(w);
    p->pid = getpid();
    p->heartbeat = (double)clock_wall_ms() / 1000;
    p->state = ENGINE_READY;
    p->n_ctx = context ? context : 4096;
    p->n_slots = 256;
    p->jobs_running = running;
    snprintf(p->model_path, sizeof p->model_path, "%s", path);
    snprintf(p->model_name, sizeof p->model_name, "%.127s", m->name);
    snprintf(p->backend, sizeof p->backend, "fake");
    snprintf(p->device, sizeof p->device, "none");
    status_end(w);
}

/* A process for the job. What holds for the engine is the engine's alone: its lock and its socket
 * must not outlive it because a job has not yet heard of its end. */
static bool start_job(struct fake *f)
{
    int alone[2]; /* closed by the job with all the rest, which is waited for */
    char none;
    if (pipe(alone) != 0)
        return false;
    const pid_t engine = getpid(), pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* kill -9 of the engine ends its jobs */
        close_range(STDERR_FILENO + 1, (unsigned)f->fd - 1, 0);
        close_range((unsigned)f->fd + 1, ~0U, 0);
        if (getppid() == engine)
            serve(f);
        _exit(0);
    }
    close(alone[1]);
    while (read(alone[0], &none, 1) < 0 && errno == EINTR) {
    }
    close(alone[0]);
    return pid > 0;
}

int main(int argc, char **argv)
{
    struct err e = {0};
    static struct text_model text;
    const char *path = argument(argc, argv, "--socket"), *model = argument(argc, argv, "--model");
    if (!text_model_open(&text, model, argument(argc, argv, "--cache-dir"), &e)) {
        fprintf(stderr, "scripted_engine: %s\n", e.text);
        return 1;
    }
    struct status_writer *w = status_create(argument(argc, argv, "--status"), &e);
    if (!w) {
        fprintf(stderr, "scripted_engine: %s\n", e.text);
        return 1;
    }
    char refuses[4096];
    snprintf(refuses, sizeof refuses, "%s/fake-refuses", model);
    char limits[4096];
    snprintf(limits, sizeof limits, "%s/fake-context", model);
    if (access(limits, F_OK) == 0)
        context = text.n_ctx;
    if (access(refuses, F_OK) ==
        0) { /* a model whose files are fine and that can't be loaded all the same */
        snprintf(status_begin(w)->error, 64, "it does not fit, as ordered");
        status_end(w);
        status_close(&w);
        return 1;
    }
    char *folder = strdup(path);
    if (folder && strrchr(folder, '/'))
        *strrchr(folder, '/') = '\0';
    int listening = open_socket(path), running = 0;
    for (uint64_t id = 1;;) {
        publish(w, &text, model, running);
        struct pollfd p = {.fd = listening, .events = POLLIN};
        int n = poll(&p, 1, 200);
        while (waitpid(-1, NULL, WNOHANG) > 0)
            running--;
        if (n <= 0)
            continue;
        struct fake f = {.fd = accept(listening, NULL, NULL),
                         .id = id++,
                         .text = &text,
                         .folder = folder,
                         .arena = arena_create(0)};
        if (f.fd < 0 || !f.arena)
            continue;
        if (start_job(&f))
            running++;
        close(f.fd);
        arena_destroy(&f.arena);
    }
}
