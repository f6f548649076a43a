/* fcgi/openapi/openapi.c: every route is described, and nothing that is named is missing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "engine/base/json/json.h"
#include "fcgi/http/reply.h"
#include "fcgi/http/route.h"
#include "fcgi/openapi/openapi.h"

static void test_every_route_says_what_it_does(void **state)
{
    const struct route *row;
    for (int i = 0; (row = route_at(i)); i++) {
        const struct route_doc *d = &row->doc;
        if (!d->summary || !*d->summary || !d->statuses)
            fail_msg("%s %s has no summary or no statuses in its row",
                     http_method_name(row->method), row->path);
        int good = atoi(d->statuses);
        if (good != 501 && good != 303) /* answers nobody, and says so; sends browsers on */
            assert_in_range(good, 200, 299);
        assert_string_not_equal(reply_reason(good), "Unknown");
        if (!row->body_limit != !(d->body || d->upload) || (d->body && d->upload))
            fail_msg("%s %s: body limit and what the body is disagree",
                     http_method_name(row->method), row->path);
        if (good == 200 && !d->reply && !d->media && !d->streams)
            fail_msg("%s %s: a 200 says what it holds", http_method_name(row->method), row->path);
        if (row->auth == ROUTE_ADMIN)
            assert_int_equal(row->scope, SCOPE_ADMIN);
        if (row->auth == ROUTE_FIGURES)
            assert_int_equal(row->scope, SCOPE_METRICS);
        if (!strncmp(row->path, "/v1/", 4) && row->auth != ROUTE_OPEN)
            assert_int_equal(row->scope, SCOPE_INFERENCE);
    }
}

/* Each {"$ref": "#/a/b"} leads somewhere; counts them. */
static int check_refs(const cJSON *doc, const cJSON *v)
{
    int n = 0;
    const cJSON *item;
    cJSON_ArrayForEach (item, v) {
        n += check_refs(doc, item);
        if (!item->string || strcmp(item->string, "$ref"))
            continue;
        char path[256];
        const cJSON *at = doc;
        assert_true(cJSON_IsString(item) && !strncmp(item->valuestring, "#/", 2));
        snprintf(path, sizeof path, "%s", item->valuestring + 2);
        for (char *save, *p = strtok_r(path, "/", &save); p; p = strtok_r(NULL, "/", &save))
            if (!(at = json_member(at, p)))
                fail_msg("%s leads nowhere", item->valuestring);
        n++;
    }
    return n;
}

static void test_document_is_whole(void **state)
{
    struct err e = {0};
    cJSON *doc = openapi_document(&e);
    if (!doc)
        fail_msg("%s", e.text);
    assert_true(check_refs(doc, doc) > 50);
    int operations = 0;
    const cJSON *path, *operation;
    cJSON_ArrayForEach (path, json_member(doc, "paths"))
        cJSON_ArrayForEach (operation, path) {
            const cJSON *responses = json_member(operation, "responses");
            assert_non_null(json_member(operation, "operationId"));
            assert_non_null(json_member(responses, "400"));
            operations++;
        }
    assert_int_equal(operations, route_count());
    const cJSON *chat =
        json_member(json_member(json_member(doc, "paths"), "/v1/chat/completions"), "post");
    static const char *const statuses[] = {"200", "400", "401", "403", "404",
                                           "413", "415", "429", "503"};
    for (size_t i = 0; i < sizeof statuses / sizeof statuses[0]; i++)
        assert_non_null(json_member(json_member(chat, "responses"), statuses[i]));
    cJSON_Delete(doc);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_route_says_what_it_does),
        cmocka_unit_test(test_document_is_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
