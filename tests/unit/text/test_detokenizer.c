/* Streams of ids to text: exactly what may be sent after each id, and nothing lost at the end. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "engine/tokenizer/detokenizer.h"
#include "tests/unit/text/text_cases.h"

static bool same(const struct buf *out, size_t from, const struct buf *want)
{
    return out->len - from == want->len &&
           (!want->len || !memcmp(out->data + from, want->data, want->len));
}

static int wrong_streams(const char *dir, const char *name, const char *file, bool pieces)
{
    struct text_cases cases = {0};
    struct vocab *v = text_cases_vocab(dir, name);
    text_cases_read(&cases, dir, name, file);
    assert_true(cases.n > 20);
    int wrong = 0;
    for (size_t i = 0; i < cases.n; i++) {
        struct text_case *c = &cases.at[i];
        struct detokenizer d;
        struct buf out = {0};
        bool ok = !pieces || c->n_emit == c->ids.n;
        detokenizer_init(&d, v, true);
        for (size_t k = 0; k < c->ids.n; k++) {
            size_t before = out.len;
            assert_true(detokenizer_push(&d, c->ids.at[k], &out));
            ok = ok && (!pieces || same(&out, before, &c->emit[k]));
        }
        size_t before = out.len;
        assert_true(detokenizer_flush(&d, &out));
        ok = ok && (!pieces || same(&out, before, &c->flush)) && same(&out, 0, &c->decoded);
        if (!ok) {
            print_error("%s: %s: other text\n", name, c->id);
            wrong++;
        }
        buf_fini(&out);
    }
    print_message("%s/%s: %zu cases\n", name, file, cases.n);
    text_cases_free(&cases);
    vocab_close(&v);
    return wrong;
}

static int wrong_of(const char *dir, const char *name)
{
    return wrong_streams(dir, name, "streaming.jsonl", true) +
           wrong_streams(dir, name, "cases.jsonl", false);
}

static void test_qwen3_streams_give_their_pieces(void **state)
{
    assert_int_equal(wrong_of(text_cases_path("tests/data/tokenizers"), "qwen3"), 0);
}

static void test_gpt_oss_streams_give_their_pieces(void **state)
{
    assert_int_equal(wrong_of(text_cases_path("tests/data/tokenizers"), "gpt_oss"), 0);
}

/* The demo model: 8184 <|im_start|> is special, <think> (of ids 8186 to 8191) is not. */
static void test_special_tokens_are_hidden_unless_asked_for(void **state)
{
    struct err e = {0};
    struct vocab *v = vocab_load(text_cases_path("engine/demo-model"), NULL, &e);
    assert_non_null(v);
    int32_t think = vocab_find(v, "<think>", 7);
    assert_true(think >= 8186);
    int32_t half = vocab_find(v, "\xC3", 1), rest = vocab_find(v, "\xA9", 1);
    struct detokenizer d;
    struct buf out = {0};
    detokenizer_init(&d, v, false);
    /* a hidden token within a character does not cut it */
    assert_true(detokenizer_push(&d, half, &out) && detokenizer_push(&d, 8184, &out) &&
                detokenizer_push(&d, rest, &out) && detokenizer_push(&d, think, &out));
    assert_string_equal(out.data, "\xC3\xA9<think>");
    buf_clear(&out);
    detokenizer_init(&d, v, true);
    assert_true(detokenizer_push(&d, half, &out) && detokenizer_push(&d, 8184, &out) &&
                detokenizer_flush(&d, &out));
    assert_string_equal(out.data, "\xEF\xBF\xBD<|im_start|>");
    buf_fini(&out);
    vocab_close(&v);
}

static void test_ids_without_a_token_give_nothing(void **state)
{
    struct err e = {0};
    struct vocab *v = vocab_load(text_cases_path("engine/demo-model"), NULL, &e);
    struct detokenizer d;
    struct buf out = {0};
    detokenizer_init(&d, v, true);
    const int32_t none[] = {-1, INT32_MIN, INT32_MAX, vocab_size(v)};
    for (size_t i = 0; i < 4; i++)
        assert_true(detokenizer_push(&d, none[i], &out));
    assert_true(detokenizer_flush(&d, &out));
    assert_int_equal(out.len, 0);
    buf_fini(&out);
    vocab_close(&v);
}

int main(int argc, char **argv)
{
    if (argc > 3 && !strcmp(argv[1], "--cases")) {
        int wrong = 0;
        for (int i = 3; i < argc; i++)
            wrong += wrong_of(argv[2], argv[i]);
        return wrong != 0;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_qwen3_streams_give_their_pieces),
        cmocka_unit_test(test_gpt_oss_streams_give_their_pieces),
        cmocka_unit_test(test_special_tokens_are_hidden_unless_asked_for),
        cmocka_unit_test(test_ids_without_a_token_give_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
