/* Many jobs over one model whose experts stay on disk: a step reads the union of what its rows
 * want, once; nobody starves beside a long prompt; and a record that can't be read ends the answers
 * that want it and no other. The scheduler, the cpu backend and the store are the real ones, the
 * model is the demo's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/log.h"
#include "engine/experts/pack/expert_pack.h"
#include "engine/experts/streaming.h"
#include "tests/unit/support/expert_models.h"
#include "tests/unit/support/scheduler_rig.h"

#define CLIENTS 8
#define LONG_PROMPT 480
#define LAYERS 8
#define EXPERTS 24
#define USED 4

static struct err e;
static struct vocab *vocab;
static bool seen[LAYERS][EXPERTS]; /* wanted since it was last cleared, by the backend's own word */
static int32_t rows_seen;          /* of layer 0 */

struct house {
    struct model *model;
    struct streaming *streaming;
    struct rig rig;
};

static void note(void *context, const char *name, const void *data, int32_t rows, int32_t cols,
                 bool is_int)
{
    int layer;
    char what[32];
    const int32_t *ids = data;
    if (sscanf(name, "layers.%d.%31s", &layer, what) != 2 || strcmp(what, "expert_ids"))
        return;
    for (int32_t i = 0; i < rows * cols; i++)
        seen[layer][ids[i]] = true;
    rows_seen += layer ? 0 : rows;
}

static uint64_t count_seen(void)
{
    uint64_t n = 0;
    for (int i = 0; i < LAYERS; i++)
        for (int x = 0; x < EXPERTS; x++)
            n += seen[i][x];
    return n;
}

static void forget_seen(void)
{
    memset(seen, 0, sizeof seen);
    rows_seen = 0;
}

/* pack_dir NULL: the model's own files. */
static void open_house(struct house *h, const char *pack_dir)
{
    *h = (struct house){.model = model_open(expert_model_path("engine/demo-model"), &e)};
    assert_non_null(h->model);
    uint64_t cache = model_stats(h->model)->expert_bytes * 2 / 5;
    h->streaming = streaming_open(
        h->model,
        &(struct streaming_params){.cache_bytes = cache, .pack_dir = pack_dir, .no_prefetch = true},
        &e);
    if (!h->streaming)
        fail_msg("%s", e.text);
    const struct model_plan *plan = streaming_plan(h->streaming);
    assert_int_equal(plan->n_layer, LAYERS);
    assert_int_equal(plan->layers[0].moe.n_expert, EXPERTS);
    assert_int_equal(plan->layers[0].moe.n_used, USED);
    h->rig.backend =
        cpu_backend.open(plan,
                         &(struct backend_params){.n_blocks = 64,
                                                  .max_rows = 288,
                                                  .max_sequences = CLIENTS + 1,
                                                  .n_threads = 1,
                                                  .experts = streaming_cache(h->streaming),
                                                  .dump = note},
                         &e);
    if (!h->rig.backend)
        fail_msg("%s", e.text);
    h->rig.scheduler =
        scheduler_create(&(struct scheduler_params){.ops = &cpu_backend,
                                                    .backend = h->rig.backend,
                                                    .vocab = vocab,
                                                    .n_vocab = plan->n_vocab,
                                                    .n_ctx = 512,
                                                    .n_slots = CLIENTS + 1,
                                                    .n_blocks = 64,
                                                    .max_rows = 288,
                                                    .prefill_chunk = 256,
                                                    .experts = streaming_cache(h->streaming)},
                         &e);
    assert_non_null(h->rig.scheduler);
}

static void close_house(struct house *h)
{
    scheduler_destroy(&h->rig.scheduler);
    cpu_backend.close(&h->rig.backend);
    streaming_close(&h->streaming);
    model_close(&h->model);
}

static struct expert_counters counters(const struct house *h)
{
    struct expert_counters c;
    expert_cache_counters(streaming_cache(h->streaming), &c);
    return c;
}

static struct job *ask(struct house *h, int32_t n_prompt, int32_t max_tokens, unsigned seed)
{
    int32_t prompt[LONG_PROMPT];
    fill_prompt(prompt, n_prompt, seed);
    struct engine_job_params p = params_of(prompt, n_prompt, max_tokens);
    p.ignore_eos = true;
    p.user = seed;
    return add(&h->rig, &p);
}

/* One step: what was read is the union of what its rows wanted, each once, and no more. Returns the
 * rows. */
static int32_t step_and_count(struct house *h, uint64_t *wanted, uint64_t *asked)
{
    struct expert_counters a = counters(h), b;
    forget_seen();
    if (!scheduler_step(h->rig.scheduler, &e))
        fail_msg("%s", e.text);
    b = counters(h);
    assert_int_equal(b.asked - a.asked, count_seen());
    assert_int_equal(b.asked - a.asked, b.hits - a.hits + b.misses - a.misses);
    assert_int_equal(b.late, 0); /* nothing is read ahead here */
    uint64_t bytes = b.disk.bytes - a.disk.bytes, misses = b.miss_bytes - a.miss_bytes;
    assert_true(bytes <= misses &&
                misses - bytes <=
                    EXPERT_ALIGN *
                        (b.disk.reads - a.disk.reads)); /* a file's end is no whole block */
    assert_true(b.resident_bytes <= b.budget_bytes);
    *wanted += (uint64_t)rows_seen * USED * LAYERS;
    *asked += b.asked - a.asked;
    return rows_seen;
}

static void test_a_step_reads_the_union_once_and_nobody_starves(void **state)
{
    struct house h;
    struct job *jobs[CLIENTS];
    uint64_t wanted = 0, asked = 0;
    open_house(&h, NULL);
    for (int i = 0; i < CLIENTS; i++)
        jobs[i] = ask(&h, 6 + i, 300, 100u + (unsigned)i);
    step_and_count(&h, &wanted, &asked);
    wanted = asked = 0;
    for (int i = 0; i < 12; i++)
        assert_int_equal(step_and_count(&h, &wanted, &asked), CLIENTS);
    assert_true(asked < wanted * 3 / 4); /* there was something to share */
    for (int i = 0; i < CLIENTS; i++)
        assert_int_equal(jobs[i]->n_generated, 13);

    struct job *reader = ask(&h, LONG_PROMPT, 1, 7);
    int steps = 0;
    while (reader->state != JOB_OVER) {
        int32_t rows = step_and_count(&h, &wanted, &asked);
        assert_true(rows > CLIENTS); /* the prompt goes on in every step, */
        steps++;
        for (int i = 0; i < CLIENTS; i++) /* and so does everyone's answer */
            assert_int_equal(jobs[i]->n_generated, 13 + steps);
    }
    assert_true(steps <= LONG_PROMPT / 8 + 1);
    struct outcome o;
    read_log(reader, &o);
    assert_true(o.done && o.n == 1);
    buf_fini(&o.text);
    job_unref(&reader);
    scheduler_cancel_all(h.rig.scheduler);
    run(&h.rig);
    for (int i = 0; i < CLIENTS; i++)
        job_unref(&jobs[i]);
    assert_all_returned(&h.rig, CLIENTS + 1);
    close_house(&h);
}

/* --- a damaged record --- */

#define N 3

struct packed {
    char dir[64], path[4096];
    uint64_t at; /* of the byte that is changed */
    int32_t layer, expert;
};

static void pack(struct packed *p)
{
    bool there;
    struct model *m = model_open(expert_model_path("engine/demo-model"), &e);
    snprintf(p->dir, sizeof p->dir, "/tmp/sluice-pack-XXXXXX");
    assert_non_null(mkdtemp(p->dir));
    assert_true(expert_pack_path(p->path, sizeof p->path, m, p->dir, &e));
    if (!expert_pack_write(&(struct pack_params){.model = m, .folder = p->dir}, &there, &e))
        fail_msg("%s", e.text);
    model_close(&m);
}

static void flip(const struct packed *p)
{
    struct stat st;
    uint8_t byte;
    int fd = open(p->path, O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0 && fstat(fd, &st) == 0);
    assert_int_equal(pread(fd, &byte, 1, (off_t)p->at), 1);
    byte ^= 0x10;
    assert_int_equal(pwrite(fd, &byte, 1, (off_t)p->at), 1);
    fsync(fd);
    const struct timespec times[2] = {
        st.st_atim, st.st_mtim}; /* as a disk does it that goes bad: no time changes */
    assert_int_equal(futimens(fd, times), 0);
    close(fd);
}

static struct outcome answer_of(struct job **j)
{
    struct outcome o;
    read_log(*j, &o);
    buf_fini(&o.text);
    job_unref(j);
    return o;
}

static void assert_told(const struct outcome *o, const struct packed *p)
{
    char where[64];
    snprintf(where, sizeof where, "layer %d, expert %d ", p->layer, p->expert);
    assert_true(o->failed && o->error.code == ERR_IO);
    assert_non_null(strstr(o->error.text, where));
    assert_non_null(strstr(o->error.text, "checksum"));
}

/* An expert that the first job alone wants; what each answers. */
static void choose(struct packed *p, struct outcome good[N])
{
    bool by[N][LAYERS][EXPERTS];
    struct house h;
    open_house(&h, p->dir);
    for (int i = 0; i < N; i++) {
        forget_seen();
        struct job *j = ask(&h, 1, 3, 20u + (unsigned)i);
        run(&h.rig);
        good[i] = answer_of(&j);
        assert_true(good[i].done && good[i].n == 3);
        memcpy(by[i], seen, sizeof seen);
    }
    const struct expert_layout *l = streaming_layout(h.streaming);
    assert_true(l->packed);
    p->layer = -1;
    for (int i = 0; i < LAYERS; i++)
        for (int x = 0; x < EXPERTS; x++)
            if (by[0][i][x] && !by[1][i][x] && !by[2][i][x]) {
                p->layer = i;
                p->expert = x;
                p->at = l->layers[i].records[x].parts[0].offset +
                        l->layers[i].records[x].planes[EXPERT_UP][EXPERT_DATA] + 11;
            }
    assert_true(p->layer >= 0);
    close_house(&h);
}

static void test_a_damaged_expert_ends_only_who_wants_it(void **state)
{
    struct packed p;
    struct outcome good[N];
    struct house h;
    struct job *jobs[N];
    pack(&p);
    choose(&p, good);
    flip(&p);
    open_house(&h, p.dir);
    for (int round = 0; round < 2; round++) { /* the second time it is not taken for read either */
        for (int i = 0; i < N; i++)
            jobs[i] = ask(&h, 1, 3, 20u + (unsigned)i);
        run(&h.rig);
        for (int i = 0; i < N; i++) {
            struct outcome o = answer_of(&jobs[i]);
            if (i == 0) {
                assert_told(&o, &p);
                continue;
            }
            assert_true(o.done && o.n == 3);
            assert_memory_equal(o.ids, good[i].ids, 3 * sizeof *o.ids);
        }
    }
    assert_true(counters(&h).failures >= 2);
    flip(&p); /* the disk is well again: so is the answer */
    jobs[0] = ask(&h, 1, 3, 20);
    run(&h.rig);
    struct outcome o = answer_of(&jobs[0]);
    assert_true(o.done && o.n == 3);
    assert_memory_equal(o.ids, good[0].ids, 3 * sizeof *o.ids);
    assert_all_returned(&h.rig, CLIENTS + 1);
    close_house(&h);
    unlink(p.path);
    rmdir(p.dir);
}

static int load_vocab(void **state)
{
    log_set_level(LOG_ERROR);
    vocab = vocab_load(expert_model_path("engine/demo-model"), NULL, &e);
    return vocab ? 0 : -1;
}

static int unload_vocab(void **state)
{
    vocab_close(&vocab);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_step_reads_the_union_once_and_nobody_starves),
        cmocka_unit_test(test_a_damaged_expert_ends_only_who_wants_it),
    };
    return cmocka_run_group_tests(tests, load_vocab, unload_vocab);
}
