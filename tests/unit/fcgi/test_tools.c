/* Tools of servers: addresses that are public, what a server says that wants a sign-in, events that
 * come in pieces, lists that are made harmless, results as text. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "engine/base/buf.h"
#include "engine/base/json/json.h"
#include "fcgi/oauth/oauth.h"
#include "fcgi/tools/mcp_events.h"
#include "fcgi/tools/tool_address.h"
#include "fcgi/tools/tool_list.h"
#include "fcgi/tools/tool_result.h"

static bool is_public(const char *text)
{
    struct sockaddr_in a4 = {.sin_family = AF_INET};
    struct sockaddr_in6 a6 = {.sin6_family = AF_INET6};
    if (inet_pton(AF_INET, text, &a4.sin_addr) == 1)
        return tool_address_is_public((const struct sockaddr *)(const void *)&a4);
    assert_int_equal(inet_pton(AF_INET6, text, &a6.sin6_addr), 1);
    return tool_address_is_public((const struct sockaddr *)(const void *)&a6);
}

static void test_private_addresses_are_told_from_public_ones(void **state)
{
    static const char *const out[] = {"1.1.1.1",         "9.255.255.255",   "11.0.0.0",
                                      "172.15.255.255",  "172.32.0.0",      "192.167.255.255",
                                      "192.169.0.0",     "100.63.0.1",      "100.128.0.1",
                                      "223.255.255.255", "2606:4700::1",    "2a00:1450:4001::5",
                                      "::ffff:8.8.8.8",  "64:ff9b::808:808"};
    static const char *const in[] = {"0.0.0.0",
                                     "10.1.2.3",
                                     "127.0.0.1",
                                     "127.255.255.255",
                                     "169.254.169.254",
                                     "172.16.0.1",
                                     "172.31.255.255",
                                     "192.168.0.1",
                                     "100.64.0.1",
                                     "198.18.0.1",
                                     "224.0.0.1",
                                     "255.255.255.255",
                                     "::",
                                     "::1",
                                     "fe80::1",
                                     "fc00::1",
                                     "fd12::1",
                                     "ff02::1",
                                     "2001:db8::1",
                                     "2002:7f00:1::",
                                     "2001::1",
                                     "::ffff:10.0.0.1",
                                     "64:ff9b::a00:1",
                                     "::ffff:127.0.0.1",
                                     "::127.0.0.1"};
    for (size_t i = 0; i < sizeof out / sizeof out[0]; i++)
        if (!is_public(out[i]))
            fail_msg("%s is public", out[i]);
    for (size_t i = 0; i < sizeof in / sizeof in[0]; i++)
        if (is_public(in[i]))
            fail_msg("%s is not public", in[i]);
    const struct sockaddr odd = {.sa_family = AF_UNIX};
    assert_false(tool_address_is_public(&odd));
    (void)state;
}

static bool take_event(void *context, const char *data, size_t len)
{
    struct buf *all = context;
    buf_printf(all, "<%.*s>", (int)len, data);
    return len != 4; /* "stop" */
}

/* The same events, whatever the pieces. */
static void test_events_may_come_in_any_pieces(void **state)
{
    static const char stream[] =
        ": hello\n\nevent: message\ndata: one\n\ndata:two\r\ndata:  more\r\n"
        "\r\nid: 7\n\nretry: 5\ndata\ndata: x\n\ndata: stop\n\ndata: never\n\n";
    for (size_t step = 1; step < sizeof stream; step++) {
        struct buf all = {0};
        struct mcp_events x = {.event = take_event, .context = &all};
        bool more = true;
        for (size_t at = 0; more && at < sizeof stream - 1; at += step) {
            const size_t left = sizeof stream - 1 - at;
            more = mcp_events_feed(&x, stream + at, left < step ? left : step);
        }
        assert_false(more);
        assert_string_equal(all.data, "<one><two\n more><x><stop>");
        mcp_events_fini(&x);
        buf_fini(&all);
    }
    (void)state;
}

static cJSON *made(const char *server, const char *tools)
{
    struct buf text = {0};
    struct err e = {0};
    cJSON *mcp = json_parse(tools, strlen(tools), NULL, &e);
    assert_non_null(mcp);
    assert_true(tool_list_make(server, mcp, &text, &e));
    cJSON *list = json_parse(text.data, text.len, NULL, &e);
    assert_non_null(list);
    cJSON_Delete(mcp);
    buf_fini(&text);
    return list;
}

static const char *text_at(const cJSON *list, int i, const char *name)
{
    return json_text(cJSON_GetArrayItem(list, i), name);
}

static void test_names_of_calls_are_plain_and_each_is_one(void **state)
{
    cJSON *list = made("s", "[{\"name\":\"a.b\"},{\"name\":\"a/b\"},{\"name\":\"\"},{\"x\":1},7,"
                            "{\"name\":\"\xC3\xBC\"},{\"name\":\"a_b_2\"}]");
    assert_int_equal(cJSON_GetArraySize(list), 4);
    assert_string_equal(text_at(list, 0, "call"), "s_a_b");
    assert_string_equal(text_at(list, 1, "call"), "s_a_b_2");
    assert_string_equal(text_at(list, 2, "call"), "s___");
    assert_string_equal(text_at(list, 3, "call"), "s_a_b_2_2");
    assert_ptr_equal(tool_list_find(list, "s_a_b_2"), cJSON_GetArrayItem(list, 1));
    assert_null(tool_list_find(list, "a.b"));
    cJSON_Delete(list);
    (void)state;
}

static void test_long_names_keep_within_the_form(void **state)
{
    char json[600], name[128];
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    snprintf(json, sizeof json, "[{\"name\":\"%s\"},{\"name\":\"%s1\"}]", name, name);
    cJSON *list = made("server", json);
    assert_int_equal(cJSON_GetArraySize(list), 2);
    assert_string_not_equal(text_at(list, 0, "call"), text_at(list, 1, "call"));
    for (int i = 0; i < 2; i++)
        assert_in_range(strlen(text_at(list, i, "call")), 1, TOOL_LIST_CALL);
    cJSON_Delete(list);
    (void)state;
}

static void test_a_tool_with_too_long_a_schema_is_named_and_not_offered(void **state)
{
    struct buf json = {0};
    buf_puts(&json, "[{\"name\":\"big\",\"inputSchema\":{\"type\":\"object\",\"description\":\"");
    for (size_t i = 0; i < TOOL_LIST_SCHEMA_BYTES; i++)
        buf_putc(&json, 'x');
    buf_puts(&json, "\"}},{\"name\":\"small\",\"description\":\"d\"}]");
    cJSON *list = made("s", json.data), *functions = cJSON_CreateArray();
    assert_non_null(text_at(list, 0, "problem"));
    assert_null(tool_list_find(list, "s_big"));
    assert_true(tool_list_offer(list, 10, functions));
    assert_int_equal(cJSON_GetArraySize(functions), 1);
    assert_string_equal(
        json_text(json_member(cJSON_GetArrayItem(functions, 0), "function"), "name"), "s_small");
    cJSON_Delete(functions);
    cJSON_Delete(list);
    buf_fini(&json);
    (void)state;
}

/* A permission is for the tool as it was described. */
static void test_the_hash_changes_with_all_that_describes_the_tool(void **state)
{
    static const char *const same = "[{\"name\":\"a\",\"description\":\"d\",\"inputSchema\":{}}]";
    static const char *const others[] = {
        "[{\"name\":\"b\",\"description\":\"d\",\"inputSchema\":{}}]",
        "[{\"name\":\"a\",\"description\":\"e\",\"inputSchema\":{}}]",
        "[{\"name\":\"a\",\"description\":\"d\",\"inputSchema\":{\"x\":1}}]",
        "[{\"name\":\"a\",\"description\":\"d\",\"inputSchema\":{},\"title\":\"t\"}]",
        "[{\"name\":\"a\",\"description\":\"d\",\"inputSchema\":{},\"annotations\":"
        "{\"readOnlyHint\":true}}]",
        "[{\"name\":\"a\",\"description\":\"d\",\"inputSchema\":{},\"annotations\":"
        "{\"destructiveHint\":true}}]"};
    cJSON *one = made("s", same), *two = made("other", same);
    assert_string_equal(text_at(one, 0, "hash"), text_at(two, 0, "hash"));
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        cJSON *x = made("s", others[i]);
        assert_string_not_equal(text_at(one, 0, "hash"), text_at(x, 0, "hash"));
        cJSON_Delete(x);
    }
    cJSON_Delete(one);
    cJSON_Delete(two);
    (void)state;
}

static void check_text(const char *result, size_t most, const char *expected, bool fails)
{
    struct buf out = {0};
    bool failed = !fails;
    cJSON *v = json_parse(result, strlen(result), NULL, NULL);
    assert_non_null(v);
    assert_true(tool_result_text(v, most, &out, &failed));
    assert_string_equal(out.data, expected);
    assert_int_equal(failed, fails);
    cJSON_Delete(v);
    buf_fini(&out);
}

static void test_results_become_text(void **state)
{
    check_text(
        "{\"content\":[{\"type\":\"text\",\"text\":\"a\"},{\"type\":\"text\",\"text\":\"b\"}]}",
        100, "a\n\nb", false);
    check_text("{\"content\":[],\"isError\":true}", 100, "The tool failed and says no more.", true);
    check_text("{}", 100, "The tool gave nothing.", false);
    check_text("{\"content\":7,\"structuredContent\":{\"x\":1}}", 100, "{\"x\":1}", false);
    check_text("{\"content\":[7,{\"type\":\"text\"},{\"type\":5}]}", 100,
               "[content: not known here]\n\n[text: not known here]\n\n[content: not known here]",
               false);
    check_text("{\"content\":[{\"type\":\"012345678901234567890123456789012345678\xC3\xBC\"}]}",
               100, "[012345678901234567890123456789012345678: not known here]", false);
    check_text("{\"content\":[{\"type\":\"text\",\"text\":\"\xC3\xBC\xC3\xBC\xC3\xBC\"}]}", 5,
               "\xC3\xBC\xC3\xBC\n[cut: the first 4 of 6 bytes]", false);
    (void)state;
}

static void check_challenge(const char *header, const char *metadata, const char *scope,
                            const char *error)
{
    struct oauth_challenge c;
    oauth_challenge_read(header, &c);
    assert_string_equal(c.metadata, metadata);
    assert_string_equal(c.scope, scope);
    assert_string_equal(c.error, error);
}

static void test_a_challenge_is_read_in_each_form_that_it_may_have(void **state)
{
    char header[2200], scope[OAUTH_SCOPE];
    struct oauth_challenge c;
    check_challenge("Bearer resource_metadata=\"https://a/x?y=1\", scope=\"read  write\"",
                    "https://a/x?y=1", "read write", "");
    check_challenge(
        "bearer error=insufficient_scope,scope = admin , realm=\"a, \\\"b\\\", scope=z\"", "",
        "admin", "insufficient_scope");
    check_challenge("Basic scope=\"no\", Bearer, DPoP scope=\"no\", error=\"no\"", "", "", "");
    check_challenge("Digest a=b, Bearer scope=x, Bearer scope=y, error=e", "", "x", "");
    check_challenge(NULL, "", "", "");
    check_challenge(",=,\"Bearer\" x==", "", "", "");
    check_challenge("Bearer scope=\"a\\\\b \xc3\xbc c\"", "", "", "");
    check_challenge("Bearer scope=\"open", "", "open", "");
    snprintf(header, sizeof header, "Bearer resource_metadata=\"https://%0*d\", scope=\"b\"", 2000,
             1);
    check_challenge(header, "", "b", "");
    oauth_challenge_read("Basic realm=x", &c);
    assert_false(c.bearer);
    oauth_scope_join("a b", "b c a d\x01 \"", scope);
    assert_string_equal(scope, "a b c");
    (void)state;
}

static void test_what_is_kept_of_a_sign_in_is_read_again_as_it_was(void **state)
{
    struct arena *a = arena_create(0);
    struct buf out = {0};
    struct oauth_about back;
    const struct oauth_about about = {.resource = "https://r/",
                                      .issuer = "https://i",
                                      .token_endpoint = "https://i/t",
                                      .client_id = "c",
                                      .redirect_uri = "https://s/back",
                                      .scope = "a b",
                                      .label = "me",
                                      .method = OAUTH_POST,
                                      .near = true};
    assert_true(oauth_about_write(&out, &about));
    assert_true(oauth_about_read(a, out.data, &back));
    assert_string_equal(back.token_endpoint, "https://i/t");
    assert_string_equal(back.label, "me");
    assert_null(back.revocation_endpoint);
    assert_int_equal(back.method, OAUTH_POST);
    assert_true(back.near && !back.names_itself);
    assert_false(oauth_about_read(a, "{\"issuer\":\"x\"}", &back));
    assert_false(oauth_about_read(a, "[", &back));
    buf_fini(&out);
    arena_destroy(&a);
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_private_addresses_are_told_from_public_ones),
        cmocka_unit_test(test_events_may_come_in_any_pieces),
        cmocka_unit_test(test_names_of_calls_are_plain_and_each_is_one),
        cmocka_unit_test(test_long_names_keep_within_the_form),
        cmocka_unit_test(test_a_tool_with_too_long_a_schema_is_named_and_not_offered),
        cmocka_unit_test(test_the_hash_changes_with_all_that_describes_the_tool),
        cmocka_unit_test(test_results_become_text),
        cmocka_unit_test(test_a_challenge_is_read_in_each_form_that_it_may_have),
        cmocka_unit_test(test_what_is_kept_of_a_sign_in_is_read_again_as_it_was),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
