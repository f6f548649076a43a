/* fcgi/http/request.c and fcgi/http/route.c: what a request says, and where it goes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "engine/base/json/json.h"
#include "fcgi/http/path_id.h"
#include "fcgi/http/reply.h"
#include "fcgi/process/shared.h"
#include "tests/unit/fcgi/fcgi_request.h"

#define PARAMS(...) ((char *[]){__VA_ARGS__, NULL})

static void test_query_is_decoded(void **state)
{
    struct fake_request f;
    fake_request_open(&f,
                      PARAMS("REQUEST_METHOD=GET",
                             "REQUEST_URI=/x?a=1&b=%C3%A9+z&empty=&flag&bad=%zz&nul=%00&a=2"),
                      NULL);
    assert_string_equal(f.r.path, "/x");
    assert_string_equal(request_query(&f.r, "a"), "1");
    const char *all[2] = {0};
    assert_int_equal(request_query_all(&f.r, "a", all, 1), 2);
    assert_null(all[1]);
    assert_int_equal(request_query_all(&f.r, "a", all, 2), 2);
    assert_string_equal(all[1], "2");
    assert_int_equal(request_query_all(&f.r, "none", all, 2), 0);
    assert_string_equal(request_query(&f.r, "b"), "\xC3\xA9 z");
    assert_string_equal(request_query(&f.r, "empty"), "");
    assert_string_equal(request_query(&f.r, "flag"), "");
    assert_null(request_query(&f.r, "bad"));
    assert_null(request_query(&f.r, "nul"));
    assert_null(request_query(&f.r, "none"));
    assert_null(request_query(&f.r, "fla"));
    fake_request_close(&f);
}

static void test_query_numbers_are_bounded(void **state)
{
    struct fake_request f;
    struct err e = {0};
    int64_t v = 7;
    fake_request_open(
        &f, PARAMS("REQUEST_URI=/x?n=5&big=500&text=5x&none=&huge=99999999999999999999"), NULL);
    assert_true(request_query_int(&f.r, "absent", 1, 100, &v, &e));
    assert_int_equal(v, 7);
    assert_true(request_query_int(&f.r, "n", 1, 100, &v, &e));
    assert_int_equal(v, 5);
    assert_false(request_query_int(&f.r, "big", 1, 100, &v, &e));
    assert_string_equal(e.field, "big");
    assert_int_equal(e.code, ERR_INPUT);
    assert_false(request_query_int(&f.r, "text", 1, 100, &v, &e));
    assert_false(request_query_int(&f.r, "none", 1, 100, &v, &e));
    assert_false(request_query_int(&f.r, "huge", 1, INT64_MAX, &v, &e));
    fake_request_close(&f);
}

static void test_cookies_and_headers(void **state)
{
    struct fake_request f;
    fake_request_open(
        &f,
        PARAMS("REQUEST_URI=/", "HTTP_COOKIE=a=1; sluice_session=tok=en; asluice_session=no; e=",
               "HTTP_X_CSRF_TOKEN=abc", "CONTENT_TYPE=application/json", "REMOTE_ADDR=10.0.0.1"),
        NULL);
    assert_string_equal(request_cookie(&f.r, "sluice_session"), "tok=en");
    assert_string_equal(request_cookie(&f.r, "e"), "");
    assert_null(request_cookie(&f.r, "session"));
    assert_string_equal(request_header(&f.r, "X-CSRF-Token"), "abc");
    assert_string_equal(request_header(&f.r, "Content-Type"), "application/json");
    assert_null(request_header(&f.r, "X-Nothing"));
    assert_string_equal(request_remote(&f.r), "10.0.0.1");
    fake_request_close(&f);
}

static void test_ids_differ_and_paths_must_be_paths(void **state)
{
    struct fake_request f, g;
    struct err e = {0};
    fake_request_open(&f, PARAMS("REQUEST_URI=/"), NULL);
    fake_request_open(&g, PARAMS("REQUEST_URI=http://x/"), NULL);
    assert_int_equal(strlen(f.r.id), 28);
    assert_string_not_equal(f.r.id, g.r.id);
    assert_false(request_begin(&g.r, NULL, &e));
    assert_int_equal(e.code, ERR_INPUT);
    fake_request_close(&f);
    fake_request_close(&g);
}

static void test_routes_match_whole_segments(void **state)
{
    struct fake_request f;
    fake_request_open(&f, PARAMS("REQUEST_URI=/"), NULL);
    struct route_match m = route_find(&f.r, HTTP_GET, "/v1/models/a%2Fb");
    assert_non_null(m.route);
    assert_string_equal(m.route->path, "/v1/models/{id}");
    assert_string_equal(request_param(&f.r, "id"), "a/b");
    assert_ptr_equal(route_at(m.index), m.route);
    assert_null(route_find(&f.r, HTTP_GET, "/v1/models/").route);
    assert_null(route_find(&f.r, HTTP_GET, "/v1/models/a/b").route);
    assert_null(route_find(&f.r, HTTP_GET, "/v1/model").route);
    assert_null(route_find(&f.r, HTTP_GET, "/v1/models/%00").route);
    assert_null(route_find(&f.r, HTTP_GET, "").route);
    assert_int_equal(route_find(&f.r, HTTP_GET, "/nothing").allowed, 0);
    fake_request_close(&f);
}

static void test_routes_tell_the_methods_of_a_path(void **state)
{
    struct fake_request f;
    fake_request_open(&f, PARAMS("REQUEST_URI=/"), NULL);
    struct route_match m = route_find(&f.r, HTTP_PUT, "/api/keys");
    assert_null(m.route);
    assert_int_equal(m.allowed, 1u << HTTP_GET | 1u << HTTP_HEAD | 1u << HTTP_POST);
    assert_non_null(route_find(&f.r, HTTP_HEAD, "/api/keys").route);
    fake_request_close(&f);
}

/* The pattern with a value for each of its names. */
static void fill_in(const char *pattern, const char *value, char *out, size_t size)
{
    size_t n = 0;
    for (; *pattern && n + strlen(value) + 1 < size; pattern++) {
        if (*pattern != '{') {
            out[n++] = *pattern;
            continue;
        }
        n += (size_t)snprintf(out + n, size - n, "%s", value);
        pattern = strchr(pattern, '}');
    }
    out[n] = '\0';
}

static void test_every_route_is_found_by_its_path(void **state)
{
    struct fake_request f;
    char path[256];
    fake_request_open(&f, PARAMS("REQUEST_URI=/"), NULL);
    for (int i = 0; i < route_count(); i++) {
        const struct route *row = route_at(i);
        fill_in(row->path, "%37x", path, sizeof path);
        struct route_match m = route_find(&f.r, row->method, path);
        assert_int_equal(m.index, i);
        assert_ptr_equal(m.route, row);
        int names = 0;
        for (const char *p = row->path; (p = strchr(p, '{')); p++)
            names++;
        assert_int_equal(f.r.n_params, names);
        for (int k = 0; k < names; k++)
            assert_string_equal(f.r.params[k].value, "7x");
        m = route_find(&f.r, HTTP_OTHER, path);
        assert_true(!m.route && m.index == -1 && f.r.n_params == 0);
        assert_true(m.allowed & 1u << row->method);
        assert_int_equal(m.allowed >> HTTP_GET & 1, m.allowed >> HTTP_HEAD & 1);
    }
    assert_null(route_at(route_count()));
    assert_null(route_at(-1));
    fake_request_close(&f);
}

/* Hundreds of rows are compared with each path: only the one that matches may cost memory. */
static void test_only_the_route_that_matches_decodes(void **state)
{
    struct fake_request f;
    char id[4001], path[4200];
    memset(id, 'x', sizeof id - 1);
    id[sizeof id - 1] = '\0';
    fake_request_open(&f, PARAMS("REQUEST_URI=/"), NULL);
    for (int i = 0; i < route_count(); i++) {
        fill_in(route_at(i)->path, id, path, sizeof path);
        size_t before = arena_used(f.r.arena);
        route_find(&f.r, route_at(i)->method, path);
        assert_true(arena_used(f.r.arena) - before <= 4 * sizeof id);
    }
    fake_request_close(&f);
}

static void test_ids_have_one_spelling(void **state)
{
    static const char *const wrong[] = {
        "", "0", "+5", " 5", "5 ", "-5", "05", "5x", "0x5", "1e3", "1000000000000000000"};
    int64_t id = 0;
    assert_true(path_id_parse("5", &id) && id == 5);
    assert_true(path_id_parse("999999999999999999", &id) && id == 999999999999999999);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_false(path_id_parse(wrong[i], &id));
    assert_false(path_id_parse(NULL, &id));
    assert_int_equal(id, 999999999999999999);
}

static void test_routes_fit_the_counters(void **state)
{
    assert_true(route_count() > 20);
    assert_true(route_count() <
                SHARED_ROUTES); /* a row of counters each, and one for what has no route */
    for (int i = 0; i < route_count(); i++) {
        const struct route *a = route_at(i);
        assert_non_null(a->handler);
        for (int k = 0; k < i; k++)
            assert_false(a->method == route_at(k)->method && !strcmp(a->path, route_at(k)->path));
    }
}

static void give_body(struct fake_request *f, const char *text)
{
    f->r.body = text;
    f->r.body_len = strlen(text);
    f->r.error_override.code = NULL;
    f->r.error_override.status = 0;
    cJSON_Delete(f->r.json);
    f->r.json = NULL;
}

static void test_json_bodies_are_objects_of_bounded_size(void **state)
{
    struct fake_request f;
    struct err e = {0};
    fake_request_open(&f, PARAMS("REQUEST_URI=/", "CONTENT_TYPE=application/json;charset=utf-8"),
                      NULL);
    assert_null(request_json(&f.r, &e)); /* no body */
    give_body(&f, "{\"a\":[1,{}]}");
    assert_non_null(request_json(&f.r, &e));
    give_body(&f, "[1]");
    assert_null(request_json(&f.r, &e));
    give_body(&f, "{");
    assert_null(request_json(&f.r, &e));
    assert_string_equal(f.r.error_override.code, "invalid_json");
    static char many[(2 << 20) + 64] = "{\"a\":[";
    memset(many + 6, ',', 2 << 20);
    give_body(&f, many);
    assert_null(request_json(&f.r, &e));
    assert_int_equal(f.r.error_override.status, 413);
    fake_request_close(&f);
    fake_request_open(&f, PARAMS("REQUEST_URI=/", "CONTENT_TYPE=text/json"), NULL);
    give_body(&f, "{}");
    assert_null(request_json(&f.r, &e));
    assert_int_equal(f.r.error_override.status, 415);
    fake_request_close(&f);
}

static void test_each_error_code_has_its_status(void **state)
{
    static const struct {
        enum err_code code;
        int status;
    } rows[] = {{ERR_INPUT, 400},    {ERR_UNSUPPORTED, 400}, {ERR_LIMIT, 400},
                {ERR_AUTH, 401},     {ERR_FORBIDDEN, 403},   {ERR_NOTFOUND, 404},
                {ERR_CONFLICT, 409}, {ERR_BUSY, 503},        {ERR_UNAVAILABLE, 503},
                {ERR_DEVICE, 503},   {ERR_INTERNAL, 500},    {ERR_IO, 500},
                {ERR_FULL, 507},     {ERR_READ_ONLY, 507}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        assert_int_equal(reply_status_of(rows[i].code), rows[i].status);
    for (int i = 0; i < ERR__N; i++)
        assert_string_not_equal(reply_reason(reply_status_of((enum err_code)i)), "Unknown");
}

static void test_error_objects_are_json_whatever_the_text(void **state)
{
    struct fake_request f;
    struct err e = {0};
    struct buf b = {0};
    fake_request_open(&f, PARAMS("REQUEST_URI=/"), NULL);
    err_field(&e, ERR_INPUT, "a\"b", "bad \xFF \"quote\"\n");
    reply_error_object(&b, &f.r, &e);
    cJSON *o = json_parse(b.data, b.len, NULL, &e);
    assert_non_null(o);
    const cJSON *error = json_member(o, "error");
    assert_string_equal(json_member(error, "param")->valuestring, "a\"b");
    assert_string_equal(json_member(error, "type")->valuestring, "invalid_request_error");
    assert_string_equal(json_member(error, "request_id")->valuestring, f.r.id);
    cJSON_Delete(o);
    buf_fini(&b);
    fake_request_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_query_is_decoded),
        cmocka_unit_test(test_query_numbers_are_bounded),
        cmocka_unit_test(test_cookies_and_headers),
        cmocka_unit_test(test_ids_differ_and_paths_must_be_paths),
        cmocka_unit_test(test_routes_match_whole_segments),
        cmocka_unit_test(test_routes_tell_the_methods_of_a_path),
        cmocka_unit_test(test_every_route_is_found_by_its_path),
        cmocka_unit_test(test_only_the_route_that_matches_decodes),
        cmocka_unit_test(test_ids_have_one_spelling),
        cmocka_unit_test(test_routes_fit_the_counters),
        cmocka_unit_test(test_json_bodies_are_objects_of_bounded_size),
        cmocka_unit_test(test_each_error_code_has_its_status),
        cmocka_unit_test(test_error_objects_are_json_whatever_the_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
