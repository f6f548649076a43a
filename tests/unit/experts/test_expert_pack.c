/* The packed sidecar: its records are the model's own bytes for every layout that files use; what a
 * kill, a full disk or damage leaves; which sidecar is taken and which is not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/experts/pack/expert_pack.h"
#include "tests/unit/experts/expert_pack_check.h"
#include "tests/unit/support/expert_models.h"
#include "tests/unit/support/tiny_model.h"

static struct err e;
static char folder[64]; /* where sidecars go */
static char path[4096], part[4104];

static int make_folder(void **state)
{
    snprintf(folder, sizeof folder, "/tmp/sluice-pack-XXXXXX");
    memset(&e, 0, sizeof e);
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    DIR *d = opendir(folder);
    for (struct dirent *one; d && (one = readdir(d));)
        unlinkat(dirfd(d), one->d_name, 0);
    if (d)
        closedir(d);
    return rmdir(folder);
}

static struct model *open_model(const char *name)
{
    struct model *m = model_open(name, &e);
    if (!m || !expert_pack_path(path, sizeof path, m, folder, &e))
        fail_msg("%s: %s", name, e.text);
    snprintf(part, sizeof part, "%s.part", path);
    return m;
}

static struct model *demo(void)
{
    return open_model(expert_model_path("engine/demo-model"));
}

static uint64_t n_records(const struct model *m)
{
    uint64_t n = 0;
    for (int32_t i = 0; i < model_plan(m)->n_layer; i++)
        n += model_plan(m)->layers[i].ffn == FFN_MOE
                 ? (uint64_t)model_plan(m)->layers[i].moe.n_expert
                 : 0;
    return n;
}

static void pack(const struct model *m)
{
    bool there;
    if (!expert_pack_write(&(struct pack_params){.model = m, .folder = folder}, &there, &e))
        fail_msg("%s", e.text);
    assert_false(there);
}

static uint64_t size_of(const char *file)
{
    struct stat st;
    return stat(file, &st) == 0 ? (uint64_t)st.st_size : UINT64_MAX;
}

static bool is_there(const char *file)
{
    return access(file, F_OK) == 0;
}

static void test_records_are_the_models_bytes(void **state)
{
    for (int i = 0; expert_models[i]; i++) {
        struct model *m = open_model(expert_model_path(expert_models[i]));
        pack(m);
        expert_pack_check(m, path);
        assert_false(is_there(part));
        assert_int_equal(unlink(path), 0);
        model_close(&m);
    }
}

static void test_split_files_and_tensors_of_their_own(void **state)
{
    static const enum tiny_experts ways[] = {TINY_STACKED, TINY_SEPARATE, TINY_FUSED};
    for (int i = 0; i < 3; i++) {
        struct tiny t = {.experts = ways[i]};
        tiny_make(&t);
        tiny_write(&t, "model-00001-of-00003.safetensors", 0, 3);
        tiny_write(&t, "model-00002-of-00003.safetensors", 1, 3);
        tiny_write(&t, "model-00003-of-00003.safetensors", 2, 3);
        struct model *m = open_model(t.dir);
        pack(m);
        expert_pack_check(m, path);
        assert_int_equal(unlink(path), 0);
        model_close(&m);
        tiny_remove(&t);
    }
}

static void test_a_second_run_has_nothing_to_do(void **state)
{
    struct model *m = demo();
    bool there;
    struct stat before, after;
    pack(m);
    assert_int_equal(stat(path, &before), 0);
    assert_true(expert_pack_write(&(struct pack_params){.model = m, .folder = folder}, &there, &e));
    assert_true(there);
    assert_int_equal(stat(path, &after), 0);
    assert_int_equal(before.st_ino, after.st_ino);
    model_close(&m);
}

struct watch { /* what progress says, and what happens when so many records are there */
    struct pack_progress last;
    uint64_t at, safe_bytes;
    void (*act)(struct watch *w);
    volatile sig_atomic_t stop;
};

static void watch(void *context, const struct pack_progress *p)
{
    struct watch *w = context;
    assert_int_equal(p->records, w->last.records + 1);
    assert_true(p->bytes > w->last.bytes);
    w->last = *p;
    if (p->records == w->at)
        w->act(w);
}

static void kill_self(struct watch *w)
{
    kill(getpid(), SIGKILL);
}

static void ask_to_stop(struct watch *w)
{
    w->stop = 1;
}

static bool pack_watched(const struct model *m, struct watch *w)
{
    bool there;
    w->stop = 0;
    w->last = (struct pack_progress){0};
    return expert_pack_write(&(struct pack_params){.model = m,
                                                   .folder = folder,
                                                   .stop = &w->stop,
                                                   .progress = watch,
                                                   .context = w,
                                                   .safe_bytes = w->safe_bytes},
                             &there, &e);
}

/* Again and again, each time a little further: the name appears only with the whole, and the whole
 * is right. */
static void test_a_killed_run_is_gone_on_with(void **state)
{
    struct model *m = demo();
    uint64_t all = n_records(m);
    for (uint64_t at = 1; at < all;
         at += all / 3) { /* killed as that record was written, not yet safe */
        pid_t child = fork();
        if (child == 0) {
            struct watch w = {.at = at, .act = kill_self, .safe_bytes = 1};
            pack_watched(m, &w);
            _exit(0);
        }
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status));
        assert_false(is_there(path));
        assert_true(is_there(part));
    }
    struct watch w = {0};
    assert_true(pack_watched(m, &w));
    assert_int_equal(w.last.records, all);
    assert_int_equal(w.last.bytes, w.last.bytes_total);
    assert_true(w.last.records_kept > all / 2 && w.last.records_kept < all);
    expert_pack_check(m, path);
    assert_false(is_there(part));
    model_close(&m);
}

static void flip(const char *file, uint64_t at)
{
    int fd = open(file, O_RDWR);
    uint8_t b;
    assert_true(fd >= 0);
    assert_int_equal(pread(fd, &b, 1, (off_t)at), 1);
    b ^= 0x10;
    assert_int_equal(pwrite(fd, &b, 1, (off_t)at), 1);
    close(fd);
}

/* What was made safe is kept; what went bad meanwhile is found and written anew. */
static void test_a_stopped_run_keeps_what_is_right(void **state)
{
    struct model *m = demo();
    struct expert_layout own;
    struct watch w = {.at = 20, .act = ask_to_stop};
    assert_true(expert_layout_open(&own, m, &e));
    assert_false(pack_watched(m, &w));
    assert_int_equal(e.code, ERR_CANCELLED);
    assert_false(is_there(path));
    uint64_t data = expert_pack_bytes(&own, NULL) - w.last.bytes_total,
             record = w.last.bytes_total / w.last.records_total;
    flip(part, data + 3 * record + 100);
    w.at = 0;
    assert_true(pack_watched(m, &w));
    assert_int_equal(w.last.records_kept, 19);
    expert_pack_check(m, path);
    expert_layout_close(&own);
    model_close(&m);
}

static void refuse(const struct model *m, enum err_code code, const char *says)
{
    bool there;
    memset(&e, 0, sizeof e);
    assert_false(
        expert_pack_write(&(struct pack_params){.model = m, .folder = folder}, &there, &e));
    assert_int_equal(e.code, code);
    if (!strstr(e.text, says))
        fail_msg("'%s' does not say '%s'", e.text, says);
    assert_false(is_there(path));
}

static void test_one_at_a_time(void **state)
{
    struct model *m = demo();
    int fd = open(part, O_RDWR | O_CREAT, 0644);
    assert_int_equal(flock(fd, LOCK_EX), 0);
    refuse(m, ERR_BUSY, "another pack");
    close(fd);
    pack(m);
    expert_pack_check(m, path);
    model_close(&m);
}

/* A limit on the size of files stands for a full disk: both refuse the blocks when they are asked
 * for. */
static void test_no_room_leaves_nothing(void **state)
{
    struct model *m = demo();
    struct rlimit was, small = {1 << 20, RLIM_INFINITY};
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &was), 0);
    small.rlim_max = was.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    refuse(m, ERR_IO, ".part");
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &was), 0);
    signal(SIGXFSZ, SIG_DFL);
    assert_false(is_there(part));
    pack(m);
    expert_pack_check(m, path);
    model_close(&m);
}

static void test_a_folder_that_is_not_there(void **state)
{
    struct model *m = demo();
    bool there;
    assert_false(expert_pack_write(&(struct pack_params){.model = m, .folder = "/nowhere/at/all"},
                                   &there, &e));
    assert_int_equal(e.code, ERR_NOTFOUND);
    model_close(&m);
}

static void test_a_dense_model_has_nothing_to_pack(void **state)
{
    struct tiny t = {0};
    tiny_make(&t);
    tiny_text(
        &t, "config.json",
        "{\"model_type\": \"qwen3\", \"hidden_size\": 32, \"num_hidden_layers\": 2,"
        " \"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"head_dim\": 16, "
        "\"vocab_size\": 40,"
        " \"max_position_embeddings\": 128, \"rms_norm_eps\": 1e-6, \"intermediate_size\": 24,"
        " \"rope_theta\": 10000, \"eos_token_id\": 3}");
    tiny_write(&t, "model.safetensors", 0, 1);
    struct model *m = open_model(t.dir);
    refuse(m, ERR_UNSUPPORTED, "no routed experts");
    assert_false(is_there(part));
    model_close(&m);
    tiny_remove(&t);
}

static void expect_pick(const struct model *m, bool packed)
{
    struct expert_layout l;
    memset(&e, 0, sizeof e);
    assert_true(expert_layout_pick(&l, m, folder, &e));
    assert_int_equal(l.packed, packed);
    expert_layout_close(&l);
}

static void expect_open(const struct model *m, enum err_code code)
{
    struct expert_layout l;
    assert_false(expert_pack_open(&l, m, path, &e));
    assert_int_equal(e.code, code);
    assert_null(l.arena);
}

static void test_what_is_damaged_or_missing_is_not_taken(void **state)
{
    struct model *m = demo();
    expect_open(m, ERR_NOTFOUND);
    expect_pick(m, false);
    pack(m);
    expect_pick(m, true);
    static const uint64_t places[] = {2 /* magic */, 8 /* version */, 20 /* fingerprint */,
                                      40 /* sizes */, EXPERT_ALIGN + 11 /* checksums */};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        flip(path, places[i]);
        expect_open(m, ERR_FORMAT);
        expect_pick(m, false);
        flip(path, places[i]);
    }
    expect_pick(m, true);
    assert_int_equal(truncate(path, (off_t)size_of(path) - 4096), 0);
    expect_open(m, ERR_FORMAT);
    assert_int_equal(truncate(path, 10), 0);
    expect_open(m, ERR_FORMAT);
    expect_pick(m, false);
    model_close(&m);
}

/* A file that was not finished has no table hash, whatever its name is. */
static void test_an_unfinished_file_is_not_taken_by_any_name(void **state)
{
    struct model *m = demo();
    struct watch w = {.at = n_records(m) / 2, .act = ask_to_stop};
    assert_false(pack_watched(m, &w));
    assert_int_equal(rename(part, path), 0);
    assert_int_equal(truncate(path, (off_t)(w.last.bytes_total + 2 * EXPERT_ALIGN)),
                     0); /* as long as the whole one */
    expect_open(m, ERR_FORMAT);
    assert_non_null(strstr(e.text, "checksums"));
    model_close(&m);
}

/* The same shapes, other values: what a newer release of a model looks like. */
static void test_another_models_sidecar_is_not_taken(void **state)
{
    struct tiny t = {0}, other = {.spoil = "layers.0.mlp.switch_mlp.gate_proj",
                                  .spoil_at = 32 * 24,
                                  .spoil_value = 3};
    struct tiny *both[] = {&t, &other};
    struct model *m[2];
    for (int i = 0; i < 2; i++) {
        tiny_make(both[i]);
        tiny_write(both[i], "model.safetensors", 0, 1);
        m[i] = open_model(both[i]->dir);
    }
    pack(m[0]);
    expect_pick(m[0], true);
    expect_pick(m[1], false);
    expect_open(m[1], ERR_CONFLICT);
    bool there;
    assert_false(
        expert_pack_write(&(struct pack_params){.model = m[1], .folder = folder}, &there, &e));
    assert_int_equal(e.code, ERR_CONFLICT);
    expect_pick(m[0], true);
    /* beside the model it is the model's own, from before */
    char beside[4096];
    assert_true(expert_pack_path(beside, sizeof beside, m[1], NULL, &e));
    assert_int_equal(rename(path, beside), 0);
    assert_true(expert_pack_write(&(struct pack_params){.model = m[1]}, &there, &e));
    assert_false(there);
    strcpy(path, beside);
    expert_pack_check(m[1], path);
    for (int i = 0; i < 2; i++) {
        model_close(&m[i]);
        tiny_remove(both[i]);
    }
}

static void test_a_model_cut_short_under_way_is_told(void **state)
{
    struct tiny t = {0};
    tiny_make(&t);
    tiny_write(&t, "model.safetensors", 0, 1);
    struct model *m = open_model(t.dir);
    const char *file = model_file(m, 0);
    assert_int_equal(truncate(file, (off_t)size_of(file) / 4), 0);
    bool there;
    assert_false(
        expert_pack_write(&(struct pack_params){.model = m, .folder = folder}, &there, &e));
    assert_int_equal(e.code, ERR_CONFLICT);
    assert_false(is_there(path));
    model_close(&m);
    tiny_remove(&t);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_folder, remove_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_records_are_the_models_bytes),
        TEST(test_split_files_and_tensors_of_their_own),
        TEST(test_a_second_run_has_nothing_to_do),
        TEST(test_a_killed_run_is_gone_on_with),
        TEST(test_a_stopped_run_keeps_what_is_right),
        TEST(test_one_at_a_time),
        TEST(test_no_room_leaves_nothing),
        TEST(test_a_folder_that_is_not_there),
        TEST(test_a_dense_model_has_nothing_to_pack),
        TEST(test_what_is_damaged_or_missing_is_not_taken),
        TEST(test_an_unfinished_file_is_not_taken_by_any_name),
        TEST(test_another_models_sidecar_is_not_taken),
        TEST(test_a_model_cut_short_under_way_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
