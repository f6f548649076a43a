/* What ends with a right: memberships by the provider's word, tokens at tool servers. And that what
 * is done is not looked at again. */
#include <string.h>

#include "sql/core/store.h"
#include "sql/projects/store_vectors.h"
#include "sql/tools/store_tool_servers.h"
#include "sql/users/store_groups.h"
#include "sql/users/store_oidc.h"
#include "tests/unit/store/store_fixture.h"

static int64_t make_group(struct fixture *f, const char *name)
{
    struct err e = {0};
    int64_t id = 0;
    ASSERT_OK(store_group_add(f->store, &(struct store_group_change){.name = name}, &id, &e));
    return id;
}

static void put(struct fixture *f, int64_t group, int64_t user, bool in)
{
    struct err e = {0};
    const struct store_ids one = {&user, 1}, none = {0};
    ASSERT_OK(store_group_move(f->store,
                               &(struct store_group_moves){.group_id = group,
                                                           .add = in ? one : none,
                                                           .remove = in ? none : one},
                               &e));
}

struct moved {
    int added, removed;
};

static void count_move(void *context, int64_t group_id, bool added)
{
    struct moved *m = context;
    (void)group_id;
    *(added ? &m->added : &m->removed) += 1;
}

static struct moved claim(struct fixture *f, const char *names)
{
    struct err e = {0};
    struct moved m = {0};
    ASSERT_OK(store_group_claimed(
        f->store,
        &(struct store_group_claim){
            .user_id = f->other, .names = names, .moved = count_move, .context = &m},
        &e));
    return m;
}

static void change_setting(struct fixture *f, const char *name, const char *json, int want)
{
    struct err e = {0};
    int ended;
    ASSERT_OK(store_settings_change(f->store, &(struct store_setting){name, json}, 1, &ended, &e));
    assert_int_equal(ended, want);
}

static void test_the_providers_word_ends_with_the_link_and_with_the_provider(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    struct moved m = {0};
    const int64_t hand = make_group(f, "hand");
    make_group(f, "staff");
    put(f, hand, f->other, true);
    claim(f, "[\"staff\"]");
    ASSERT_OK(store_oidc_link(
        f->store,
        &(struct store_oidc_identity){
            .user_id = f->other, .issuer = "https://a", .subject = "1", .label = ""},
        &e));
    struct store_oidc_end end = {
        .user_id = f->other, .issuer = "https://b", .moved = count_move, .context = &m};
    ASSERT_ERR(store_oidc_unlink(f->store, &end, &e), ERR_NOTFOUND);
    assert_int_equal(fixture_number(f->path, "SELECT count(*) FROM group_members"), 2);
    end.issuer = "https://a";
    ASSERT_OK(store_oidc_unlink(f->store, &end, &e));
    assert_true(m.removed == 1 && m.added == 0);
    assert_int_equal(fixture_number(f->path, "SELECT group_id FROM group_members"), hand);
    change_setting(f, "oidc_groups_claim", "\"groups\"", 0);
    change_setting(f, "oidc_issuer", "\"https://a\"", 0);
    claim(f, "[\"staff\"]");
    change_setting(f, "oidc_groups_claim", "\"groups\"", 0); /* as it was */
    change_setting(f, "oidc_name", "\"A\"", 0);
    change_setting(f, "oidc_issuer", "\"https://b\"", 1);
    claim(f, "[\"staff\"]");
    change_setting(f, "oidc_groups_claim", NULL, 1);
    assert_int_equal(fixture_number(f->path, "SELECT group_id FROM group_members"), hand);
}

/* Tokens of the user at the group's server, given anew. */
static int64_t signed_in(struct fixture *f, bool again)
{
    if (again)
        fixture_number(f->path, "INSERT OR REPLACE INTO tool_sign_ins (user_id, server_id, about, "
                                "sealed, expires_at, created_at) SELECT u.id, t.id, '{}', x'01', "
                                "0, 0 FROM users u, tool_servers t RETURNING 1");
    return fixture_number(f->path, "SELECT count(*) FROM tool_sign_ins i JOIN users u ON u.id = "
                                   "i.user_id AND u.role = 'user'");
}

static void test_tokens_go_with_the_right_to_see_their_server(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    int64_t server = 0;
    const int64_t group = make_group(f, "staff");
    const struct store_tool_server x = {
        .name = "docs", .url = "https://a", .header = "A", .tools = "[]", .enabled = true};
    const struct store_ids only = {&group, 1}, none = {0};
    struct store_tool_server found;
    ASSERT_OK(store_tool_server_add(f->store, &x, NULL, &server, &e));
    const struct store_ref ref = {.user_id = f->other, .id = server};
    assert_int_equal(signed_in(f, true), 1);
    ASSERT_OK(store_tool_server_set_groups(f->store, server, &only, &e));
    assert_int_equal(signed_in(f, false), 0);
    assert_int_equal(fixture_number(f->path, "SELECT count(*) FROM tool_sign_ins"), 1); /* admin */
    put(f, group, f->other, true);
    assert_int_equal(signed_in(f, true), 1);
    put(f, group, f->other, false);
    assert_int_equal(signed_in(f, false), 0);
    ASSERT_ERR(store_tool_server_signed(f->store, f->arena, &ref, &found, &e), ERR_NOTFOUND);
    assert_int_equal(signed_in(f, true), 1); /* as an older version left them */
    ASSERT_ERR(store_tool_server_get(f->store, f->arena, &ref, &found, &e), ERR_NOTFOUND);
    ASSERT_OK(store_tool_server_signed(f->store, f->arena, &ref, &found, &e));
    claim(f, "[\"staff\"]");
    assert_int_equal(signed_in(f, true), 1);
    claim(f, "[]");
    assert_int_equal(signed_in(f, false), 0);
    put(f, group, f->other, true);
    assert_int_equal(signed_in(f, true), 1);
    ASSERT_OK(store_group_change(f->store, group,
                                 &(struct store_group_change){.tool_servers = &none}, &e));
    assert_int_equal(signed_in(f, false), 0);
    ASSERT_OK(store_tool_server_set_groups(f->store, server, &only, &e));
    assert_int_equal(signed_in(f, true), 1);
    ASSERT_OK(store_group_remove(f->store, group, &e));
    assert_int_equal(signed_in(f, false), 0);
}

static void test_passages_with_vectors_are_not_read_again(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    struct store_vector_work w = {.model = "0123456789abcdef"};
    const int8_t vector[8] = {1};
    fixture_number(f->path, "INSERT INTO file_chunks (id, attachment_id, start, bytes) VALUES "
                            "(5, 1, 0, 4), (9, 1, 4, 4) RETURNING 1");
    fixture_number(f->path, "INSERT INTO chunk_vectors SELECT id, '0123456789abcdef', x'01' FROM "
                            "file_chunks WHERE id IN (5, 9) RETURNING 1");
    ASSERT_OK(store_vectors_next(f->store, &w, &e));
    assert_int_equal(w.n, 0);
    assert_int_equal(w.after, 9);
    w = (struct store_vector_work){.model = "fedcba9876543210", .n = 1, .at = {{.id = 5}}};
    ASSERT_OK(store_vectors_put(f->store, &w, vector, 8, &e));
    assert_int_equal(fixture_number(f->path, "SELECT count(*) FROM chunk_vectors WHERE model = "
                                             "'fedcba9876543210'"),
                     1);
}

#define T(name) cmocka_unit_test_setup_teardown(name, fixture_up, fixture_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_the_providers_word_ends_with_the_link_and_with_the_provider),
        T(test_tokens_go_with_the_right_to_see_their_server),
        T(test_passages_with_vectors_are_not_read_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
