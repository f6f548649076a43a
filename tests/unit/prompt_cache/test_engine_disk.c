/* A real engine that stores its prompts: through restarts and kills, with a client that does what
 * the recorder and the workers do. */
#include "tests/unit/engine/engine_rig.h"
#include "engine/base/clock.h"
#include "tests/unit/support/patience.h"

#define PROMPT 200
#define ROWS 64

static char folder[64];
static struct stored_ref rows[ROWS];
static int32_t n_rows;
static int32_t prompt[PROMPT];

static int set_up(void **state)
{
    strcpy(folder, "/tmp/test-engine-disk-XXXXXX");
    n_rows = 0;
    for (int32_t i = 0; i < PROMPT; i++)
        prompt[i] = 300 + (i * i * 7 + i) % 4000;
    return mkdtemp(folder) ? 0 : -1;
}

static int tear_down(void **state)
{
    char command[96];
    engine_process_remove(&engine);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command);
}

static void start(const char *size, const char *dir)
{
    const char *const extra[] = {"--ctx",
                                 "512",
                                 "--slots",
                                 "4",
                                 "--log-level",
                                 "warn",
                                 "--prompt-cache-disk",
                                 size,
                                 dir ? "--prompt-cache-dir" : NULL,
                                 dir,
                                 NULL};
    assert_true(engine_process_start(&engine, extra));
    assert_true(engine_process_wait_ready(&engine));
}

static struct status_page status(void)
{
    struct status_page page;
    struct err e = {0};
    assert_true(status_read(engine.status, &page, &e));
    return page;
}

static struct cache_feed *follow(void)
{
    struct err e = {0};
    struct cache_feed *f = cache_feed_open(engine.socket, &e);
    if (!f)
        fail_msg("%s", e.text);
    return f;
}

/* Rows of what was stored, until there are n. */
static void read_rows(struct cache_feed *f, int32_t n)
{
    struct cache_event ev;
    struct err e = {0};
    while (n_rows < n) {
        if (cache_feed_next(f, &ev, 20000, &e) != 1)
            fail_msg("%d rows of %d: %s", n_rows, n, e.text);
        if (ev.type == CACHE_STORED)
            rows[n_rows++] = (struct stored_ref){ev.key, ev.place};
    }
    assert_true(cache_feed_acknowledge(f, &e));
}

static struct answer_text ask(void)
{
    static struct answer_text a;
    struct engine_job_params p = hello_params(5);
    struct prompt_key key;
    struct stored_ref refs[ROWS];
    p.prompt = prompt;
    p.n_prompt = PROMPT;
    p.stored = refs;
    strcpy(p.scope, "user:1");
    prompt_key_begin(&key, status().cache_identity, p.scope, 0);
    for (bool found = true; found && (p.n_stored + 1) * 32 <= PROMPT;) {
        prompt_key_next(&key, NULL, prompt + p.n_stored * 32);
        found = false;
        for (int32_t i = 0; i < n_rows && !found; i++) {
            found = !memcmp(&rows[i].key, &key, sizeof key);
            if (found)
                refs[p.n_stored++] = rows[i];
        }
    }
    struct engine_job *j = submit(&p);
    assert_true(answer_read(j, &a));
    assert_true(a.done);
    engine_close(&j);
    return a;
}

static void test_a_prompt_survives_a_restart_and_a_kill(void **state)
{
    struct err e = {0};
    start("64M", folder);
    struct status_page page = status();
    assert_true(page.cache_identity != 0);
    assert_int_equal(page.cache_disk_budget, 64 << 20);
    assert_string_equal(page.cache_note, "");
    struct answer_text first = ask();
    assert_string_equal(first.last.usage.cache_miss, "unknown");
    struct cache_feed *f = follow();
    read_rows(f, PROMPT / 32);
    cache_feed_close(&f);
    const uint64_t identity = page.cache_identity;
    for (int round = 0; round < 2; round++) {
        assert_int_equal(engine_process_end(&engine, round ? SIGKILL : SIGTERM), round ? 137 : 0);
        engine_process_remove(&engine);
        start("64M", folder);
        assert_int_equal(status().cache_identity, identity);
        f = follow();
        assert_true(cache_feed_reconcile_begin(f, &e));
        assert_true(cache_feed_reconcile(f, rows, n_rows, &e));
        assert_true(cache_feed_reconcile_end(f, &e));
        struct cache_event ev;
        assert_int_equal(cache_feed_next(f, &ev, 20000, &e), 1);
        assert_int_equal(ev.type, CACHE_RECONCILED);
        struct answer_text again = ask();
        assert_string_equal(again.text, first.text);
        assert_int_equal(again.last.usage.cached_from_disk, PROMPT / 32 * 32);
        assert_string_equal(again.last.usage.cache_miss, "");
        assert_int_equal(cache_feed_next(f, &ev, 20000, &e), 1);
        assert_int_equal(ev.type, CACHE_USED);
        cache_feed_close(&f);
        page = status();
        assert_int_equal(page.cache_loaded, PROMPT / 32);
        assert_int_equal(page.cache_records, PROMPT / 32);
        assert_int_equal(page.cached_tokens, PROMPT / 32 * 32);
        assert_true(page.cache_read_bytes > 0 && page.cache_disk_bytes > 0);
    }
}

static void test_what_is_forgotten_is_nowhere(void **state)
{
    struct err e = {0};
    start("64M", folder);
    ask();
    struct cache_feed *f = follow();
    read_rows(f, PROMPT / 32);
    assert_true(cache_feed_forget(f, rows, n_rows, &e));
    for (int32_t i = 0; i < n_rows; i++) {
        struct cache_event ev;
        assert_int_equal(cache_feed_next(f, &ev, 20000, &e), 1);
        assert_int_equal(ev.type, CACHE_FORGOTTEN);
    }
    n_rows = 0;
    struct answer_text a = {0};
    for (double end = clock_ms() + PATIENCE_MS; clock_ms() < end; usleep(2000)) {
        struct status_page page = status();
        if (!page.blocks_cached) /* the idle engine has dropped the device's blocks as well */
            break;
    }
    a = ask();
    assert_int_equal(a.last.usage.cached_tokens, 0);
    cache_feed_close(&f);
}

static void refuses_to_follow(const char *why)
{
    struct err e = {0};
    assert_null(cache_feed_open(engine.socket, &e));
    assert_int_equal(e.code, ERR_UNSUPPORTED);
    struct status_page page = status();
    assert_int_equal(page.cache_identity, 0);
    if (!strstr(page.cache_note, why))
        fail_msg("%s", page.cache_note);
    assert_int_equal(ask().last.usage.cached_tokens, 0);
}

static void test_without_a_disk_the_engine_answers_all_the_same(void **state)
{
    char file[96];
    start("off", NULL);
    refuses_to_follow("off");
    engine_process_remove(&engine);
    snprintf(file, sizeof file, "%s/file", folder);
    fclose(fopen(file, "w"));
    strcat(file, "/below");
    start("64M", file);
    refuses_to_follow("directory");
    assert_int_equal(engine_process_end(&engine, SIGTERM), 0);
}

static void test_options_that_make_no_sense_are_refused(void **state)
{
    static const char *const bad[][4] = {
        {"--prompt-cache-disk", "none"},
        {"--prompt-cache-disk", "0"},
        {"--prompt-cache-disk", "1G", "--no-prefix-cache"},
        {"--prompt-cache-disk=off", "--prompt-cache-dir", "/tmp"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        const char *const extra[] = {bad[i][0], bad[i][1], bad[i][2], bad[i][3], NULL};
        assert_true(engine_process_start(&engine, extra));
        assert_int_equal(engine_process_end(&engine, 0), 2);
        engine_process_remove(&engine);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_prompt_survives_a_restart_and_a_kill, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_what_is_forgotten_is_nowhere, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_without_a_disk_the_engine_answers_all_the_same, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_options_that_make_no_sense_are_refused, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
