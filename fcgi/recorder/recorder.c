/* recorder.h: one loop over the table, the engine's connections and the clock. */
#define LOG_MODULE "recorder"
#include "fcgi/recorder/recorder.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/file.h"
#include "engine/base/log.h"
#include "fcgi/auth/limits.h"
#include "fcgi/auth/usage_ledger.h"
#include "fcgi/process/local_model.h"
#include "fcgi/process/state.h"
#include "fcgi/process/worker.h"
#include "fcgi/recorder/audit_ship.h"
#include "fcgi/recorder/audit_suppressed.h"
#include "fcgi/recorder/recorder_answer.h"
#include "fcgi/recorder/db_maintenance.h"
#include "fcgi/recorder/cache_followers.h"
#include "fcgi/recorder/passage_follower.h"
#include "fcgi/status/history_sample.h"
#include "sql/core/store.h"

#define MAX_ANSWERS 4096 /* at once; the rest waits in the table */
#define LOOK_BUSY_MS 250.0
#define LOOK_IDLE_MS 1000.0
#define SLACK_MS                                                                                   \
    100.0 /* answers due this soon go with the others, so that their ticks fall together */
#define RETRY_MS 1000.0   /* after a write that failed */
#define CATCH_UP_MS 500.0 /* at the end, for answers whose engine does not answer */
#define CATCH_UP_POLL_MS 10
#define READ_EVENTS 256 /* of one answer before the others have their turn */
#define SAMPLE_MS 1000.0

struct recorder {
    const struct recorder_params *p;
    struct store *store;
    int signal_fd, notify_fd, lock_fd;
    struct recorder_answer *answers[MAX_ANSWERS];
    int n;
    bool look_now, more_to_read, stopping;
    bool failing, uncounted; /* the last write did not work */
    double next_look, retry_at, next_sample, next_suppressed, next_usage;
    struct db_maintenance maintenance;
    struct audit_ship audit;
    struct cache_followers prompts;
    struct passage_follower *passages; /* NULL: nothing embeds */
    struct history *history;           /* NULL: none is kept */
    struct history_source source;
};

/* ---- the table ---- */

static void forget(struct recorder *r, int i)
{
    recorder_answer_close(r->answers[i]);
    free(r->answers[i]);
    r->answers[i] = r->answers[--r->n];
}

static bool see_row(void *context, const struct store_running *row)
{
    struct recorder *r = context;
    struct recorder_answer *a = NULL;
    for (int i = 0; i < r->n && !a; i++)
        if (r->answers[i]->id == row->id)
            a = r->answers[i];
    if (!a) {
        if (r->n == MAX_ANSWERS)
            return false;
        a = calloc(1, sizeof *a);
        if (!a || !recorder_answer_open(a, row)) {
            free(a);
            return false; /* no memory now; the next look finds it again */
        }
        r->answers[r->n++] = a;
    }
    a->seen = true;
    if (row->removed && !a->cancelled && a->job && !a->asked) { /* else at a later look */
        struct err e = {0};
        a->cancelled = engine_cancel(a->job, &e);
    }
    return true;
}

static void look(struct recorder *r, double now)
{
    struct err e = {0};
    for (int i = 0; i < r->n; i++)
        r->answers[i]->seen = false;
    bool ok = store_running_list(r->store, see_row, r, &e);
    if (!ok)
        log_error("the list of running answers can't be read: %s", e.text);
    /* What is no longer running in the table was ended by someone else, or removed. A list cut
     * short says nothing. */
    for (int i = r->n - 1; ok && r->n < MAX_ANSWERS && i >= 0; i--)
        if (!r->answers[i]->seen)
            forget(r, i);
    r->look_now = false;
    r->next_look = now + (r->n ? LOOK_BUSY_MS : LOOK_IDLE_MS);
}

/* ---- writing ---- */

static bool write_all(struct recorder *r, bool *gone, double until, struct err *e)
{
    for (int i = 0; i < r->n; i++) {
        gone[i] = false;
        if (recorder_answer_due(r->answers[i]) <= until &&
            !recorder_answer_write(r->answers[i], r->store, &gone[i], e))
            return false;
    }
    return true;
}

static void write_failed(struct recorder *r, const struct err *e, double now)
{
    store_record_undo(r->store);
    if (!r->failing)
        log_error("answers can't be written, trying on: %s", e->text);
    r->failing = true;
    r->retry_at = now + RETRY_MS;
}

/* All answers that are due, in one transaction; on the disk when one of them ends. */
static void tick(struct recorder *r, double now)
{
    static bool gone[MAX_ANSWERS]; /* the only thread */
    struct err e = {0};
    const double until = now + SLACK_MS;
    bool due = false, durable = false;
    for (int i = 0; i < r->n; i++) {
        due |= recorder_answer_due(r->answers[i]) <= now;
        durable |=
            recorder_answer_due(r->answers[i]) <= until && recorder_answer_final(r->answers[i]);
    }
    if (!due || now < r->retry_at)
        return;
    if (!store_record_begin(r->store, durable, &e) || !write_all(r, gone, until, &e) ||
        !store_record_end(r->store, &e)) {
        write_failed(r, &e, now);
        return;
    }
    if (r->failing)
        log_info("answers are written again");
    r->failing = false;
    for (int i = r->n - 1; i >= 0; i--) {
        struct recorder_answer *a = r->answers[i];
        if (recorder_answer_due(a) > until)
            continue;
        recorder_answer_written(a, now);
        if (recorder_answer_final(a) && !gone[i] && r->p->shared)
            limits_spend_user(r->p->shared, r->store, a->user_id, generation_spent(&a->g));
        if (recorder_answer_final(a))
            log_info("message=%lld job=%s tokens=%d state=%s", (long long)a->id, a->key,
                     a->g.n_tokens,
                     a->g.state == GENERATION_DONE ? engine_finish_name(a->g.finish) : "failed");
        if (gone[i] || recorder_answer_final(a))
            forget(r, i);
    }
}

/* ---- the charts and usage ---- */

static void note_history(struct recorder *r, double now)
{
    struct history_sample sample;
    if (!r->history || now < r->next_sample)
        return;
    history_sample_take(&r->source, &sample);
    history_add(r->history, &sample);
    r->next_sample = now + SAMPLE_MS;
}

static void count_usage(struct recorder *r, double now)
{
    struct err e = {0};
    if (!r->p->shared || now < r->next_usage)
        return;
    const bool counted = usage_ledger_count(r->p->shared, r->store, &e);
    if (!counted && !r->uncounted)
        log_error("what answers used can't be counted, trying on: %s", e.text);
    r->uncounted = !counted;
    r->next_usage = now + SAMPLE_MS / 2;
}

/* ---- the audit log ---- */

static void keep_audit(struct recorder *r, double now)
{
    if (r->p->shared && now >= r->next_suppressed) {
        audit_suppressed_tell(r->store, r->p->shared, clock_wall_ms());
        r->next_suppressed = now + SAMPLE_MS;
    }
    audit_ship_run(&r->audit, now);
}

/* ---- the loop ---- */

static int wait_ms(const struct recorder *r, double now)
{
    double until = r->next_look;
    if (r->look_now || r->more_to_read)
        return 0;
    if (db_maintenance_next(&r->maintenance) < until)
        until = db_maintenance_next(&r->maintenance);
    if (cache_followers_next(&r->prompts) < until)
        until = cache_followers_next(&r->prompts);
    if (r->history && r->next_sample < until)
        until = r->next_sample;
    for (int i = 0; i < r->n; i++) {
        const struct recorder_answer *a = r->answers[i];
        double at = recorder_answer_due(a);
        if (at < r->retry_at)
            at = r->retry_at;
        if (!a->job && !recorder_answer_final(a) && a->next_attach < at)
            at = a->next_attach;
        if (at < until)
            until = at;
    }
    return until <= now ? 1 : (int)(until - now) + 1;
}

static void drain_notifications(struct recorder *r)
{
    char text[64];
    while (recv(r->notify_fd, text, sizeof text, MSG_DONTWAIT) >= 0) {
        r->look_now = true;
        db_maintenance_request(&r->maintenance);
        cache_followers_request(&r->prompts);
    }
}

/* [r->n], in the order of the answers. */
static void poll_answers(const struct recorder *r, struct pollfd *fds)
{
    for (int i = 0; i < r->n; i++)
        fds[i] = (struct pollfd){.fd = r->answers[i]->job ? engine_job_fd(r->answers[i]->job) : -1,
                                 .events = POLLIN};
}

static void wait_for_work(struct recorder *r)
{
    static struct pollfd fds[2 + CACHE_FOLLOWERS + MAX_ANSWERS];
    fds[0] = (struct pollfd){.fd = r->signal_fd, .events = POLLIN};
    fds[1] = (struct pollfd){.fd = r->notify_fd, .events = POLLIN};
    cache_followers_poll(&r->prompts, fds + 2);
    poll_answers(r, fds + 2 + CACHE_FOLLOWERS);
    if (poll(fds, (nfds_t)r->n + 2 + CACHE_FOLLOWERS, wait_ms(r, clock_ms())) <= 0)
        return;
    if (fds[0].revents)
        r->stopping = true;
    if (fds[1].revents)
        drain_notifications(r);
}

static void attach(struct recorder *r, struct recorder_answer *a, double now)
{
    char socket[WORKER_SOCKET_BYTES], status[WORKER_SOCKET_BYTES];
    const int64_t local = local_model_of_job(a->key);
    if (!local) {
        const char *at = worker_job_relayed(a->key) ? r->p->relay_socket : r->p->engine_socket;
        recorder_answer_attach(a, at, r->p->status_path, now);
        return;
    }
    local_model_socket(socket, r->p->engine_run, local);
    local_model_status(status, r->p->engine_run, local);
    recorder_answer_attach(a, socket, status, now);
}

static void read_answers(struct recorder *r, double now)
{
    r->more_to_read = false;
    for (int i = 0; i < r->n; i++) {
        attach(r, r->answers[i], now);
        r->more_to_read |= recorder_answer_read(r->answers[i], READ_EVENTS);
    }
}

/* Reads everything that the engine has sent, for every answer that is still running. */
static bool caught_up(const struct recorder *r)
{
    for (int i = 0; i < r->n; i++) {
        const struct recorder_answer *a = r->answers[i];
        if (!recorder_answer_final(a) && (!a->job || a->asked))
            return false;
    }
    return !r->more_to_read;
}

/* What clients have seen until now is kept, even where the engine is told to stop as well: answers
 * that are not followed yet are taken up, and what lies in the sockets is read. */
static void catch_up(struct recorder *r)
{
    static struct pollfd fds[MAX_ANSWERS];
    const double until = clock_ms() + CATCH_UP_MS;
    look(r, clock_ms());
    for (;;) {
        read_answers(r, clock_ms());
        if (caught_up(r) || clock_ms() >= until)
            return;
        poll_answers(r, fds);
        poll(fds, (nfds_t)r->n, r->more_to_read ? 0 : CATCH_UP_POLL_MS);
    }
}

static void loop(struct recorder *r)
{
    db_maintenance_init(&r->maintenance, r->store, clock_ms());
    audit_ship_init(&r->audit, r->store, r->p->audit_log);
    cache_followers_init(&r->prompts,
                         &(struct cache_followers_params){.store = r->store,
                                                          .shared = r->p->shared,
                                                          .engine_socket = r->p->engine_socket,
                                                          .status_path = r->p->status_path,
                                                          .engine_run = r->p->engine_run});
    while (!r->stopping) {
        double now = clock_ms();
        if (r->look_now || now >= r->next_look)
            look(r, now);
        read_answers(r, now);
        tick(r, clock_ms());
        db_maintenance_run(&r->maintenance, r->n > 0, clock_ms());
        cache_followers_run(&r->prompts, clock_ms());
        note_history(r, clock_ms());
        keep_audit(r, clock_ms());
        count_usage(r, clock_ms());
        wait_for_work(r);
    }
    catch_up(r);
    /* What was read is not to be read again; answers that go on are taken up by the next recorder.
     */
    for (int i = 0; i < r->n; i++)
        r->answers[i]->next_write = 0;
    r->retry_at = 0;
    tick(r, clock_ms());
    count_usage(r, INFINITY);
    r->audit.next = 0;
    keep_audit(r, clock_ms());
    cache_followers_fini(&r->prompts);
    db_maintenance_finish(&r->maintenance);
}

/* ---- start ---- */

/* Waits for the recorder before this one to end. False also when told to stop meanwhile. */
static bool take_lock(struct recorder *r, struct err *e)
{
    char path[4096];
    const char *db = r->p->db_path, *slash = strrchr(db, '/');
    const int folder = slash ? (int)(slash - db) + 1 : 0; /* the lock lies beside the database */
    if (snprintf(path, sizeof path, "%.*s%s", folder, db, STATE_RECORD_LOCK) >= (int)sizeof path)
        return err_set(e, ERR_LIMIT, "the path of %s is too long", STATE_RECORD_LOCK);
    r->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (r->lock_fd < 0)
        return err_errno(e, "%s", path);
    for (bool told = false; flock(r->lock_fd, LOCK_EX | LOCK_NB) != 0; told = true) {
        if (errno != EWOULDBLOCK && errno != EINTR)
            return err_errno(e, "%s", path);
        if (!told)
            log_info("another recorder is at work; waiting");
        struct pollfd stop = {.fd = r->signal_fd, .events = POLLIN};
        if (poll(&stop, 1, 200) > 0)
            return err_set(e, ERR_CANCELLED, "told to stop");
    }
    return true;
}

static bool socket_address(struct sockaddr_un *a, const char *run_dir, struct err *e)
{
    *a = (struct sockaddr_un){.sun_family = AF_UNIX};
    return file_join(a->sun_path, sizeof a->sun_path, run_dir, STATE_RECORD_SOCKET, e);
}

/* Without it, answers are found by looking: slower, not wrong. */
static void listen_for_notifications(struct recorder *r)
{
    struct sockaddr_un a;
    struct err e = {0};
    r->notify_fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    bool ok = socket_address(&a, r->p->run_dir, &e);
    if (ok) {
        unlink(a.sun_path);
        ok = r->notify_fd >= 0 && bind(r->notify_fd, (struct sockaddr *)&a, sizeof a) == 0 &&
             chmod(a.sun_path, 0660) == 0;
    }
    if (!ok)
        log_warn("no notifications: %s", e.text[0] ? e.text : strerror(errno));
}

static void *check_database(void *path)
{
    struct err e = {0};
    double began = clock_ms();
    struct store *s = store_open(&(struct store_params){.path = path}, &e);
    if (s && store_quick_check(s, &e))
        log_info("quick_check=ok ms=%.0f", clock_ms() - began);
    else
        log_error("quick_check: %s", e.text);
    store_close(&s);
    return NULL;
}

/* Reads the whole file, so it must not hold up the answers. */
static void start_check(const char *db_path)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, check_database, (void *)db_path) == 0)
        pthread_detach(thread);
    if (store_sqlite_warning())
        log_warn("sqlite=%s: %s", store_sqlite_version(), store_sqlite_warning());
}

/* Charts without a past are no reason not to write answers. */
static void open_history(struct recorder *r)
{
    struct err e = {0};
    if (!r->p->history_path || !r->p->shared)
        return;
    r->source = (struct history_source){.status_path = r->p->status_path, .shared = r->p->shared};
    r->history = history_open(r->p->history_path, &e);
    if (!r->history)
        log_warn("no history for the charts: %s", e.text);
}

static bool open_signals(struct recorder *r, struct err *e)
{
    sigset_t mask;
    sigemptyset(&mask);
    sigaddset(&mask, SIGTERM);
    sigaddset(&mask, SIGUSR2);
    pthread_sigmask(SIG_BLOCK, &mask, NULL);
    r->signal_fd = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
    return r->signal_fd >= 0 || err_errno(e, "signalfd");
}

int recorder_run(const struct recorder_params *p)
{
    struct recorder *r = calloc(1, sizeof *r);
    struct err e = {0};
    if (!r)
        return 1;
    *r = (struct recorder){.p = p, .signal_fd = -1, .notify_fd = -1, .lock_fd = -1};
    bool ok =
        open_signals(r, &e) && take_lock(r, &e) &&
        (r->store = store_open(
             &(struct store_params){.path = p->db_path, .create = true, .checkpointer = true}, &e));
    if (ok) {
        start_check(p->db_path);
        listen_for_notifications(r);
        open_history(r);
        if (p->embeds)
            r->passages = passage_follower_start(&(struct passage_follower_params){
                .db_path = p->db_path, .model = p->embeds, .status_path = p->status_path});
        loop(r);
        passage_follower_stop(&r->passages);
    } else if (e.code != ERR_CANCELLED) {
        log_error("%s", e.text);
    } else {
        ok = true;
    }
    while (r->n)
        forget(r, r->n - 1);
    history_close(&r->history);
    store_close(&r->store);
    for (int i = 0; i < 3; i++) {
        int fd = i == 0 ? r->signal_fd : i == 1 ? r->notify_fd : r->lock_fd;
        if (fd >= 0)
            close(fd);
    }
    free(r);
    return ok ? 0 : 1;
}

void recorder_notify(const char *run_dir, int64_t message_id)
{
    struct sockaddr_un a;
    char text[32];
    int n = snprintf(text, sizeof text, "%lld", (long long)message_id);
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return;
    if (socket_address(&a, run_dir, NULL))
        sendto(fd, text, (size_t)n, MSG_DONTWAIT | MSG_NOSIGNAL, (struct sockaddr *)&a, sizeof a);
    close(fd);
}
