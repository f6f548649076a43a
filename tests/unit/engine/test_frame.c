/* Frames and messages: what one side writes the other reads; everything else is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/wire/message.h"

static const int32_t prompt[40] = {1, 2, 300000, 0};
static const int32_t stop_ids[] = {9, 300001}, allowed_ids[] = {4, 5, 6},
                     banned[] = {1, 8, 2, 10, 11};
static const int32_t negative[] = {-1, 0}, empty[] = {0, 1, 1, 1, 1};
static const struct engine_bias bias[] = {{5, -100}, {7, 1.5f}};
static const char *const stops[] = {"\n\n", "User:", "\xc3\xa9"};

static const struct stored_ref stored[] = {{{{1, 2, 250}}, {7, 12288, 0x123456789au}}};

static struct engine_job_params sample_params(void)
{
    struct engine_job_params p = {
        .prompt = prompt,
        .n_prompt = 40,
        .max_tokens = 77,
        .sampling = {.temperature = 0.6f,
                     .top_p = 0.95f,
                     .top_k = 20,
                     .min_p = 0.05f,
                     .repetition_penalty = 1.1f,
                     .presence_penalty = -0.5f,
                     .frequency_penalty = 2,
                     .typical_p = 0.8f,
                     .penalty_window = 64,
                     .seed = 0x123456789abcdef0u,
                     .bias = bias,
                     .n_bias = 2},
        .stop = stops,
        .n_stop = 3,
        .keep_stop = true,
        .stop_ids = stop_ids,
        .n_stop_ids = 2,
        .min_tokens = 5,
        .allowed_ids = allowed_ids,
        .n_allowed_ids = 3,
        .banned = banned,
        .n_banned = 5,
        .answer_format = "hermes",
        .answer_begins = 1,
        .top_logprobs = 5,
        .special_text = true,
        .detached = true,
        .key = "message-17",
        .user = 42,
        .scope = "user:42",
        .stored = stored,
        .n_stored = 1,
        .cache_owner = "conversation",
        .cache_keep_seconds = 3600,
        .cache_seal = {.key = {9, 8, 7}, .on = true},
        .request_id = "req-1",
        .priority = 1,
        .experts_per_token = 6,
        .speculate = ENGINE_SPECULATE_NGRAM,
        .prediction = allowed_ids,
        .n_prediction = 3,
    };
    return p;
}

static void parse_one(const struct buf *b, struct frame *f)
{
    size_t used = 0;
    struct err e = {0};
    assert_int_equal(frame_parse(b->data, b->len, f, &used, &e), 1);
    assert_int_equal(used, b->len);
}

static void test_submit_reads_back_as_written(void **state)
{
    struct engine_job_params in = sample_params(), out;
    struct buf b = {0};
    struct err e = {0};
    struct frame f;
    struct arena *a = arena_create(1 << 20);
    assert_true(message_put_submit(&b, &in, &e));
    parse_one(&b, &f);
    assert_int_equal(f.type, FRAME_SUBMIT);
    assert_true(message_get_submit(&f, &out, a, &e));
    assert_int_equal(out.n_prompt, 40);
    assert_memory_equal(out.prompt, prompt, sizeof prompt);
    assert_int_equal(out.max_tokens, 77);
    assert_true(out.sampling.temperature == 0.6f && out.sampling.frequency_penalty == 2);
    assert_int_equal(out.sampling.seed, in.sampling.seed);
    assert_memory_equal(out.sampling.bias, bias, sizeof bias);
    assert_int_equal(out.n_stop, 3);
    for (int i = 0; i < 3; i++)
        assert_string_equal(out.stop[i], stops[i]);
    assert_true(out.keep_stop && out.sampling.typical_p == 0.8f);
    assert_int_equal(out.sampling.penalty_window, 64);
    assert_int_equal(out.min_tokens, 5);
    assert_int_equal(out.n_stop_ids, 2);
    assert_memory_equal(out.stop_ids, stop_ids, sizeof stop_ids);
    assert_int_equal(out.n_allowed_ids, 3);
    assert_memory_equal(out.allowed_ids, allowed_ids, sizeof allowed_ids);
    assert_int_equal(out.n_banned, 5);
    assert_memory_equal(out.banned, banned, sizeof banned);
    assert_string_equal(out.answer_format, "hermes");
    assert_int_equal(out.answer_begins, 1);
    assert_int_equal(out.top_logprobs, 5);
    assert_true(out.special_text && out.detached && !out.ignore_eos);
    assert_string_equal(out.key, "message-17");
    assert_string_equal(out.scope, "user:42");
    assert_int_equal(out.n_stored, 1);
    assert_memory_equal(out.stored, stored, sizeof stored);
    assert_string_equal(out.cache_owner, "conversation");
    assert_int_equal(out.cache_keep_seconds, 3600);
    assert_true(out.cache_seal.on && out.cache_seal.key[2] == 7);
    assert_int_equal(out.priority, 1);
    assert_int_equal(out.experts_per_token, 6);
    assert_int_equal(out.speculate, ENGINE_SPECULATE_NGRAM);
    assert_int_equal(out.n_prediction, 3);
    assert_memory_equal(out.prediction, allowed_ids, sizeof allowed_ids);
    arena_destroy(&a);
    buf_fini(&b);
}

static void test_submit_cut_anywhere_is_refused(void **state)
{
    struct engine_job_params in = sample_params(), out;
    struct buf b = {0};
    struct err e = {0};
    struct frame f;
    assert_true(message_put_submit(&b, &in, &e));
    parse_one(&b, &f);
    uint32_t whole = f.len;
    for (f.len = 0; f.len < whole; f.len++) {
        /* a copy of its own, so that a read past the end is seen by the sanitizer */
        unsigned char *copy = malloc(f.len ? f.len : 1);
        memcpy(copy, f.payload, f.len);
        struct frame cut = {.type = f.type, .payload = copy, .len = f.len};
        struct arena *a = arena_create(1 << 20);
        assert_false(message_get_submit(&cut, &out, a, &e));
        arena_destroy(&a);
        free(copy);
    }
    buf_fini(&b);
}

static void refuse(struct engine_job_params p, const char *field)
{
    struct err e = {0};
    assert_false(message_check_params(&p, &e));
    assert_string_equal(e.field, field);
}

static void test_params_out_of_range_name_the_field(void **state)
{
    struct engine_job_params p;
#define REFUSE(field, change)                                                                      \
    do {                                                                                           \
        p = sample_params();                                                                       \
        change;                                                                                    \
        refuse(p, field);                                                                          \
    } while (0)
    REFUSE("prompt", p.n_prompt = 0);
    REFUSE("max_tokens", p.max_tokens = -1);
    REFUSE("temperature", p.sampling.temperature = NAN);
    REFUSE("temperature", p.sampling.temperature = -0.1f);
    REFUSE("top_p", p.sampling.top_p = 1.5f);
    REFUSE("min_p", p.sampling.min_p = INFINITY);
    REFUSE("top_k", p.sampling.top_k = -1);
    REFUSE("repetition_penalty", p.sampling.repetition_penalty = 0);
    REFUSE("logit_bias", p.sampling.n_bias = ENGINE_MAX_BIAS + 1);
    REFUSE("top_logprobs", p.top_logprobs = 21);
    REFUSE("stop", p.n_stop = 17);
    REFUSE("min_tokens", p.min_tokens = -1);
    REFUSE("typical_p", p.sampling.typical_p = 1.1f);
    REFUSE("penalty_window", p.sampling.penalty_window = -1);
    REFUSE("stop_ids", p.n_stop_ids = ENGINE_MAX_STOP_IDS + 1);
    REFUSE("stop_ids", p.stop_ids = negative);
    REFUSE("allowed_ids", p.n_allowed_ids = -1);
    REFUSE("banned", p.n_banned = 4);
    REFUSE("banned", p.banned = empty);
    REFUSE("answer_format", p.answer_begins = 3);
    REFUSE("answer_format", memset(p.answer_format, 'x', sizeof p.answer_format));
    REFUSE("stop", p.stop = (const char *const[]){""}; p.n_stop = 1);
    REFUSE("stop", p.stop = (const char *const[]){"\xa9"}; p.n_stop = 1);
    REFUSE("key", p.key[0] = 0);
    REFUSE("key", p.key[0] = '#');
    REFUSE("priority", p.priority = 2);
    REFUSE("stored", p.n_stored = 2); /* the prompt has one whole block */
    REFUSE("stored", p.n_stored = -1);
    REFUSE("cache_owner", memset(p.cache_owner, 'x', sizeof p.cache_owner));
    REFUSE("cache_keep_seconds", p.cache_keep_seconds = -2);
#undef REFUSE
}

/* What was read points into the frame and the box. */
struct round_trip {
    struct buf written;
    struct event_box box;
    struct engine_event out;
};

static void write_and_read(struct round_trip *r, const struct engine_event *in)
{
    struct frame f;
    struct err e = {0};
    buf_clear(&r->written);
    message_put_event(&r->written, in);
    parse_one(&r->written, &f);
    assert_true(message_get_event(&f, &r->out, &r->box, &e));
    assert_int_equal(r->out.type, in->type);
}

static void check_tokens(struct round_trip *r)
{
    struct engine_token tokens[2] = {{.id = 3, .logprob = -0.25f, .n_top = 1, .top = {{9, -1.5f}}},
                                     {.id = 4, .logprob = -9999, .n_top = 0}};
    write_and_read(r, &(struct engine_event){.type = ENGINE_TOKENS,
                                             .job = 5,
                                             .tokens = tokens,
                                             .n_tokens = 2,
                                             .decode_ms = 12.5,
                                             .text = "h\xc3\xa9",
                                             .text_len = 3});
    assert_int_equal(r->out.n_tokens, 2);
    assert_int_equal(r->out.tokens[0].top[0].id, 9);
    assert_true(r->out.tokens[1].logprob == -9999);
    assert_true(r->out.decode_ms == 12.5);
    assert_int_equal(r->out.text_len, 3);
    assert_memory_equal(r->out.text, "h\xc3\xa9", 3);
}

static void check_prompt_scores(struct round_trip *r)
{
    struct engine_token token = {
        .id = 3, .logprob = -0.25f, .rank = 3, .n_top = 1, .top = {{9, -1.5f}}};
    write_and_read(
        r,
        &(struct engine_event){
            .type = ENGINE_PROMPT_SCORES, .job = 5, .done = 64, .tokens = &token, .n_tokens = 1});
    assert_int_equal(r->out.done, 64);
    assert_int_equal(r->out.n_tokens, 1);
    assert_int_equal(r->out.tokens[0].rank, 3);
    assert_int_equal(r->out.tokens[0].top[0].id, 9);
}

static void check_done(struct round_trip *r)
{
    const struct engine_event in = {.type = ENGINE_DONE,
                                    .job = 5,
                                    .finish = ENGINE_STOP_STRING,
                                    .stop_string = "END",
                                    .usage = {.prompt_tokens = 10,
                                              .cached_tokens = 3,
                                              .completion_tokens = 7,
                                              .cached_from_ram = 1,
                                              .cached_from_disk = 2,
                                              .cache_bytes = (uint64_t)5 << 32,
                                              .cache_ms = 2.5,
                                              .cache_miss = "damaged",
                                              .decode_tokens_per_s = 12.5,
                                              .experts = {[ENGINE_EXPERT_ASKED] = 8,
                                                          [ENGINE_EXPERT_HITS] = 5.5,
                                                          [ENGINE_EXPERT_BUS_BYTES] = 4096},
                                              .memory = {1, 2, 3, 4, 5},
                                              .reduced_top_k = 6,
                                              .speculation = {.applied = ENGINE_SPECULATE_AUTO,
                                                              .steps = 3,
                                                              .drafted = 9,
                                                              .accepted = 5,
                                                              .drafted_at = {3, 3, 3},
                                                              .accepted_at = {3, 1, 1},
                                                              .prediction_accepted = 2,
                                                              .prediction_rejected = 4,
                                                              .draft_ms = 0.25,
                                                              .verify_ms = 1.5}}};
    write_and_read(r, &in);
    const struct engine_event *out = &r->out;
    assert_string_equal(out->stop_string, "END");
    assert_int_equal(out->usage.cached_tokens, 3);
    assert_true(out->usage.cached_from_ram == 1 && out->usage.cached_from_disk == 2);
    assert_true(out->usage.cache_bytes == (uint64_t)5 << 32 && out->usage.cache_ms == 2.5);
    assert_string_equal(out->usage.cache_miss, "damaged");
    assert_true(out->usage.decode_tokens_per_s == 12.5);
    assert_memory_equal(out->usage.experts, in.usage.experts, sizeof out->usage.experts);
    assert_memory_equal(&out->usage.memory, &in.usage.memory, sizeof out->usage.memory);
    assert_int_equal(out->usage.reduced_top_k, 6);
    assert_memory_equal(&out->usage.speculation, &in.usage.speculation,
                        sizeof in.usage.speculation);
}

static void check_failed(struct round_trip *r)
{
    write_and_read(
        r, &(struct engine_event){.type = ENGINE_FAILED,
                                  .error = {.code = ERR_BUSY, .field = "f", .text = "full"}});
    assert_int_equal(r->out.error.code, ERR_BUSY);
    assert_string_equal(r->out.error.text, "full");
}

static void check_vectors(struct round_trip *r)
{
    static const float values[] = {0.5f, -0.25f, 1, 0, 0, 1};
    write_and_read(r, &(struct engine_event){.type = ENGINE_VECTORS,
                                             .job = 5,
                                             .done = 7,
                                             .n_vectors = 2,
                                             .dimensions = 3,
                                             .values = values});
    assert_true(r->out.done == 7 && r->out.n_vectors == 2 && r->out.dimensions == 3);
    assert_memory_equal(r->out.values, values, sizeof values);
}

/* One after the other through the same box, as a client reads them. */
static void test_events_read_back_as_written(void **state)
{
    struct round_trip r = {0};
    check_tokens(&r);
    check_prompt_scores(&r);
    check_vectors(&r);
    check_done(&r);
    check_failed(&r);
    event_box_fini(&r.box);
    buf_fini(&r.written);
}

static const int32_t ends[] = {2, 3}, firsts[] = {1, 0};

static struct engine_job_params text_params(void)
{
    static const int32_t tokens[] = {5, 6, 7};
    return (struct engine_job_params){.prompt = tokens,
                                      .n_prompt = 3,
                                      .sampling = {.top_p = 1, .repetition_penalty = 1},
                                      .top_logprobs = -1,
                                      .task = ENGINE_TASK_EMBED,
                                      .text_ends = ends,
                                      .text_firsts = firsts,
                                      .n_texts = 2,
                                      .dimensions = 16};
}

static void test_texts_read_back_as_written(void **state)
{
    struct engine_job_params in = text_params(), out;
    struct buf b = {0};
    struct err e = {0};
    struct frame f;
    struct arena *a = arena_create(1 << 20);
    assert_true(message_put_submit(&b, &in, &e));
    parse_one(&b, &f);
    assert_true(message_get_submit(&f, &out, a, &e));
    assert_true(out.task == ENGINE_TASK_EMBED && out.n_texts == 2 && out.dimensions == 16);
    assert_memory_equal(out.text_ends, ends, sizeof ends);
    assert_memory_equal(out.text_firsts, firsts, sizeof firsts);
    arena_destroy(&a);
    buf_fini(&b);
}

static void test_texts_that_are_not_there_are_refused(void **state)
{
    static const int32_t bad_ends[][2] = {{0, 3}, {2, 2}, {3, 2}, {2, 4}, {1, 2}};
    struct engine_job_params p = text_params();
    struct err e = {0};
    for (size_t i = 0; i < sizeof bad_ends / sizeof *bad_ends; i++) {
        p.text_ends = bad_ends[i];
        assert_false(message_check_params(&p, &e));
        assert_string_equal(e.field, "input");
    }
    p = text_params();
    p.text_firsts = (const int32_t[]){3, 0};
    assert_false(message_check_params(&p, &e));
    p = text_params();
    p.task = ENGINE_TASK_TEXT;
    assert_false(message_check_params(&p, &e));
}

static void test_vectors_that_lie_are_refused(void **state)
{
    struct buf b = {0};
    struct engine_event out;
    struct event_box box = {0};
    struct err e = {0};
    struct frame f;
    size_t start = frame_begin(&b, FRAME_VECTORS);
    frame_put_u64(&b, 1);
    frame_put_u32(&b, 0);
    frame_put_u32(&b, 60000); /* vectors that are not there */
    frame_put_u32(&b, 60000);
    frame_end(&b, start);
    parse_one(&b, &f);
    assert_false(message_get_event(&f, &out, &box, &e));
    assert_null(box.values);
    event_box_fini(&box);
    buf_fini(&b);
}

static void test_token_count_that_lies_is_refused(void **state)
{
    struct buf b = {0};
    struct engine_event out;
    struct event_box box = {0};
    struct err e = {0};
    struct frame f;
    size_t start = frame_begin(&b, FRAME_TOKENS);
    frame_put_u64(&b, 1);
    frame_put_u32(&b, 60000); /* tokens that are not there */
    frame_end(&b, start);
    parse_one(&b, &f);
    assert_false(message_get_event(&f, &out, &box, &e));
    assert_null(box.tokens);
    event_box_fini(&box);
    buf_fini(&b);
}

static void test_header_out_of_bounds_is_refused(void **state)
{
    struct frame f;
    size_t used;
    struct err e = {0};
    const char long_frame[12] = {0, 0, 0, 5, 2, 0};
    const char unknown[12] = {0, 0, 0, 0, 99, 0};
    const char flags[12] = {0, 0, 0, 0, 2, 0, 1, 0};
    const char part[12] = {4, 0, 0, 0, 2, 0};
    assert_int_equal(frame_parse(long_frame, 12, &f, &used, &e), -1);
    assert_int_equal(e.code, ERR_LIMIT);
    assert_int_equal(frame_parse(unknown, 12, &f, &used, &e), -1);
    assert_int_equal(frame_parse(flags, 12, &f, &used, &e), -1);
    assert_int_equal(frame_parse(part, 12, &f, &used, &e), 0);
    assert_int_equal(frame_parse(part, 11, &f, &used, &e), 0);
}

static void test_reader_gives_zero_past_the_end(void **state)
{
    struct frame f = {.type = FRAME_DONE, .payload = (const unsigned char *)"\1\2\3", .len = 3};
    struct frame_reader r;
    frame_reader_init(&r, &f);
    assert_int_equal(frame_get_u32(&r), 0);
    assert_true(r.failed);
    assert_int_equal(frame_get_u64(&r), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_submit_reads_back_as_written),
        cmocka_unit_test(test_submit_cut_anywhere_is_refused),
        cmocka_unit_test(test_params_out_of_range_name_the_field),
        cmocka_unit_test(test_events_read_back_as_written),
        cmocka_unit_test(test_texts_read_back_as_written),
        cmocka_unit_test(test_texts_that_are_not_there_are_refused),
        cmocka_unit_test(test_vectors_that_lie_are_refused),
        cmocka_unit_test(test_token_count_that_lies_is_refused),
        cmocka_unit_test(test_header_out_of_bounds_is_refused),
        cmocka_unit_test(test_reader_gives_zero_past_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
