/* Models that other servers answer: who may use them, and the servers' sealed keys. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "sql/models/store_local_models.h"
#include "sql/models/store_models.h"
#include "sql/models/store_upstreams.h"
#include "tests/unit/store/store_fixture.h"

static int64_t add_upstream(struct fixture *f, const char *name, const char *key)
{
    struct err e = {0};
    int64_t id = 0;
    const struct store_upstream u = {
        .name = name, .dialect = "openai", .url = "https://far.example/v1"};
    ASSERT_OK(store_upstream_add(f->store, &u, key, &id, &e));
    return id;
}

static int64_t add_model(struct fixture *f, const char *name, bool everyone)
{
    struct err e = {0};
    int64_t id = 0;
    ASSERT_OK(store_model_add(
        f->store, &(struct store_model){.name = name, .everyone = everyone, .tools = true}, &id,
        &e));
    return id;
}

static bool may(struct fixture *f, int64_t user, const char *name)
{
    struct err e = {0};
    struct store_model m;
    const struct store_model_ask ask = {.user_id = user, .name = name};
    if (store_model_find(f->store, f->arena, &ask, &m, &e))
        return true;
    assert_int_equal(e.code, ERR_NOTFOUND);
    return false;
}

static void test_a_key_opens_for_its_own_upstream_only(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    char key[STORE_UPSTREAM_KEY_BYTES + 1], path[512];
    const int64_t a = add_upstream(f, "a", "sk-of-a"), b = add_upstream(f, "b", "sk-of-b"),
                  c = add_upstream(f, "c", NULL);
    ASSERT_OK(store_upstream_key(f->store, a, key, &e));
    assert_string_equal(key, "sk-of-a");
    ASSERT_OK(store_upstream_key(f->store, c, key, &e));
    assert_string_equal(key, "");
    assert_int_equal(
        fixture_number(f->path, "SELECT count(*) FROM upstreams WHERE instr(key, 'sk-of')"), 0);
    fixture_number(f->path, "UPDATE upstreams SET key = (SELECT key FROM upstreams WHERE name = "
                            "'a') WHERE name = 'b' RETURNING 1");
    ASSERT_ERR(store_upstream_key(f->store, b, key, &e), ERR_FORMAT);
    assert_string_equal(key, "");
    e = (struct err){0};
    ASSERT_OK(store_upstream_change(
        f->store, b,
        &(struct store_upstream_change){
            .drained = -1, .max_streams = -1, .first_byte_ms = -1, .idle_ms = -1, .key = "new"},
        &e));
    ASSERT_OK(store_upstream_key(f->store, b, key, &e));
    assert_string_equal(key, "new");
    snprintf(path, sizeof path, "%s/factor.key", f->folder);
    assert_int_equal(unlink(path), 0);
    ASSERT_ERR(store_upstream_key(f->store, a, key, &e), ERR_FORMAT);
    ASSERT_ERR(store_upstream_key(f->store, 999, key, &e), ERR_NOTFOUND);
}

static void test_a_model_for_some_is_not_there_for_others(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    const int64_t id = add_model(f, "closed", false);
    const char *alias = "shut";
    struct store_model_change c = {STORE_MODEL_UNCHANGED,
                                   .aliases = &(struct store_model_names){.at = &alias, .n = 1},
                                   .users = &f->other, .n_users = 1};
    add_model(f, "open", true);
    assert_true(may(f, f->other, "open") && may(f, f->user, "closed"));
    assert_false(may(f, f->other, "closed"));
    ASSERT_OK(store_model_change(f->store, id, &c, &e));
    assert_true(may(f, f->other, "closed") && may(f, f->other, "shut"));
    c.n_users = 0;
    ASSERT_OK(store_model_change(f->store, id, &c, &e));
    assert_false(may(f, f->other, "shut"));
    ASSERT_ERR(store_model_add(f->store, &(struct store_model){.name = "open"}, &(int64_t){0}, &e),
               ERR_CONFLICT);
    ASSERT_ERR(store_model_add(f->store, &(struct store_model){.name = "a b"}, &(int64_t){0}, &e),
               ERR_INPUT);
}

static bool count_route(void *context, const struct store_model_route *r)
{
    assert_true(*r->model && *r->upstream && *r->remote);
    ++*(int *)context;
    return true;
}

static void test_what_is_removed_takes_its_routes_along(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    int n = 0;
    const int64_t u = add_upstream(f, "a", NULL), v = add_upstream(f, "b", NULL),
                  m = add_model(f, "m", true);
    struct store_model_route r = {
        .model_id = m, .upstream_id = u, .remote = "x", .priority = 1, .weight = 2};
    ASSERT_OK(store_model_route_set(f->store, &r, &e));
    r.remote = "y";
    ASSERT_OK(store_model_route_set(f->store, &r, &e));
    r.upstream_id = v;
    ASSERT_OK(store_model_route_set(f->store, &r, &e));
    ASSERT_OK(store_model_route_list(f->store, count_route, &n, &e));
    assert_int_equal(n, 2);
    ASSERT_OK(store_upstream_remove(f->store, u, &e));
    ASSERT_OK(store_model_remove(f->store, m, &e));
    assert_int_equal(fixture_number(f->path, "SELECT count(*) FROM model_upstreams"), 0);
    ASSERT_ERR(store_model_route_set(f->store, &r, &e), ERR_NOTFOUND);
    fixture_check_whole(f->path);
}

static const struct store_model_change nothing = {STORE_MODEL_UNCHANGED};

static void test_a_model_of_this_machine_has_a_place_and_no_upstreams(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    int64_t id = 0;
    struct store_model m = {.name = "near", .path = "/models/near", .idle_s = 60, .everyone = true};
    struct store_model_change c = nothing;
    ASSERT_OK(store_local_model_add(f->store, &m, &id, &e));
    c.pinned = 1;
    c.defaults = "{\"top_k\":4}";
    ASSERT_OK(store_model_change(f->store, id, &c, &e));
    ASSERT_OK(
        store_model_find(f->store, f->arena, &(struct store_model_ask){.name = "near"}, &m, &e));
    assert_string_equal(m.path, "/models/near");
    assert_string_equal(m.defaults, "{\"top_k\":4}");
    assert_true(m.pinned && !m.preload && m.idle_s == 60);
    c.pinned = -1;
    c.defaults = "";
    ASSERT_OK(store_model_change(f->store, id, &c, &e));
    ASSERT_OK(
        store_model_find(f->store, f->arena, &(struct store_model_ask){.name = "near"}, &m, &e));
    assert_true(m.pinned && !m.defaults);
    const struct store_model_route r = {
        .model_id = id, .upstream_id = add_upstream(f, "a", NULL), .remote = "x", .weight = 1};
    ASSERT_ERR(store_model_route_set(f->store, &r, &e), ERR_CONFLICT);
    ASSERT_OK(store_model_remove(f->store, id, &e));
    assert_int_equal(fixture_number(f->path, "SELECT count(*) FROM local_models"), 0);
    fixture_check_whole(f->path);
}

static void
test_what_belongs_to_this_machine_is_refused_elsewhere_and_beyond_its_limits(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    int64_t id = 0;
    char name[16];
    struct store_model_change c = nothing;
    struct store_model m = {.name = name, .path = "models", .everyone = true};
    c.idle_s = 5;
    ASSERT_ERR(store_model_change(f->store, add_model(f, "far", true), &c, &e), ERR_INPUT);
    assert_string_equal(e.field, "idle_s");
    snprintf(name, sizeof name, "x");
    ASSERT_ERR(store_local_model_add(f->store, &m, &id, &e), ERR_INPUT);
    assert_string_equal(e.field, "path");
    m.path = "/models";
    for (int i = 0; i < STORE_LOCAL_MODELS_MAX; i++) {
        snprintf(name, sizeof name, "m%d", i);
        ASSERT_OK(store_local_model_add(f->store, &m, &id, &e));
    }
    ASSERT_ERR(store_local_model_add(f->store, &m, &id, &e), ERR_LIMIT);
    snprintf(name, sizeof name, "far");
    ASSERT_OK(store_model_remove(f->store, id, &e));
    ASSERT_ERR(store_local_model_add(f->store, &m, &id, &e), ERR_CONFLICT);
    assert_int_equal(fixture_number(f->path, "SELECT count(*) FROM local_models"),
                     STORE_LOCAL_MODELS_MAX - 1);
}

#define T(name) cmocka_unit_test_setup_teardown(name, fixture_up, fixture_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_a_key_opens_for_its_own_upstream_only),
        T(test_a_model_for_some_is_not_there_for_others),
        T(test_what_is_removed_takes_its_routes_along),
        T(test_a_model_of_this_machine_has_a_place_and_no_upstreams),
        T(test_what_belongs_to_this_machine_is_refused_elsewhere_and_beyond_its_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
