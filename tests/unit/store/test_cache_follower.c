/* The recorder's part of the prompt cache against the engine's own server and feed, behind which
 * stands a folder of records in memory: whatever is killed, rows and records end up the same. */
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/cache/disk/record_feed.h"
#include "engine/sched/server.h"
#include "fcgi/process/local_model.h"
#include "fcgi/recorder/cache_followers.h"
#include "sql/prompts/store_prompt_cache.h"
#include "tests/unit/store/store_fixture.h"
#include "tests/unit/support/patience.h"

#define RECORDS 4096
#define KILLS 25
#define BUDGET 1000000

struct rig { /* an engine that keeps records */
    struct fixture *f;
    char socket[300], status_path[300];
    struct inbox inbox;
    struct status_writer *status;
    struct record_feed *feed;
    struct server *server;
    pthread_t thread;
    pthread_mutex_t lock;
    bool there[RECORDS];    /* by offset */
    bool at_begin[RECORDS]; /* of a reconciliation */
    bool listed[RECORDS];
    int reconciled;
};

static void wake_server(void *context)
{
    server_wake(context);
}

static void put(struct rig *g, enum cache_event_type type, const struct stored_ref *ref)
{
    struct cache_event ev = {.type = type};
    if (ref) {
        ev.key = ref->key;
        ev.place = ref->place;
    }
    assert_true(record_feed_put(g->feed, &ev));
}

static void reconcile(struct rig *g, const struct record_request *r)
{
    for (int32_t i = 0; i < r->n; i++) {
        g->listed[r->refs[i].place.offset] = true;
        if (!g->there[r->refs[i].place.offset])
            put(g, CACHE_GONE, &r->refs[i]);
    }
    if (r->type == RECORD_RECONCILE_BEGIN) {
        memcpy(g->at_begin, g->there, sizeof g->there);
        memset(g->listed, 0, sizeof g->listed);
    }
    for (int i = 0; r->type == RECORD_RECONCILE_END && i < RECORDS; i++)
        g->there[i] &= !g->at_begin[i] || g->listed[i];
    if (r->type == RECORD_RECONCILE_END) {
        g->reconciled++;
        put(g, CACHE_RECONCILED, NULL);
    }
}

static void take_requests(void *context)
{
    struct rig *g = context;
    struct record_request *r;
    pthread_mutex_lock(&g->lock);
    while ((r = record_feed_take(g->feed))) {
        for (int32_t i = 0; r->type == RECORD_FORGET && i < r->n; i++) {
            g->there[r->refs[i].place.offset] = false;
            assert_true(record_feed_put(g->feed, &(struct cache_event){.type = CACHE_FORGOTTEN,
                                                                       .key = r->refs[i].key,
                                                                       .place = r->refs[i].place,
                                                                       .model = r->model}));
        }
        if (r->type != RECORD_FORGET)
            reconcile(g, r);
        free(r);
    }
    pthread_mutex_unlock(&g->lock);
}

/* Blocks of 1000 bytes in chains of ten. */
static void store_record(struct rig *g, int i, int64_t user, const char *owner)
{
    struct cache_event ev = {.type = CACHE_STORED,
                             .place = {0, 1000, (uint64_t)i},
                             .end = 32 * (i % 10 + 1),
                             .identity = 5,
                             .user = (uint64_t)user,
                             .compute_ms = 1};
    snprintf((char *)ev.key.bytes, sizeof ev.key.bytes, "block %d", i);
    snprintf((char *)ev.parent.bytes, sizeof ev.parent.bytes, "block %d", i % 10 ? i - 1 : -1);
    snprintf(ev.owner, sizeof ev.owner, "%s", owner);
    pthread_mutex_lock(&g->lock);
    g->there[i] = true;
    assert_true(record_feed_put(g->feed, &ev));
    pthread_mutex_unlock(&g->lock);
}

static int records(struct rig *g)
{
    int n = 0;
    pthread_mutex_lock(&g->lock);
    for (int i = 0; i < RECORDS; i++)
        n += g->there[i];
    pthread_mutex_unlock(&g->lock);
    return n;
}

static void *serve(void *server)
{
    server_run(server);
    return NULL;
}

/* Its server does not run yet: like an engine that hangs. */
static struct rig *open_rig(struct fixture *f)
{
    struct err e = {0};
    struct rig *g = calloc(1, sizeof *g);
    *g = (struct rig){.f = f, .lock = PTHREAD_MUTEX_INITIALIZER};
    snprintf(g->socket, sizeof g->socket, "%s/engine.sock", f->folder);
    snprintf(g->status_path, sizeof g->status_path, "%s/status", f->folder);
    inbox_init(&g->inbox);
    g->status = status_create(g->status_path, &e);
    g->feed = record_feed_create(&e);
    g->server = server_open(&(struct server_params){.socket_path = g->socket,
                                                    .group = (gid_t)-1,
                                                    .inbox = &g->inbox,
                                                    .status = g->status,
                                                    .feed = g->feed},
                            &e);
    if (!g->server)
        fail_msg("%s", e.text);
    struct status_page *page = status_begin(g->status);
    page->state = ENGINE_READY;
    page->cache_disk_budget = BUDGET;
    status_end(g->status);
    record_feed_on_events(g->feed, wake_server, g->server);
    record_feed_on_requests(g->feed, take_requests, g);
    record_feed_open(g->feed);
    return g;
}

static struct rig *begin(struct fixture *f)
{
    struct rig *g = open_rig(f);
    assert_int_equal(pthread_create(&g->thread, NULL, serve, g->server), 0);
    return g;
}

static void end(struct rig *g)
{
    server_quit(g->server, 0);
    pthread_join(g->thread, NULL);
    server_close(&g->server);
    record_feed_destroy(&g->feed);
    status_close(&g->status);
    inbox_fini(&g->inbox);
    unlink(g->status_path);
    free(g);
}

/* The recorder's loop, for as long as `until` says no. */
static void follow(struct rig *g, struct store *s, bool (*until)(struct rig *g, double since))
{
    struct cache_follower *c = calloc(1, sizeof *c);
    const double began = clock_ms();
    cache_follower_init(c, s, g->socket, g->status_path);
    while (!until(g, clock_ms() - began) && clock_ms() - began < PATIENCE_MS) {
        cache_follower_run(c, clock_ms());
        usleep(1000);
    }
    cache_follower_fini(c);
    free(c);
}

static bool never(struct rig *g, double since)
{
    return false;
}

static int64_t rows(struct rig *g)
{
    return fixture_number(g->f->path, "SELECT count(*) FROM prompt_blocks");
}

static bool settled(struct rig *g, double since)
{
    return g->reconciled && since > 1500 && rows(g) == records(g) &&
           !fixture_number(g->f->path, "SELECT count(*) FROM prompt_block_removals");
}

static void test_rows_follow_records_and_records_follow_rows(void **state)
{
    struct fixture *f = *state;
    struct rig *g = begin(f);
    struct err e = {0};
    bool more = true;
    char owner[32];
    int64_t id = fixture_conversation(f, f->user, "a");
    snprintf(owner, sizeof owner, "%lld", (long long)id);
    g->there[4000] = true; /* nobody knows of it */
    for (int i = 0; i < 300; i++)
        store_record(g, i, i < 200 ? f->user : f->other, i < 100 ? owner : "k:0");
    follow(g, f->store, settled);
    assert_int_equal(rows(g), 300);
    assert_int_equal(records(g), 300);
    assert_int_equal(fixture_number(f->path, "SELECT count(*) FROM prompt_blocks WHERE "
                                             "conversation_id IS NOT NULL AND label = ''"),
                     100);
    ASSERT_OK(store_conversation_remove(f->store, f->user, id, &e));
    while (more)
        ASSERT_OK(store_clear(f->store, &more, &e));
    assert_int_equal(rows(g), 200);
    g->there[250] = false; /* lost: its row goes when it is reconciled */
    follow(g, f->store, settled);
    assert_int_equal(rows(g), 199);
    assert_int_equal(records(g), 199);
    end(g);
}

static bool within_budget(struct rig *g, double since)
{
    return rows(g) == records(g) && rows(g) == BUDGET / 1000 * 3 / 4;
}

static void test_the_sum_stays_below_the_budget(void **state)
{
    struct fixture *f = *state;
    struct rig *g = begin(f);
    for (int i = 0; i < 1500; i++)
        store_record(g, i, i < 100 ? f->other : f->user, "");
    follow(g, f->store, within_budget);
    assert_int_equal(rows(g), 750);
    assert_int_equal(records(g), 750);
    assert_int_equal(
        fixture_number(f->path, "SELECT count(*) FROM prompt_blocks WHERE user_id <> 1"), 100);
    end(g);
}

/* A process of its own, as it is in life, that is killed at any moment. It lets go of the server's
 * connections: while it held them, epoll would go on telling of those that the server has closed.
 */
static pid_t start_recorder(struct rig *g)
{
    pid_t pid = fork();
    if (pid)
        return pid;
    for (int fd = 3; fd < 256; fd++)
        close(fd);
    struct err e = {0};
    struct store *s = store_open(&(struct store_params){.path = g->f->path}, &e);
    if (s)
        follow(g, s, never);
    _exit(0);
}

static void test_a_kill_at_any_moment_loses_and_leaks_nothing(void **state)
{
    struct fixture *f = *state;
    struct rig *g = begin(f);
    struct err e = {0};
    int64_t removed;
    int next = 0;
    srand(7);
    for (int k = 0; k < KILLS; k++) {
        pid_t pid = start_recorder(g);
        for (int i = 0; i < 30; i++)
            store_record(g, next++, f->user, i % 2 ? "k:odd" : "k:even");
        usleep((useconds_t)(rand() % 300) * 1000);
        ASSERT_OK(store_prompts_forget(
            f->store,
            &(struct store_forgetting){.what = FORGET_LABEL, .user_id = f->user, .label = "k:odd"},
            &removed, &e));
        usleep((useconds_t)(rand() % 40) * 1000);
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
    }
    g->reconciled = 0;
    follow(g, f->store, settled);
    assert_int_equal(rows(g), records(g));
    assert_int_equal(fixture_number(f->path, "SELECT count(*) FROM prompt_block_removals"), 0);
    assert_int_equal(
        fixture_number(f->path, "SELECT count(*) FROM prompt_blocks WHERE label = 'k:even'"),
        KILLS * 15); /* no event was lost */
    for (int i = 0; i < RECORDS; i++) {
        char sql[128];
        snprintf(sql, sizeof sql, "SELECT count(*) FROM prompt_blocks WHERE segment_offset = %d",
                 i);
        if (g->there[i])
            assert_int_equal(fixture_number(f->path, sql), 1);
    }
    fixture_check_whole(f->path);
    end(g);
}

static void test_an_engine_that_hangs_holds_nothing_up(void **state)
{
    struct fixture *f = *state;
    struct rig *g = open_rig(f);
    struct cache_follower *c = calloc(1, sizeof *c);
    double longest = 0;
    cache_follower_init(c, f->store, g->socket, g->status_path);
    for (int i = 0; i < 100 && longest < 8000; i++) {
        const double began = clock_ms();
        cache_follower_run(c, began);
        longest = clock_ms() - began > longest ? clock_ms() - began : longest;
        usleep(3000);
    }
    assert_true(longest < 8000); /* it waited ten seconds for a reply */
    cache_follower_fini(c);
    assert_int_equal(pthread_create(&g->thread, NULL, serve, g->server), 0); /* it goes on */
    store_record(g, 0, f->user, "");
    follow(g, f->store, settled);
    assert_int_equal(rows(g), 1);
    free(c);
    end(g);
}

/* The first model's keeps nothing on the disk, or is not there; model 7's engine is followed. */
static void test_any_engine_forgets_for_those_that_are_not_there(void **state)
{
    struct fixture *f = *state;
    struct rig *g = begin(f);
    struct shared *shared = calloc(1, sizeof *shared);
    struct cache_followers *c = calloc(1, sizeof *c);
    char at[WORKER_SOCKET_BYTES], none[300];
    sqlite3 *db;
    assert_int_equal(sqlite3_open(f->path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db,
                                  "INSERT INTO prompt_block_removals (key, model_id, segment, "
                                  "segment_offset, bytes) VALUES (zeroblob(16), 9, 1, 5, 1000)",
                                  NULL, NULL, NULL),
                     SQLITE_OK);
    sqlite3_close(db);
    snprintf(none, sizeof none, "%s/none", f->folder);
    local_model_socket(at, f->folder, 7);
    assert_int_equal(symlink(g->socket, at), 0);
    shared->local[0].id = 7;
    shared->local[0].state = LOCAL_READY;
    cache_followers_init(c, &(struct cache_followers_params){.store = f->store,
                                                             .shared = shared,
                                                             .engine_run = f->folder,
                                                             .engine_socket = none,
                                                             .status_path = none});
    for (double until = clock_ms() + PATIENCE_MS;
         fixture_number(f->path, "SELECT count(*) FROM prompt_block_removals");) {
        assert_true(clock_ms() < until);
        cache_followers_run(c, clock_ms());
        usleep(2000);
    }
    cache_followers_fini(c);
    unlink(at);
    free(c);
    free(shared);
    end(g);
}

static int connected(const struct cache_followers *c)
{
    struct pollfd fds[1 + SHARED_LOCALS];
    cache_followers_poll(c, fds);
    return fds[1].fd >= 0;
}

/* A second load soon after the first: what it stores would have no row if it ended unfollowed. */
static void test_an_engine_loaded_anew_is_followed_at_once(void **state)
{
    struct fixture *f = *state;
    struct rig *g = begin(f);
    struct shared *shared = calloc(1, sizeof *shared);
    struct cache_followers *c = calloc(1, sizeof *c);
    char at[WORKER_SOCKET_BYTES], none[300];
    snprintf(none, sizeof none, "%s/none", f->folder);
    local_model_socket(at, f->folder, 7);
    shared->local[0].id = 7;
    shared->local[0].since_ms = 1;
    shared->local[0].state = LOCAL_READY;
    cache_followers_init(c, &(struct cache_followers_params){.store = f->store,
                                                             .shared = shared,
                                                             .engine_run = f->folder,
                                                             .engine_socket = none,
                                                             .status_path = none});
    cache_followers_run(c, 1000); /* there is no socket */
    assert_int_equal(symlink(g->socket, at), 0);
    cache_followers_run(c, 1001);
    assert_false(connected(c)); /* the same engine is tried again after a while */
    shared->local[0].since_ms = 2;
    cache_followers_run(c, 1002);
    assert_true(connected(c));
    cache_followers_fini(c);
    unlink(at);
    free(c);
    free(shared);
    end(g);
}

#define T(name) cmocka_unit_test_setup_teardown(name, fixture_up, fixture_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_rows_follow_records_and_records_follow_rows),
        T(test_the_sum_stays_below_the_budget),
        T(test_an_engine_that_hangs_holds_nothing_up),
        T(test_any_engine_forgets_for_those_that_are_not_there),
        T(test_an_engine_loaded_anew_is_followed_at_once),
        T(test_a_kill_at_any_moment_loses_and_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
