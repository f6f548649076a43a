/* Groups: what they carry holds for who is in them, and no longer; limits; the sign-in provider's
 * word; invitations. And projects that are shared: who reads, who changes, and what is left when
 * it ends. */
#include <stdlib.h>
#include <string.h>

#include "sql/chats/store_sorting.h"
#include "sql/core/secret.h"
#include "sql/models/store_models.h"
#include "sql/projects/store_project_files.h"
#include "sql/projects/store_project_shares.h"
#include "sql/projects/store_projects.h"
#include "sql/tools/store_tool_servers.h"
#include "sql/users/store_groups.h"
#include "sql/users/store_invites.h"
#include "tests/unit/store/attachment_fixture.h"
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

/* --- groups ---------------------------------------------------------------------------------- */

static bool may_use(struct fixture *f, int64_t user, const char *model)
{
    struct err e = {0};
    struct store_model m;
    return store_model_find(f->store, f->arena, &(struct store_model_ask){user, model}, &m, &e);
}

static void test_a_model_of_a_group_is_there_while_one_is_a_member(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    int64_t model = 0;
    const int64_t group = make_group(f, "Research");
    ASSERT_OK(store_model_add(f->store, &(struct store_model){.name = "big", .everyone = false},
                              &model, &e));
    assert_false(may_use(f, f->other, "big"));
    ASSERT_OK(store_group_change(
        f->store, group, &(struct store_group_change){.models = &(struct store_ids){&model, 1}},
        &e));
    assert_false(may_use(f, f->other, "big"));
    put(f, group, f->other, true);
    assert_true(may_use(f, f->other, "big"));
    put(f, group, f->other, false);
    assert_false(may_use(f, f->other, "big"));
    put(f, group, f->other, true);
    ASSERT_OK(store_group_remove(f->store, group, &e));
    assert_false(may_use(f, f->other, "big"));
    assert_true(may_use(f, f->user, "big")); /* an admin */
}

static bool count_server(void *context, const struct store_tool_server *x)
{
    (void)x;
    ++*(int *)context;
    return true;
}

static int servers_of(struct fixture *f, int64_t user)
{
    struct err e = {0};
    int n = 0;
    ASSERT_OK(store_tool_server_list(f->store, user, count_server, &n, &e));
    return n;
}

static void test_a_tool_server_of_a_group_is_no_one_elses(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    int64_t id = 0, own = 0;
    struct store_tool_server x = {
        .name = "search", .url = "https://search.test/mcp", .header = "X", .tools = "[]"};
    const int64_t group = make_group(f, "Research");
    const struct store_ids groups = {&group, 1}, no_such = {&(int64_t){99}, 1};
    const struct store_tool_permission allow = {
        f->other, 1, "find", "0123456789012345678901234567890123456789012345678901234567890123"};
    bool allowed = true;
    ASSERT_OK(store_tool_server_add(f->store, &x, NULL, &id, &e));
    assert_int_equal(servers_of(f, f->other), 1);
    ASSERT_OK(store_tool_server_set_groups(f->store, id, &groups, &e));
    assert_int_equal(servers_of(f, f->other), 0);
    assert_int_equal(servers_of(f, f->user), 1);
    ASSERT_ERR(store_tool_server_get(f->store, f->arena, &(struct store_ref){f->other, id}, &x, &e),
               ERR_NOTFOUND);
    (void)store_tool_permission_add(f->store, &allow, &(struct err){0}); /* it is not there */
    ASSERT_OK(store_tool_permission_find(f->store, &allow, &allowed, &e));
    assert_false(allowed);
    put(f, group, f->other, true);
    assert_int_equal(servers_of(f, f->other), 1);
    ASSERT_ERR(store_tool_server_set_groups(f->store, id, &no_such, &e), ERR_INPUT);
    ASSERT_OK(store_group_remove(f->store, group, &e));
    assert_int_equal(servers_of(f, f->other), 0); /* for nobody, not for everyone */
    ASSERT_OK(store_tool_server_set_groups(f->store, id, NULL, &e));
    assert_int_equal(servers_of(f, f->other), 1);
    x = (struct store_tool_server){.user_id = f->other,
                                   .name = "mine",
                                   .url = "https://mine.test/mcp",
                                   .header = "X",
                                   .tools = "[]"};
    ASSERT_OK(store_tool_server_add(f->store, &x, NULL, &own, &e));
    ASSERT_ERR(store_tool_server_set_groups(f->store, own, NULL, &e), ERR_NOTFOUND);
}

static void limit(struct fixture *f, int64_t group, struct store_user_limits l)
{
    struct err e = {0};
    ASSERT_OK(store_group_change(f->store, group, &(struct store_group_change){.limits = &l}, &e));
}

static void test_of_several_groups_the_most_generous_limit_counts(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    struct store_limits_given g;
    const int64_t few = make_group(f, "few"), many = make_group(f, "many");
    limit(f, few, (struct store_user_limits){10, -1, 2, 1000, -1});
    limit(f, many, (struct store_user_limits){20, -1, 0, 500, -1});
    ASSERT_OK(store_limits_given(f->store, f->other, &g, &e));
    assert_int_equal(g.limits.tokens_per_day, STORE_LIMIT_UNSAID);
    put(f, few, f->other, true);
    put(f, many, f->other, true);
    ASSERT_OK(store_limits_given(f->store, f->other, &g, &e));
    assert_false(g.own);
    assert_int_equal(g.limits.requests_per_minute, 20);
    assert_int_equal(g.limits.tokens_per_minute, STORE_LIMIT_UNSAID);
    assert_int_equal(g.limits.max_jobs, 0); /* none is more than any number */
    assert_int_equal(g.limits.tokens_per_day, 1000);
    assert_int_equal(g.group[0], many);
    assert_int_equal(g.group[1], 0);
    assert_int_equal(g.group[2], many);
    assert_int_equal(g.group[3], few);
    const struct store_user_limits own = {.tokens_per_day = 7};
    ASSERT_OK(store_user_change(
        f->store, f->other, &(struct store_user_change){.has_limits = true, .limits = &own}, &e));
    ASSERT_OK(store_limits_given(f->store, f->other, &g, &e));
    assert_true(g.own && g.limits.tokens_per_day == 7 && g.limits.requests_per_minute == 0);
    assert_int_equal(g.group[3], 0);
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

static void test_the_providers_word_puts_in_and_takes_out_but_not_what_a_hand_did(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    const int64_t staff = make_group(f, "staff"), other = make_group(f, "Other"),
                  hand = make_group(f, "hand");
    ASSERT_OK(store_group_change(f->store, other,
                                 &(struct store_group_change){.claim = "0a1b-guid"}, &e));
    put(f, hand, f->other, true);
    struct moved m = claim(f, "[\"staff\",\"0a1b-guid\",\"hand\",\"nobody knows\"]");
    assert_int_equal(m.added, 2);
    m = claim(f, "[\"staff\",\"Other\",\"STAFF\"]"); /* Other is known by its claim alone */
    assert_true(m.added == 0 && m.removed == 1);
    assert_int_equal(fixture_number(f->path, "SELECT count(*) FROM group_members"), 2);
    put(f, staff, f->other, true); /* by hand now, too: it stays */
    m = claim(f, "[]");
    assert_int_equal(m.removed, 0);
    put(f, staff, f->other, false);
    assert_int_equal(fixture_number(f->path, "SELECT count(*) FROM group_members"), 1);
}

static void test_names_are_unique_and_what_can_not_be_says_so(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    int64_t id = 0;
    const int64_t group = make_group(f, "Research");
    const struct store_ids nobody = {&(int64_t){4711}, 1}, bob = {&f->other, 1};
    ASSERT_ERR(store_group_add(f->store, &(struct store_group_change){.name = "RESEARCH"}, &id, &e),
               ERR_CONFLICT);
    assert_string_equal(e.field, "name");
    ASSERT_ERR(store_group_add(f->store, &(struct store_group_change){.name = " x"}, &id, &e),
               ERR_INPUT);
    ASSERT_ERR(store_group_add(f->store, &(struct store_group_change){0}, &id, &e), ERR_INPUT);
    ASSERT_ERR(
        store_group_change(f->store, group, &(struct store_group_change){.models = &nobody}, &e),
        ERR_INPUT);
    assert_string_equal(e.field, "models");
    ASSERT_ERR(store_group_move(f->store,
                                &(struct store_group_moves){.group_id = group, .add = nobody}, &e),
               ERR_INPUT);
    ASSERT_ERR(
        store_group_move(f->store, &(struct store_group_moves){.group_id = 99, .add = bob}, &e),
        ERR_NOTFOUND);
    ASSERT_ERR(store_group_remove(f->store, 99, &e), ERR_NOTFOUND);
    put(f, group, f->other, true);
    ASSERT_OK(store_user_remove(f->store, f->other, &e));
    assert_int_equal(fixture_number(f->path, "SELECT count(*) FROM group_members"), 0);
}

static void test_an_invitation_puts_its_account_into_groups(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    unsigned char hash[SECRET_HASH_BYTES];
    int64_t id = 0;
    const int64_t group = make_group(f, "new people");
    const struct store_invite n = {.expires_at = INT64_C(1) << 50,
                                   .groups = &(struct store_ids){&group, 1}};
    struct store_user u = {.name = "cy", .password_hash = fixture_hash};
    secret_hash("token", hash);
    ASSERT_OK(store_invite_add(f->store, &n, hash, &id, &e));
    ASSERT_OK(store_invite_accept(f->store, hash, &u, &e));
    assert_int_equal(fixture_number(f->path, "SELECT user_id FROM group_members"), u.id);
}

/* --- shared projects ------------------------------------------------------------------------- */

static int64_t make_project(struct fixture *f, int64_t user, const char *name)
{
    struct err e = {0};
    int64_t id = 0;
    ASSERT_OK(store_project_add(
        f->store, user,
        &(struct store_project_change){.name = name, .instructions = "Be brief.", .colour = 1}, &id,
        &e));
    return id;
}

static void share(struct fixture *f, int64_t project, struct store_project_share x)
{
    struct err e = {0};
    ASSERT_OK(store_project_share_add(f->store, &(struct store_ref){f->user, project}, &x, &e));
}

/* -1: it is not there. */
static int access_of(struct fixture *f, int64_t user, int64_t project)
{
    struct err e = {0};
    struct store_project p;
    if (!store_project_get(f->store, f->arena, &(struct store_ref){user, project}, &p, &e)) {
        assert_int_equal(e.code, ERR_NOTFOUND);
        return -1;
    }
    return p.access;
}

static int passages(struct fixture *f, int64_t user, int64_t project)
{
    struct err e = {0};
    struct store_passages found;
    ASSERT_OK(
        store_project_find(f->store, &(struct store_ref){user, project}, "willow", &found, &e));
    free(found.at);
    return found.n;
}

static void test_a_reader_uses_a_project_and_an_editor_changes_it(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    const int64_t project = make_project(f, f->user, "trees");
    const struct store_ref bobs = {f->other, project};
    const struct store_project_change change = {.instructions = "Be long.", .colour = -1};
    const int64_t file = attachment_add(f, f->user, "a.txt", "the willow grows");
    const int64_t theirs = attachment_add(f, f->other, "b.txt", "a willow of bob's");
    struct store_project_file_ref at = {f->user, project, file, 0};
    struct store_project_files files;
    int64_t owner = 0;
    ASSERT_OK(store_project_file_add(f->store, &at, &e));
    attachment_clear(f);
    assert_int_equal(access_of(f, f->other, project), -1);
    assert_int_equal(passages(f, f->other, project), 0);
    ASSERT_ERR(store_attachment_owner(f->store, &(struct store_ref){f->other, file}, &owner, &e),
               ERR_NOTFOUND);
    share(f, project, (struct store_project_share){.user_id = f->other});
    assert_int_equal(access_of(f, f->other, project), STORE_PROJECT_READER);
    assert_int_equal(passages(f, f->other, project), 1);
    ASSERT_OK(store_attachment_owner(f->store, &(struct store_ref){f->other, file}, &owner, &e));
    assert_int_equal(owner, f->user);
    at = (struct store_project_file_ref){f->other, project, theirs, 0};
    ASSERT_ERR(store_project_update(f->store, &bobs, &change, &e), ERR_NOTFOUND);
    ASSERT_ERR(store_project_file_add(f->store, &at, &e), ERR_NOTFOUND);
    ASSERT_ERR(store_project_share_add(f->store, &bobs,
                                       &(struct store_project_share){.user_id = f->user}, &e),
               ERR_FORBIDDEN);
    share(f, project, (struct store_project_share){.user_id = f->other, .editor = true});
    ASSERT_OK(store_project_update(f->store, &bobs, &change, &e));
    const int64_t before = fixture_number(
        f->path, "SELECT sum(bytes) FROM attachments WHERE user_id = (SELECT min(id) FROM users)");
    ASSERT_OK(store_project_file_add(f->store, &at, &e));
    ASSERT_OK(store_project_file_add(f->store, &at, &e)); /* once more is nothing new */
    attachment_clear(f);
    assert_int_equal(fixture_number(f->path, "SELECT sum(bytes) FROM attachments WHERE user_id = "
                                             "(SELECT min(id) FROM users)"),
                     before + (int64_t)strlen("a willow of bob's"));
    assert_int_equal(passages(f, f->user, project), 2);
    ASSERT_OK(store_project_files(f->store, f->arena, &bobs, &files, &e));
    assert_int_equal(files.n, 2);
    /* What the owner may keep is what counts. */
    at.attachment_id = attachment_add(f, f->other, "c.txt", "some more");
    at.storage_bytes = 1;
    ASSERT_ERR(store_project_file_add(f->store, &at, &e), ERR_LIMIT);
    assert_string_equal(e.field, STORE_QUOTA_FIELD);
    ASSERT_ERR(store_project_remove(f->store, &bobs, false, &e), ERR_NOTFOUND);
    at.attachment_id = file;
    ASSERT_OK(store_project_file_remove(f->store, &at, &e));
    assert_int_equal(passages(f, f->other, project), 1);
    fixture_check_whole(f->path);
}

static int64_t chat_in(struct fixture *f, int64_t user, int64_t project)
{
    struct err e = {0};
    int64_t id = 0;
    ASSERT_OK(store_conversation_add(
        f->store, &(struct store_conversation_new){.user_id = user, .project_id = project}, &id,
        &e));
    return id;
}

static int64_t project_of(struct fixture *f, int64_t user, int64_t chat)
{
    struct err e = {0};
    struct store_conversation c;
    struct store_project p;
    ASSERT_OK(store_conversation_get(f->store, f->arena, &(struct store_ref){user, chat}, &c, &e));
    ASSERT_OK(store_project_of_chat(f->store, f->arena, &(struct store_ref){user, chat}, &p, &e));
    assert_int_equal(c.project_id, p.id);
    return c.project_id;
}

static void test_chats_are_their_users_own_and_outlive_the_sharing(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    struct store_project p;
    const int64_t project = make_project(f, f->user, "trees"), group = make_group(f, "all");
    const struct store_ref mine = {f->user, project}, bobs = {f->other, project};
    put(f, group, f->other, true);
    share(f, project, (struct store_project_share){.group_id = group});
    const int64_t chat = chat_in(f, f->other, project), own = chat_in(f, f->user, project);
    assert_int_equal(project_of(f, f->other, chat), project);
    ASSERT_OK(store_project_get(f->store, f->arena, &mine, &p, &e));
    assert_int_equal(p.n_chats, 1);
    assert_int_equal(p.n_shares, 1);
    /* Out of the group: without the project at once; in again: it is there. */
    put(f, group, f->other, false);
    assert_int_equal(project_of(f, f->other, chat), 0);
    put(f, group, f->other, true);
    assert_int_equal(project_of(f, f->other, chat), project);
    /* Who leaves does not come back by the group, but by name. */
    ASSERT_ERR(store_project_leave(f->store, &mine, &e), ERR_CONFLICT);
    ASSERT_OK(store_project_leave(f->store, &bobs, &e));
    assert_int_equal(access_of(f, f->other, project), -1);
    assert_int_equal(project_of(f, f->other, chat), 0);
    ASSERT_ERR(store_project_leave(f->store, &bobs, &e), ERR_NOTFOUND);
    share(f, project, (struct store_project_share){.user_id = f->other});
    assert_int_equal(access_of(f, f->other, project), STORE_PROJECT_READER);
    /* Deleted with its chats: only the owner's go into the trash. */
    ASSERT_OK(store_project_remove(f->store, &mine, true, &e));
    assert_int_equal(project_of(f, f->other, chat), 0);
    assert_int_equal(fixture_number(f->path, "SELECT count(*) FROM conversations WHERE trashed_at "
                                             "IS NOT NULL"),
                     1);
    (void)own;
    fixture_check_whole(f->path);
}

static void test_a_removed_owner_takes_the_project_along_but_no_chat(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    int64_t project = 0;
    ASSERT_OK(store_project_add(f->store, f->other,
                                &(struct store_project_change){.name = "bob's", .colour = 0},
                                &project, &e));
    ASSERT_ERR(store_project_share_add(f->store, &(struct store_ref){f->other, project},
                                       &(struct store_project_share){.user_id = f->other}, &e),
               ERR_INPUT);
    /* A group that the owner is not in is none of theirs to share with. */
    const int64_t group = make_group(f, "boards");
    ASSERT_ERR(store_project_share_add(f->store, &(struct store_ref){f->other, project},
                                       &(struct store_project_share){.group_id = group}, &e),
               ERR_INPUT);
    ASSERT_OK(store_project_share_add(f->store, &(struct store_ref){f->other, project},
                                      &(struct store_project_share){.user_id = f->user}, &e));
    const int64_t chat = chat_in(f, f->user, project);
    ASSERT_OK(store_user_remove(f->store, f->other, &e));
    assert_int_equal(access_of(f, f->user, project), -1);
    assert_int_equal(project_of(f, f->user, chat), 0);
    fixture_check_whole(f->path);
}

#define T(name) cmocka_unit_test_setup_teardown(name, fixture_up, fixture_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_a_model_of_a_group_is_there_while_one_is_a_member),
        T(test_a_tool_server_of_a_group_is_no_one_elses),
        T(test_of_several_groups_the_most_generous_limit_counts),
        T(test_the_providers_word_puts_in_and_takes_out_but_not_what_a_hand_did),
        T(test_names_are_unique_and_what_can_not_be_says_so),
        T(test_an_invitation_puts_its_account_into_groups),
        T(test_a_reader_uses_a_project_and_an_editor_changes_it),
        T(test_chats_are_their_users_own_and_outlive_the_sharing),
        T(test_a_removed_owner_takes_the_project_along_but_no_chat),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
