/* fcgi/relay/relay_answer.c and engine/chat/parse_relayed.c: what an upstream says comes out of the
 * job's frames as it went in. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "engine/wire/message.h"
#include "fcgi/inference/generation.h"
#include "fcgi/relay/relay_answer.h"
#include "fcgi/relay/relay_dialect.h"
#include "fcgi/process/relay_estimate.h"
#include "fcgi/process/relay_via.h"
#include "fcgi/process/shared.h"

struct heard {
    struct buf frames;
    struct relay_answer a;
    struct generation g;
    int events;
};

static void begin(struct heard *h)
{
    *h = (struct heard){0};
    h->a = (struct relay_answer){.job = 7, .events = &h->frames, .asked_ms = 1};
}

/* Reads the frames as a worker does. */
static void hear(struct heard *h)
{
    struct err e = {0};
    struct event_box box = {0};
    size_t at = 0, used;
    struct frame f;
    const struct generation_params p = {.format = CHAT_RELAYED_FORMAT};
    assert_true(generation_init(&h->g, &p, &e));
    while (at < h->frames.len) {
        struct engine_event ev;
        assert_int_equal(frame_parse(h->frames.data + at, h->frames.len - at, &f, &used, &e), 1);
        assert_true(message_get_event(&f, &ev, &box, &e));
        assert_int_equal(ev.job, 7);
        assert_true(generation_event(&h->g, &ev, &e));
        h->events++;
        at += used;
    }
    event_box_fini(&box);
}

static void end(struct heard *h)
{
    generation_fini(&h->g);
    relay_answer_fini(&h->a);
    buf_fini(&h->frames);
}

static void text(struct heard *h, bool reasoning, const char *words)
{
    relay_answer_text(&h->a, reasoning, words, strlen(words));
}

static void test_text_reasoning_and_white_space_stay_as_they_are(void **state)
{
    struct heard h;
    (void)state;
    begin(&h);
    text(&h, true, "\n think <think>");
    text(&h, true, " more\n");
    relay_answer_flush(&h.a);
    text(&h, false, "\n\n <tool_call>{} ");
    text(&h, false, "end \n");
    relay_answer_finish(&h.a, ENGINE_STOP_EOS);
    relay_answer_done(&h.a, 3);
    hear(&h);
    assert_string_equal(h.g.reasoning.data, "\n think <think> more\n");
    assert_string_equal(h.g.content.data, "\n\n <tool_call>{} end \n");
    assert_int_equal(h.g.state, GENERATION_DONE);
    assert_int_equal(h.g.n_tokens, 4);
    assert_int_equal(h.g.usage.completion_tokens, 4);
    assert_int_equal(h.g.usage.prompt_tokens, 3);
    end(&h);
}

static void test_bytes_that_are_our_marks_do_not_come_from_outside(void **state)
{
    struct heard h;
    (void)state;
    begin(&h);
    text(&h, false,
         "a\xF9x\xFA"
         "f\xFB{}\xFC"
         "b");
    relay_answer_done(&h.a, 0);
    hear(&h);
    assert_int_equal(h.g.n_calls, 0);
    assert_int_equal(h.g.reasoning.len, 0);
    assert_non_null(strstr(h.g.content.data, "b"));
    end(&h);
}

static void call(struct heard *h, int i, const char *name, const char *arguments)
{
    relay_answer_call(&h->a, i, name, arguments, strlen(arguments));
}

static void test_calls_whose_pieces_are_mixed_come_out_whole(void **state)
{
    struct heard h;
    (void)state;
    begin(&h);
    text(&h, false, "I look.");
    call(&h, 0, "one", "{\"a\"");
    call(&h, 1, "two", "");
    relay_answer_flush(&h.a);
    call(&h, 1, NULL, "{\"b\":");
    call(&h, 0, NULL, ":1}");
    call(&h, 1, NULL, "2}");
    call(&h, 3, "three", "");
    relay_answer_finish(&h.a, ENGINE_STOP_EOS);
    relay_answer_done(&h.a, 0);
    hear(&h);
    assert_string_equal(h.g.content.data, "I look.");
    assert_int_equal(h.g.n_calls, 3);
    assert_string_equal(h.g.calls[0]->name.data, "one");
    assert_string_equal(h.g.calls[0]->arguments.data, "{\"a\":1}");
    assert_string_equal(h.g.calls[1]->name.data, "two");
    assert_string_equal(h.g.calls[1]->arguments.data, "{\"b\":2}");
    assert_string_equal(h.g.calls[2]->name.data, "three");
    assert_string_equal(h.g.calls[2]->arguments.data, "{}"); /* what came was empty */
    assert_true(h.g.calls[0]->whole && h.g.calls[1]->whole && h.g.calls[2]->whole);
    assert_string_equal(generation_finish_reason(&h.g), "tool_calls");
    end(&h);
}

static void test_the_upstreams_count_is_the_answers(void **state)
{
    struct heard h;
    (void)state;
    begin(&h);
    text(&h, false, "a whole sentence in one piece");
    relay_answer_usage(&h.a, 100, 40, 9000);
    relay_answer_done(&h.a, 3);
    hear(&h);
    assert_int_equal(h.events, 2); /* the rest of the count needs no events */
    assert_int_equal(h.g.usage.prompt_tokens, 100);
    assert_int_equal(h.g.usage.cached_tokens, 40);
    assert_int_equal(h.g.usage.completion_tokens, 9000);
    end(&h);
}

static void done_with(struct heard *h, int64_t prompt, int64_t tokens)
{
    relay_answer_usage(&h->a, prompt, 0, tokens);
    relay_answer_done(&h->a, 3);
    assert_in_range(h->frames.len, 1, 4096); /* a wild count once made 16 GB of events */
    hear(h);
}

static void test_a_wild_count_is_bounded(void **state)
{
    struct heard h;
    (void)state;
    begin(&h);
    h.a.most_tokens = 50;
    h.a.most_prompt = 700;
    text(&h, false, "a");
    done_with(&h, 999999999, 999999999);
    assert_int_equal(h.g.usage.completion_tokens, 50);
    assert_int_equal(h.g.usage.prompt_tokens, 700);
    end(&h);
    begin(&h); /* nobody said how long it may be */
    done_with(&h, 5, 999999999);
    assert_int_equal(h.g.usage.completion_tokens, RELAY_MOST_TOKENS);
    assert_int_equal(h.g.usage.prompt_tokens, 5);
    end(&h);
    begin(&h); /* what came counts, whatever it says */
    for (int i = 0; i < 3; i++)
        text(&h, false, "a");
    done_with(&h, 5, 1);
    assert_int_equal(h.g.usage.completion_tokens, 3);
    end(&h);
}

static void test_an_attempt_that_gave_nothing_leaves_nothing(void **state)
{
    struct heard h;
    struct err why = {0};
    (void)state;
    begin(&h);
    call(&h, 0, NULL, "half");
    relay_answer_again(&h.a);
    text(&h, false, "B");
    err_field(&why, ERR_UNAVAILABLE, ENGINE_RELAY_REASON "upstream_broken", "it broke");
    relay_answer_fail(&h.a, &why);
    hear(&h);
    assert_string_equal(h.g.content.data, "B");
    assert_int_equal(h.g.n_calls, 0);
    assert_int_equal(h.g.state, GENERATION_FAILED);
    assert_string_equal(h.g.error.reason, "upstream_broken");
    assert_string_equal(h.g.error.field, "");
    end(&h);
}

static void test_a_request_is_read_as_it_was_put_and_cut_ones_are_refused(void **state)
{
    struct buf b = {0};
    struct err e = {0};
    struct frame f;
    size_t used;
    const struct engine_relay p = {.model = 3,
                                   .upstream = 4,
                                   .request = "{\"a\":1}",
                                   .n_request = 7,
                                   .most_tokens = 9,
                                   .via = "1.1 sluice-0123456789abcdef",
                                   .user = 5,
                                   .affinity = 6,
                                   .detached = true,
                                   .key = "up:k",
                                   .request_id = "req_1"};
    struct engine_relay got;
    (void)state;
    assert_true(message_put_relay(&b, &p, &e));
    assert_int_equal(frame_parse(b.data, b.len, &f, &used, &e), 1);
    assert_int_equal(f.type, FRAME_RELAY);
    assert_true(message_get_relay(&f, &got, &e));
    assert_true(got.model == 3 && got.upstream == 4 && got.user == 5 && got.affinity == 6);
    assert_true(got.detached && got.n_request == 7 && !memcmp(got.request, "{\"a\":1}", 7));
    assert_true(got.most_tokens == 9);
    assert_string_equal(got.via, p.via);
    assert_string_equal(got.key, "up:k");
    for (uint32_t n = 0; n < f.len; n++) {
        const struct frame cut = {.type = f.type, .payload = f.payload, .len = n};
        assert_false(message_get_relay(&cut, &got, &e));
    }
    buf_fini(&b);
}

static void test_a_request_knows_which_servers_it_came_through(void **state)
{
    struct shared *a = calloc(1, sizeof *a), *b = calloc(1, sizeof *b);
    char via[ENGINE_VIA_SIZE], next[ENGINE_VIA_SIZE], header[2048];
    struct err e = {0};
    (void)state;
    a->via_id = 0xA1;
    b->via_id = 0xB2;
    assert_true(relay_via_read(via, NULL, a, &e));
    assert_string_equal(via, "");
    relay_via_put(next, via, a);
    assert_string_equal(next, "1.1 sluice-00000000000000a1");
    snprintf(header, sizeof header, "1.0 fred, %s (x), HTTP/1.1 p.example ,%s", next, next);
    assert_true(relay_via_read(via, header, b, &e));
    assert_string_equal(via,
                        "1.1 sluice-00000000000000a1"); /* the one with a comment is not ours */
    relay_via_put(next, via, b);
    assert_string_equal(next, "1.1 sluice-00000000000000a1, 1.1 sluice-00000000000000b2");
    assert_false(relay_via_read(via, next, a, &e));
    assert_int_equal(e.code, ERR_UNAVAILABLE);
    assert_string_equal(e.reason, "upstream_loop");
    int servers = 1;
    for (relay_via_put(next, "", b); relay_via_read(via, next, a, &e); servers++) {
        b->via_id++;
        relay_via_put(next, via, b);
    }
    assert_int_equal(servers, RELAY_VIA_MOST);
    free(a);
    free(b);
}

/* The text of the frame's first event, and what it says of log probabilities. */
static void test_log_probabilities_stand_beside_the_text(void **state)
{
    struct heard h;
    struct frame f;
    struct engine_event ev;
    struct event_box box = {0};
    struct err e = {0};
    size_t used;
    cJSON *items = cJSON_Parse("[{\"token\":\"a\",\"logprob\":-1.5,\"bytes\":[97],\"more\":1,"
                               "\"top_logprobs\":[{\"token\":\"a\",\"logprob\":-1.5}]},"
                               "{\"token\":\"b\",\"logprob\":-2}]");
    (void)state;
    begin(&h);
    text(&h, true, "hm");
    relay_answer_logprobs(&h.a, items);
    text(&h, false, "ab");
    relay_answer_flush(&h.a);
    assert_int_equal(frame_parse(h.frames.data, h.frames.len, &f, &used, &e), 1);
    assert_true(message_get_event(&f, &ev, &box, &e));
    const char *at = ev.text, *end_of = at + ev.text_len, *piece;
    const size_t n = chat_relayed_logprobs(&at, end_of, &piece);
    static const char known[] =
        "{\"token\":\"a\",\"logprob\":-1.5,\"bytes\":[97],\"top_logprobs\":[{\"token\":\"a\","
        "\"logprob\":-1.5,\"bytes\":null}]},{\"token\":\"b\",\"logprob\":-2,\"bytes\":null,"
        "\"top_logprobs\":[]}";
    assert_int_equal(n, sizeof known - 1);
    assert_memory_equal(piece, known, n);
    assert_int_equal(chat_relayed_logprobs(&at, end_of, &piece), 0);
    hear(&h);
    assert_string_equal(h.g.content.data, "ab");
    assert_string_equal(h.g.reasoning.data, "hm");
    event_box_fini(&box);
    cJSON_Delete(items);
    end(&h);
}

static int64_t estimate(const char *request)
{
    return relay_estimate(request, strlen(request));
}

static void test_an_image_counts_as_one_however_large(void **state)
{
    char image[4096] = "{\"image_url\":{\"url\":\"data:image/png;base64,";
    (void)state;
    assert_int_equal(estimate("{}"), 1);
    assert_int_equal(estimate("0123456789abcdef"), 5);
    const size_t head = strlen(image);
    memset(image + head, 'A', 4000);
    memcpy(image + head + 4000, "\"}}", 4);
    assert_in_range(estimate(image), RELAY_IMAGE_TOKENS, RELAY_IMAGE_TOKENS + 20);
    memcpy(image, "{\"text\":       \"\\\"url\\\":\\\"da", 27); /* a text that looks like one */
    assert_in_range(estimate(image), 1000, 1030);
}

static void test_ollamas_dialect_drops_no_image_in_silence(void **state)
{
    static const char chat[] = "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":"
                               "\"image_url\",\"image_url\":{\"url\":\"http://h/a.png\"}}]}]}";
    struct buf out = {0};
    struct err e = {0};
    (void)state;
    cJSON *o = cJSON_Parse(chat);
    assert_false(relay_ollama.put_request(&out, o, "m", &e));
    assert_int_equal(e.code, ERR_UNSUPPORTED);
    cJSON_Delete(o);
    buf_fini(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text_reasoning_and_white_space_stay_as_they_are),
        cmocka_unit_test(test_bytes_that_are_our_marks_do_not_come_from_outside),
        cmocka_unit_test(test_calls_whose_pieces_are_mixed_come_out_whole),
        cmocka_unit_test(test_the_upstreams_count_is_the_answers),
        cmocka_unit_test(test_a_wild_count_is_bounded),
        cmocka_unit_test(test_an_attempt_that_gave_nothing_leaves_nothing),
        cmocka_unit_test(test_an_image_counts_as_one_however_large),
        cmocka_unit_test(test_ollamas_dialect_drops_no_image_in_silence),
        cmocka_unit_test(test_a_request_is_read_as_it_was_put_and_cut_ones_are_refused),
        cmocka_unit_test(test_a_request_knows_which_servers_it_came_through),
        cmocka_unit_test(test_log_probabilities_stand_beside_the_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
