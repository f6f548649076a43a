/* Second factors: codes, recovery codes, and the sealed secret. */
#include <liboath/oath.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/base/buf.h"
#include "engine/base/clock.h"
#include "engine/base/file.h"
#include "sql/chats/store_tree.h"
#include "sql/users/store_factor.h"
#include "sql/users/store_invites.h"
#include "sql/users/store_limits.h"
#include "sql/users/store_users.h"
#include "tests/unit/store/store_fixture.h"

/* RFC 6238, appendix B, SHA-1: the last six of its eight digits. */
static void test_codes_are_those_of_the_rfc(void **state)
{
    static const struct {
        int64_t at;
        const char *code;
    } rows[] = {{59, "287082"},         {1111111109, "081804"}, {1111111111, "050471"},
                {1234567890, "005924"}, {2000000000, "279037"}, {20000000000, "353130"}};
    const unsigned char *secret = (const unsigned char *)"12345678901234567890";
    char text[OTP_BASE32_SIZE];
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const int64_t step = rows[i].at / OTP_STEP_S;
        assert_int_equal(otp_match(secret, rows[i].code, rows[i].at, 0), step);
        assert_int_equal(otp_match(secret, rows[i].code, rows[i].at + 30, 0),
                         step); /* a slow clock */
        assert_int_equal(otp_match(secret, rows[i].code, rows[i].at - 30, 0), step);
        assert_int_equal(otp_match(secret, rows[i].code, rows[i].at + 90, 0), -1);
        assert_int_equal(otp_match(secret, rows[i].code, rows[i].at, step), -1); /* seen */
    }
    static const char *const bad[] = {"",        "28708",  "2870820", "28708a",
                                      " 287082", "-87082", "000000"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(otp_match(secret, bad[i], 59, 0), -1);
    assert_true(otp_base32(secret, text));
    assert_string_equal(text, "GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ");
}

/* What an app shows in that step. */
static void code_at(const unsigned char *secret, int64_t step, char out[8])
{
    assert_int_equal(oath_totp_generate((const char *)secret, OTP_SECRET_BYTES,
                                        (time_t)(step * OTP_STEP_S), OTP_STEP_S, 0, OTP_DIGITS,
                                        out),
                     OATH_OK);
}

static void make_recovery(char codes[][SECRET_PASSWORD_SIZE],
                          unsigned char hashes[][SECRET_HASH_BYTES])
{
    for (int i = 0; i < STORE_RECOVERY_CODES; i++) {
        secret_password(codes[i]);
        secret_hash(codes[i], hashes[i]);
    }
}

static void test_a_factor_is_proven_asked_for_and_taken_away(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    struct store_factor g;
    unsigned char secret[OTP_SECRET_BYTES], hashes[STORE_RECOVERY_CODES][SECRET_HASH_BYTES];
    char codes[STORE_RECOVERY_CODES][SECRET_PASSWORD_SIZE], code[8];
    const unsigned char(*recovery)[SECRET_HASH_BYTES] =
        (const unsigned char(*)[SECRET_HASH_BYTES])hashes;
    bool by_recovery;
    make_recovery(codes, hashes);
    ASSERT_ERR(store_factor_confirm(f->store,
                                    &(struct store_factor_confirmation){
                                        .user_id = f->user, .code = "000000", .recovery = recovery},
                                    &e),
               ERR_CONFLICT);
    otp_secret(secret);
    ASSERT_OK(store_factor_begin(f->store, f->user, secret, &e));
    otp_secret(secret); /* once more: the first was never used */
    ASSERT_OK(store_factor_begin(f->store, f->user, secret, &e));
    ASSERT_OK(store_factor_get(f->store, f->user, &g, &e));
    assert_false(g.on);
    code_at(secret, clock_wall_s() / OTP_STEP_S, code);
    ASSERT_ERR(store_factor_confirm(f->store,
                                    &(struct store_factor_confirmation){
                                        .user_id = f->user,
                                        .code = strcmp(code, "123456") ? "123456" : "654321",
                                        .recovery = recovery},
                                    &e),
               ERR_INPUT);
    ASSERT_OK(store_factor_confirm(
        f->store,
        &(struct store_factor_confirmation){.user_id = f->user, .code = code, .recovery = recovery},
        &e));
    ASSERT_OK(store_factor_get(f->store, f->user, &g, &e));
    assert_true(g.on && g.recovery_codes == STORE_RECOVERY_CODES);
    ASSERT_ERR(store_factor_begin(f->store, f->user, secret, &e), ERR_CONFLICT);
    ASSERT_ERR(store_factor_check(f->store, f->user, code, &by_recovery, &e),
               ERR_AUTH); /* used to prove it */
    code_at(secret, clock_wall_s() / OTP_STEP_S + 1, code);
    ASSERT_OK(store_factor_check(f->store, f->user, code, &by_recovery, &e));
    assert_false(by_recovery);
    ASSERT_ERR(store_factor_check(f->store, f->user, code, &by_recovery, &e), ERR_AUTH);
    /* recovery codes: once each, however they are typed, and nobody else's */
    char loose[64];
    snprintf(loose, sizeof loose, "%.5s%.5s %.5s-%.5s", codes[0], codes[0] + 6, codes[0] + 12,
             codes[0] + 18);
    loose[0] = loose[0] >= 'a' ? (char)(loose[0] - 32) : loose[0];
    ASSERT_ERR(store_factor_check(f->store, f->other, codes[0], &by_recovery, &e), ERR_AUTH);
    ASSERT_OK(store_factor_check(f->store, f->user, loose, &by_recovery, &e));
    assert_true(by_recovery);
    ASSERT_ERR(store_factor_check(f->store, f->user, codes[0], &by_recovery, &e), ERR_AUTH);
    ASSERT_OK(store_factor_new_codes(f->store, f->user, recovery, &e));
    ASSERT_OK(store_factor_check(f->store, f->user, codes[0], &by_recovery, &e));
    ASSERT_OK(store_factor_remove(f->store, f->user, &e));
    assert_int_equal(fixture_number(f->path, "SELECT count(*) FROM recovery_codes"), 0);
    ASSERT_ERR(store_factor_check(f->store, f->user, codes[1], &by_recovery, &e), ERR_AUTH);
}

static bool holds_bytes(const char *path, const unsigned char *what, size_t n)
{
    struct err e = {0};
    struct buf b = {0};
    bool found = false;
    if (file_read(path, 64 << 20, &b, &e))
        for (size_t i = 0; i + n <= b.len && !found; i++)
            found = !memcmp(b.data + i, what, n);
    buf_fini(&b);
    return found;
}

/* The database alone makes no codes; without its key recovery codes serve, and another key opens
 * nothing. */
static void test_a_secret_lies_sealed(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    struct stat st;
    unsigned char secret[OTP_SECRET_BYTES], hashes[STORE_RECOVERY_CODES][SECRET_HASH_BYTES];
    char codes[STORE_RECOVERY_CODES][SECRET_PASSWORD_SIZE], code[8], key[400], aside[400], wal[400];
    const unsigned char(*recovery)[SECRET_HASH_BYTES] =
        (const unsigned char(*)[SECRET_HASH_BYTES])hashes;
    bool by_recovery;
    int lost = -1;
    snprintf(key, sizeof key, "%s/factor.key", f->folder);
    snprintf(aside, sizeof aside, "%s/aside.key", f->folder);
    snprintf(wal, sizeof wal, "%s-wal", f->path);
    assert_int_equal(stat(key, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(st.st_size, 32);
    make_recovery(codes, hashes);
    otp_secret(secret);
    ASSERT_OK(store_factor_begin(f->store, f->user, secret, &e));
    code_at(secret, clock_wall_s() / OTP_STEP_S, code);
    ASSERT_OK(store_factor_confirm(
        f->store,
        &(struct store_factor_confirmation){.user_id = f->user, .code = code, .recovery = recovery},
        &e));
    assert_false(holds_bytes(f->path, secret, sizeof secret) ||
                 holds_bytes(wal, secret, sizeof secret));
    assert_true(holds_bytes(wal, hashes[0],
                            sizeof hashes[0])); /* so it was looked for in the right place */
    ASSERT_OK(store_factor_lost(f->store, &lost, &e));
    assert_int_equal(lost, 0);
    code_at(secret, clock_wall_s() / OTP_STEP_S + 1, code);
    assert_int_equal(rename(key, aside), 0);
    for (int i = 0; i < 2; i++) {
        ASSERT_ERR(store_factor_check(f->store, f->user, code, &by_recovery, &e), ERR_AUTH);
        assert_non_null(strstr(e.text, "lost the key"));
        ASSERT_OK(store_factor_check(f->store, f->user, codes[i], &by_recovery, &e));
        assert_true(by_recovery);
        ASSERT_OK(store_factor_lost(f->store, &lost, &e));
        assert_int_equal(lost, 1);
        if (i == 0) /* someone else's secret: that makes another key */
            ASSERT_OK(store_factor_begin(f->store, f->other, secret, &e));
    }
    assert_int_equal(rename(aside, key), 0);
    ASSERT_OK(store_factor_check(f->store, f->user, code, &by_recovery, &e));
    assert_false(by_recovery);
    /* a row that was given to another user does not open */
    fixture_number(f->path, "UPDATE second_factors SET sealed = (SELECT sealed FROM second_factors "
                            "WHERE user_id = 1), confirmed_at = 1 WHERE user_id = 2");
    ASSERT_OK(store_factor_lost(f->store, &lost, &e));
    assert_int_equal(lost, 1);
}

/* Eight processes with one code, one with it gets in. */
static void test_one_code_lets_one_in(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    unsigned char secret[OTP_SECRET_BYTES], hashes[STORE_RECOVERY_CODES][SECRET_HASH_BYTES];
    char codes[STORE_RECOVERY_CODES][SECRET_PASSWORD_SIZE], code[8];
    int in = 0, status;
    make_recovery(codes, hashes);
    otp_secret(secret);
    ASSERT_OK(store_factor_begin(f->store, f->user, secret, &e));
    code_at(secret, clock_wall_s() / OTP_STEP_S, code);
    ASSERT_OK(
        store_factor_confirm(f->store,
                             &(struct store_factor_confirmation){
                                 .user_id = f->user,
                                 .code = code,
                                 .recovery = (const unsigned char(*)[SECRET_HASH_BYTES])hashes},
                             &e));
    code_at(secret, clock_wall_s() / OTP_STEP_S + 1, code);
    for (int i = 0; i < 8; i++)
        if (fork() == 0) {
            struct err why = {0};
            bool recovery;
            struct store *mine = fixture_open(f, false);
            bool ok =
                mine && store_factor_check(mine, f->user, i % 2 ? code : codes[3], &recovery, &why);
            _exit(ok ? 1 : 0);
        }
    while (wait(&status) > 0)
        in += WEXITSTATUS(status);
    assert_int_equal(in, 2); /* one by the app's code, one by the recovery code */
}

#define T(name) cmocka_unit_test_setup_teardown(name, fixture_up, fixture_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_codes_are_those_of_the_rfc),
        T(test_a_factor_is_proven_asked_for_and_taken_away),
        T(test_a_secret_lies_sealed),
        T(test_one_code_lets_one_in),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
