/* When a session was last confirmed; passkeys and their counters; challenges, each taken once. */
#include <stdio.h>
#include <string.h>

#include "engine/base/clock.h"
#include "sql/core/statement.h"
#include "sql/users/store_passkeys.h"
#include "sql/users/store_users.h"
#include "tests/unit/store/store_fixture.h"

static void open_session(struct fixture *f, int64_t user, int64_t created_at,
                         unsigned char hash[SECRET_HASH_BYTES])
{
    struct err e = {0};
    struct store_session n = {.user_id = user, .created_at = created_at};
    char token[SECRET_TOKEN_SIZE];
    secret_token(token);
    secret_hash(token, hash);
    memcpy(n.token_hash, hash, SECRET_HASH_BYTES);
    ASSERT_OK(store_session_add(f->store, &n, &e));
}

static bool confirmed(struct fixture *f, const unsigned char *hash, int64_t ms, bool use_up)
{
    struct err e = {0};
    bool yes = false;
    const struct store_confirmation c = {
        .token_hash = hash, .since_ms = clock_wall_ms() - ms, .use_up = use_up};
    ASSERT_OK(store_session_confirmed(f->store, &c, &yes, &e));
    return yes;
}

static void test_a_login_confirms_its_session_for_a_while(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    unsigned char mine[SECRET_HASH_BYTES], old[SECRET_HASH_BYTES];
    open_session(f, f->user, 0, mine);
    open_session(f, f->user, clock_wall_ms() - 3600000, old);
    assert_true(confirmed(f, mine, 60000, false));
    assert_false(confirmed(f, old, 60000, false));
    ASSERT_OK(store_session_confirm(f->store, old, &e));
    assert_true(confirmed(f, old, 60000, false));
    assert_true(confirmed(f, old, 60000, true)); /* used up: it serves once */
    assert_false(confirmed(f, old, 60000, true));
    assert_false(confirmed(f, old, 60000, false));
    assert_true(confirmed(f, mine, 60000, false)); /* each session for itself */
}

static void test_a_confirmation_from_after_now_is_none(void **state)
{
    struct fixture *f = *state;
    unsigned char hash[SECRET_HASH_BYTES];
    open_session(f, f->user, clock_wall_ms() + 3600000, hash); /* the clock was set back since */
    assert_false(confirmed(f, hash, 60000, false));
}

static int64_t add(struct fixture *f, int64_t user, const char *credential, int64_t counter)
{
    struct err e = {0};
    int64_t id = 0;
    const struct store_passkey p = {.user_id = user,
                                    .credential_id = (const unsigned char *)credential,
                                    .credential_id_len = strlen(credential),
                                    .algorithm = -7,
                                    .public_key = (const unsigned char *)"key",
                                    .public_key_len = 3,
                                    .counter = counter,
                                    .transports = "internal",
                                    .name = "my phone"};
    ASSERT_OK(store_passkey_add(f->store, &p, &id, &e));
    return id;
}

static bool find(struct fixture *f, const char *credential, struct store_passkey *out,
                 struct err *e)
{
    return store_passkey_find(f->store, f->arena, (const unsigned char *)credential,
                              strlen(credential), out, e);
}

static bool use(struct fixture *f, const struct store_passkey *p, int64_t counter)
{
    struct err e = {0};
    struct store_passkey next = *p;
    bool ahead = false;
    next.counter = counter;
    ASSERT_OK(store_passkey_use(f->store, &next, &ahead, &e));
    return ahead;
}

static void test_a_counter_never_goes_back(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    struct store_passkey p;
    add(f, f->user, "counts", 5);
    add(f, f->user, "counts none", 0);
    ASSERT_OK(find(f, "counts", &p, &e));
    assert_int_equal(p.user_id, f->user);
    assert_string_equal(p.name, "my phone");
    assert_false(use(f, &p, 5));
    assert_false(use(f, &p, 4));
    assert_false(use(f, &p, 0));
    assert_true(use(f, &p, 6));
    assert_false(use(f, &p, 6));
    ASSERT_OK(find(f, "counts none", &p, &e));
    assert_int_equal(p.used_at, 0);
    assert_true(use(f, &p, 0));
    assert_true(use(f, &p, 0));
    assert_true(use(f, &p, 1));
    assert_false(use(f, &p, 0)); /* once it counts, it counts on */
    ASSERT_OK(find(f, "counts none", &p, &e));
    assert_true(p.used_at > 0);
}

static void test_a_passkey_is_its_owners_alone(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    struct store_passkey p;
    int64_t n = 0;
    const int64_t id = add(f, f->user, "ours", 0);
    const struct store_passkey again = {.user_id = f->other,
                                        .credential_id = (const unsigned char *)"ours",
                                        .credential_id_len = 4,
                                        .algorithm = -7,
                                        .public_key = (const unsigned char *)"key",
                                        .public_key_len = 3,
                                        .name = "theirs"};
    ASSERT_ERR(store_passkey_add(f->store, &again, &n, &e), ERR_CONFLICT);
    const struct store_passkey theirs = {.id = id, .user_id = f->other, .name = "theirs"};
    ASSERT_ERR(store_passkey_rename(f->store, &theirs, &e), ERR_NOTFOUND);
    ASSERT_ERR(store_passkey_remove(f->store, f->other, id, &e), ERR_NOTFOUND);
    assert_false(use(f, &theirs, 9));
    ASSERT_OK(store_user_set_disabled(f->store, f->other, true, &e));
    ASSERT_OK(find(f, "ours", &p, &e));
    ASSERT_OK(store_passkey_remove(f->store, f->user, id, &e));
    ASSERT_ERR(find(f, "ours", &p, &e), ERR_NOTFOUND);
}

static void test_who_may_not_log_in_has_no_passkey(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    struct store_passkey p;
    add(f, f->other, "bobs", 0);
    ASSERT_OK(store_user_set_disabled(f->store, f->other, true, &e));
    ASSERT_ERR(find(f, "bobs", &p, &e), ERR_NOTFOUND);
    ASSERT_OK(store_user_set_disabled(f->store, f->other, false, &e));
    ASSERT_OK(find(f, "bobs", &p, &e));
    const struct store_new_password reset = {.hash = fixture_hash, .revoke_passkeys = true};
    ASSERT_OK(store_user_set_password(f->store, f->other, &reset, &e));
    ASSERT_ERR(find(f, "bobs", &p, &e), ERR_NOTFOUND);
    add(f, f->other, "bobs", 0);
    ASSERT_OK(store_user_remove(f->store, f->other, &e));
    assert_int_equal(fixture_number(f->path, "SELECT count(*) FROM webauthn_credentials"), 0);
}

static void test_a_user_has_so_many_passkeys(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    char name[16] = "";
    int64_t id = 0;
    for (int i = 0; i < STORE_PASSKEYS_MAX; i++) {
        snprintf(name, sizeof name, "key %d", i);
        add(f, f->user, name, 0);
    }
    const struct store_passkey more = {.user_id = f->user,
                                       .credential_id = (const unsigned char *)"more",
                                       .credential_id_len = 4,
                                       .algorithm = -7,
                                       .public_key = (const unsigned char *)"key",
                                       .public_key_len = 3,
                                       .name = "more"};
    ASSERT_ERR(store_passkey_add(f->store, &more, &id, &e), ERR_LIMIT);
}

static bool take(struct fixture *f, const char *challenge, const char *purpose, int asker)
{
    struct err e = {0};
    bool good = false;
    struct store_challenge c = {.challenge = challenge, .purpose = purpose};
    memset(c.asked_by, asker, sizeof c.asked_by);
    ASSERT_OK(store_challenge_take(f->store, &c, &good, &e));
    return good;
}

static void ask(struct fixture *f, const char *challenge, const char *purpose, int asker)
{
    struct err e = {0};
    struct store_challenge c = {.challenge = challenge, .purpose = purpose};
    memset(c.asked_by, asker, sizeof c.asked_by);
    ASSERT_OK(store_challenge_add(f->store, &c, &e));
}

static void test_a_challenge_is_taken_once_by_who_asked(void **state)
{
    struct fixture *f = *state;
    ask(f, "one", "login", 1);
    assert_false(take(f, "one", "login", 2));
    assert_false(take(f, "one", "confirm", 1));
    assert_false(take(f, "two", "login", 1));
    assert_true(take(f, "one", "login", 1));
    assert_false(take(f, "one", "login", 1));
    ask(f, "old", "login", 1);
    ask(f, "new", "login", 1); /* in the place of the other */
    ask(f, "beside", "confirm", 1);
    assert_false(take(f, "old", "login", 1));
    assert_true(take(f, "new", "login", 1));
    assert_true(take(f, "beside", "confirm", 1));
}

static void test_an_expired_challenge_is_none(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    ask(f, "late", "login", 1);
    ASSERT_OK(store_exec(f->store, "UPDATE webauthn_challenges SET expires_at = 1", &e));
    assert_false(take(f, "late", "login", 1));
    ask(f, "next", "login", 2); /* clears what has expired */
    assert_int_equal(fixture_number(f->path, "SELECT count(*) FROM webauthn_challenges"), 1);
}

int main(void)
{
#define EACH(test) cmocka_unit_test_setup_teardown(test, fixture_up, fixture_down)
    const struct CMUnitTest tests[] = {
        EACH(test_a_login_confirms_its_session_for_a_while),
        EACH(test_a_confirmation_from_after_now_is_none),
        EACH(test_a_counter_never_goes_back),
        EACH(test_a_passkey_is_its_owners_alone),
        EACH(test_who_may_not_log_in_has_no_passkey),
        EACH(test_a_user_has_so_many_passkeys),
        EACH(test_a_challenge_is_taken_once_by_who_asked),
        EACH(test_an_expired_challenge_is_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
