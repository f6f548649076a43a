/* Compiling, mapping, damage, refusals and caching of vocabularies. */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "engine/base/file.h"
#include "engine/tokenizer/tokenizer.h"
#include "engine/tokenizer/vocab_source.h"
#include "tests/unit/text/text_cases.h"

static char folder[64], compiled[128];

static int make_folder(void **state)
{
    strcpy(folder, "/tmp/sluice-vocab-XXXXXX");
    if (!mkdtemp(folder))
        return -1;
    snprintf(compiled, sizeof compiled, "%s/compiled", folder);
    return 0;
}

static int count_files(void)
{
    int n = 0;
    DIR *d = opendir(folder);
    for (struct dirent *f; (f = readdir(d));)
        n += f->d_name[0] != '.';
    closedir(d);
    return n;
}

static int remove_folder(void **state)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command);
}

static const char *demo(void)
{
    return text_cases_path("engine/demo-model");
}

static void test_file_and_memory_hold_the_same(void **state)
{
    struct err e = {0};
    assert_true(vocab_compile(demo(), compiled, &e));
    struct vocab *a = vocab_open(compiled, &e), *b = vocab_load(demo(), NULL, &e);
    assert_non_null(a);
    assert_non_null(b);
    assert_int_equal(vocab_size(a), 8192);
    assert_int_equal(vocab_size(b), 8192);
    assert_true(vocab_fingerprint(a) == vocab_fingerprint(b));
    for (int32_t id = -2; id < 8195; id++) {
        size_t n, m;
        const char *p = vocab_bytes(a, id, &n), *q = vocab_bytes(b, id, &m);
        assert_int_equal(n, m);
        assert_true(!p == !q && (!n || !memcmp(p, q, n)));
        assert_int_equal(vocab_flags(a, id), vocab_flags(b, id));
        if (n && !(vocab_flags(a, id) & VOCAB_UNUSED)) {
            int32_t found = vocab_find(a, p, n); /* two ids may have equal bytes, if one is added */
            assert_true(found == id || vocab_flags(a, found) & VOCAB_ADDED);
        }
    }
    vocab_close(&a);
    vocab_close(&b);
}

static void test_tokens_have_their_bytes_and_flags(void **state)
{
    struct err e = {0};
    size_t n;
    struct vocab *v = text_cases_inline(
        text_cases_json(&(struct text_parts){
            .vocab = ",\"\\u0120a\":256,\"\xE2\x96\x81x\":257,\"ab\":260",
            .merges = "\"a b\"",
            .added = "{\"id\":257,\"content\":\"\xE2\x96\x81x\",\"special\":true},"
                     "{\"id\":262,\"content\":\"ab\"}"}),
        &e);
    assert_non_null(v);
    assert_int_equal(vocab_size(v), 263);
    assert_memory_equal(vocab_bytes(v, 256, &n), " a", 2);
    assert_int_equal(n, 2);
    assert_memory_equal(vocab_bytes(v, 257, &n), "\xE2\x96\x81x", 4);
    assert_int_equal(vocab_flags(v, 257), VOCAB_ADDED | VOCAB_SPECIAL);
    assert_null(vocab_bytes(v, 258, &n));
    assert_int_equal(vocab_flags(v, 258), VOCAB_UNUSED);
    assert_int_equal(vocab_flags(v, 262), VOCAB_ADDED);
    assert_int_equal(vocab_find(v, "ab", 2), 262);
    assert_int_equal(vocab_find(v, " a", 2), 256);
    assert_int_equal(vocab_find(v, "abc", 3), -1);
    assert_int_equal(vocab_find(v, "", 0), -1);
    vocab_close(&v);
}

static uint64_t fingerprint(const struct text_parts *p)
{
    struct err e = {0};
    struct vocab *v = text_cases_inline(text_cases_json(p), &e);
    assert_non_null(v);
    uint64_t f = vocab_fingerprint(v);
    vocab_close(&v);
    return f;
}

static void test_fingerprint_says_what_decides_ids(void **state)
{
    struct text_parts p = {.vocab = ",\"ab\":256,\"abc\":257", .merges = "\"a b\",\"ab c\""};
    uint64_t strings = fingerprint(&p);
    p.merges = "[\"a\",\"b\"],[\"ab\",\"c\"]";
    assert_true(fingerprint(&p) == strings);
    p.merges = "[\"ab\",\"c\"],[\"a\",\"b\"]";
    assert_true(fingerprint(&p) != strings);
    p.merges = "\"a b\",\"ab c\"";
    p.normalizer = "{\"type\":\"NFC\"}";
    assert_true(fingerprint(&p) != strings);
    p.normalizer = NULL;
    p.pre_tokenizer = "{\"type\":\"ByteLevel\",\"add_prefix_space\":false}";
    assert_true(fingerprint(&p) != strings);
}

static void test_plain_text_never_becomes_a_special_token(void **state)
{
    struct err e = {0};
    struct vocab *v =
        text_cases_inline(text_cases_json(&(struct text_parts){
                              .model = "\"type\":\"BPE\",\"ignore_merges\":true,",
                              .vocab = ",\"ab\":256",
                              .merges = "\"a b\"",
                              .added = "{\"id\":256,\"content\":\"ab\",\"special\":true}"}),
                          &e);
    assert_non_null(v);
    struct tokenizer *t = tokenizer_create(v, &e);
    struct ids ids = {0};
    assert_true(tokenizer_encode(
        t, &(struct tokenizer_input){.text = "ab", .len = 2, .mode = TOKENIZE_PLAIN}, &ids, &e));
    assert_int_equal(ids.n, 2);
    assert_true(tokenizer_encode(
        t, &(struct tokenizer_input){.text = "ab", .len = 2, .mode = TOKENIZE_SPECIAL}, &ids, &e));
    assert_int_equal(ids.n, 3);
    assert_int_equal(ids.at[2], 256);
    ids_fini(&ids);
    tokenizer_destroy(&t);
    vocab_close(&v);
}

static void refuse(const char *json, enum err_code code, const char *names)
{
    struct err e = {0};
    struct vocab *v = text_cases_inline(json, &e);
    struct tokenizer *t = v ? tokenizer_create(v, &e) : NULL;
    assert_null(t);
    if (e.code != code || (!strstr(e.text, names) && !strstr(e.field, names)))
        fail_msg("refused by code %d, '%s: %s'; expected code %d naming %s", e.code, e.field,
                 e.text, code, names);
    vocab_close(&v);
}

static void test_what_is_not_known_is_refused_by_name(void **state)
{
    struct text_parts p = {.model = "\"type\":\"WordPiece\","};
    refuse(text_cases_json(&p), ERR_UNSUPPORTED, "WordPiece");
    p.model = "\"type\":\"BPE\",\"byte_fallback\":true,";
    refuse(text_cases_json(&p), ERR_UNSUPPORTED, "byte_fallback");
    p.model = "\"type\":\"BPE\",\"end_of_word_suffix\":\"</w>\",";
    refuse(text_cases_json(&p), ERR_UNSUPPORTED, "end_of_word_suffix");
    p = (struct text_parts){.normalizer = "{\"type\":\"Lowercase\"}"};
    refuse(text_cases_json(&p), ERR_UNSUPPORTED, "Lowercase");
    p = (struct text_parts){.pre_tokenizer = "{\"type\":\"Metaspace\"}"};
    refuse(text_cases_json(&p), ERR_UNSUPPORTED, "Metaspace");
    p.pre_tokenizer = "{\"type\":\"Sequence\",\"pretokenizers\":[]}";
    refuse(text_cases_json(&p), ERR_UNSUPPORTED, "ByteLevel");
    p = (struct text_parts){.merges = "\"a b\""};
    refuse(text_cases_json(&p), ERR_FORMAT, "merge 0");
    p.merges = "\"a b c\"";
    refuse(text_cases_json(&p), ERR_FORMAT, "merge 0");
    p = (struct text_parts){.vocab = ",\"ab\":5"};
    refuse(text_cases_json(&p), ERR_FORMAT, "twice");
    p.vocab = ",\"ab\":99999999";
    refuse(text_cases_json(&p), ERR_FORMAT, "model.vocab");
    p = (struct text_parts){.added = "{\"id\":-1,\"content\":\"x\"}"};
    refuse(text_cases_json(&p), ERR_FORMAT, "added_tokens");
    refuse(
        "{\"model\":{\"type\":\"BPE\",\"unk_token\":\"<unk>\",\"vocab\":{\"a\":0},\"merges\":[]},"
        "\"pre_tokenizer\":{\"type\":\"ByteLevel\"}}",
        ERR_UNSUPPORTED, "unknown");
    refuse("{\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":[[\"<unk>\",0]]},"
           "\"normalizer\":{\"type\":\"Sequence\"},"
           "\"pre_tokenizer\":{\"type\":\"Metaspace\"}}",
           ERR_FORMAT, "normalizer");
    refuse("[]", ERR_FORMAT, "object");
    refuse("{\"model\":{\"type\":\"BPE\"", ERR_FORMAT, "/tmp/");
    refuse("GGUF", ERR_FORMAT, "ends inside the header");
}

static void test_patterns_that_mean_something_else_are_refused(void **state)
{
    static const char *const patterns[] = {"[a-z&&[^x]]+", "[[:alpha:]]+", "\\\\bx",      "(?m:x)",
                                           "(?<n>x)",      "\\\\p{Foo}",   "\\\\d{1,3}+", "(",
                                           "[a",           "\\\\X",        "(?#x)y"};
    for (size_t i = 0; i < sizeof patterns / sizeof patterns[0]; i++) {
        char pre[256];
        snprintf(
            pre, sizeof pre,
            "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\","
            "\"pattern\":{\"Regex\":\"%s\"},\"behavior\":\"Isolated\"},{\"type\":\"ByteLevel\","
            "\"add_prefix_space\":false,\"use_regex\":false}]}",
            patterns[i]);
        refuse(text_cases_json(&(struct text_parts){.pre_tokenizer = pre}), ERR_UNSUPPORTED,
               "split pattern");
    }
}

/* Without the fsync of file_write_atomic, which makes hundreds of them slow. */
static void write_file(const char *data, size_t len)
{
    FILE *f = fopen(compiled, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, len, f), len);
    assert_int_equal(fclose(f), 0);
}

static void test_damage_is_found(void **state)
{
    struct err e = {0};
    struct buf whole = {0};
    assert_true(vocab_compile(demo(), compiled, &e));
    assert_true(file_read(compiled, 1 << 24, &whole, &e));
    for (size_t at = 0; at < whole.len; at += at < 400 ? 1 : 4099) { /* each byte of the header */
        whole.data[at] = (char)(whole.data[at] ^ 0x41);
        write_file(whole.data, whole.len);
        struct vocab *v = vocab_open(compiled, &e);
        assert_null(v);
        whole.data[at] = (char)(whole.data[at] ^ 0x41);
    }
    for (size_t len = 0; len < whole.len; len += len < 400 ? 7 : 20011) {
        write_file(whole.data, len);
        struct vocab *v = vocab_open(compiled, &e);
        assert_null(v);
    }
    buf_fini(&whole);
}

/* The only file in the folder. */
static void cached_path(char *out, size_t size)
{
    DIR *d = opendir(folder);
    for (struct dirent *f; (f = readdir(d));)
        if (f->d_name[0] != '.')
            snprintf(out, size, "%s/%s", folder, f->d_name);
    closedir(d);
}

static void test_damaged_cache_is_made_anew(void **state)
{
    struct err e = {0};
    char path[512];
    struct vocab *v = vocab_load(demo(), folder, &e);
    assert_non_null(v);
    uint64_t f = vocab_fingerprint(v);
    vocab_close(&v);
    assert_int_equal(count_files(), 1);
    cached_path(path, sizeof path);
    assert_int_equal(truncate(path, 5000), 0);
    v = vocab_load(demo(), folder, &e);
    assert_non_null(v);
    assert_true(vocab_fingerprint(v) == f);
    vocab_close(&v);
    assert_int_equal(count_files(), 1);
    v = vocab_open(path, &e);
    assert_non_null(v);
    vocab_close(&v);
}

static void test_folder_that_takes_no_file_is_no_obstacle(void **state)
{
    struct err e = {0};
    struct vocab *v = vocab_load(demo(), "/proc/nowhere", &e);
    assert_non_null(v);
    vocab_close(&v);
}

static void test_processes_at_once_share_one_file(void **state)
{
    pid_t children[6];
    for (int i = 0; i < 6; i++) {
        children[i] = fork();
        if (children[i] == 0) {
            struct err e = {0};
            struct vocab *v = vocab_load(demo(), folder, &e);
            _exit(v && vocab_size(v) == 8192 ? 0 : 1);
        }
    }
    for (int i = 0; i < 6; i++) {
        int status = -1;
        waitpid(children[i], &status, 0);
        assert_int_equal(status, 0);
    }
    assert_int_equal(count_files(), 1);
}

/* GGUF names must stand for what the models' own files say. */
static void test_pre_tokenizer_names_give_the_models_patterns(void **state)
{
    static const char *const pairs[][2] = {{"qwen3", "qwen2"}, {"gpt_oss", "gpt-4o"}};
    for (size_t i = 0; i < 2; i++) {
        struct err e = {0};
        char command[4400];
        struct vocab_source from_file = {0}, from_name = {0};
        char path[4096];
        snprintf(path, sizeof path, "%s/%s/tokenizer.json.gz",
                 text_cases_path("tests/data/tokenizers"), pairs[i][0]);
        snprintf(command, sizeof command, "gzip -dc '%s' > '%s'", path, compiled);
        assert_int_equal(system(command), 0);
        struct buf b = {0};
        assert_true(file_read(compiled, 1 << 24, &b, &e));
        assert_true(vocab_source_json(&from_file, b.data, b.len, &e));
        assert_true(vocab_source_pre(&from_name, pairs[i][1], &e));
        assert_int_equal(from_file.n_splits, from_name.n_splits);
        for (size_t k = 0; k < from_name.n_splits; k++) {
            assert_int_equal(from_file.splits[k].pattern.len, from_name.splits[k].pattern.len);
            assert_memory_equal(from_file.splits[k].pattern.at, from_name.splits[k].pattern.at,
                                from_name.splits[k].pattern.len);
        }
        assert_int_equal(from_file.nfc, from_name.nfc);
        assert_int_equal(from_file.ignore_merges, from_name.ignore_merges);
        vocab_source_fini(&from_file);
        vocab_source_fini(&from_name);
        buf_fini(&b);
    }
    struct err e = {0};
    struct vocab_source s = {0};
    assert_false(vocab_source_pre(&s, "no-such-name", &e));
    assert_int_equal(e.code, ERR_UNSUPPORTED);
}

int main(void)
{
#define WITH_FOLDER(f) cmocka_unit_test_setup_teardown(f, make_folder, remove_folder)
    const struct CMUnitTest tests[] = {
        WITH_FOLDER(test_file_and_memory_hold_the_same),
        cmocka_unit_test(test_tokens_have_their_bytes_and_flags),
        cmocka_unit_test(test_fingerprint_says_what_decides_ids),
        cmocka_unit_test(test_plain_text_never_becomes_a_special_token),
        cmocka_unit_test(test_what_is_not_known_is_refused_by_name),
        cmocka_unit_test(test_patterns_that_mean_something_else_are_refused),
        WITH_FOLDER(test_damage_is_found),
        WITH_FOLDER(test_damaged_cache_is_made_anew),
        cmocka_unit_test(test_folder_that_takes_no_file_is_no_obstacle),
        WITH_FOLDER(test_processes_at_once_share_one_file),
        WITH_FOLDER(test_pre_tokenizer_names_give_the_models_patterns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
