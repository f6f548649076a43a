/* fcgi/openai/parts.c: deltas to parts in the order in which they were written, and what a listener
 * hears of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#include "fcgi/openai/parts.h"

static struct generation_call calls[2];
static struct generation generation;
static struct parts parts;
static struct buf heard;

static void opened(void *context, const struct part *part, int index)
{
    buf_printf(context, "<%d:%d ", index, (int)part->kind);
}

static void grown(void *context, const struct part *part, int index, const char *piece, size_t len)
{
    buf_append(context, piece, len);
    buf_putc(context, '|');
}

static void closed(void *context, const struct part *part, int index)
{
    buf_puts(context, ">");
}

static int set_up(void **state)
{
    generation = (struct generation){.calls = {&calls[0], &calls[1]}, .n_calls = 2};
    parts = (struct parts){
        .listener = {.context = &heard, .opened = opened, .grown = grown, .closed = closed}};
    buf_clear(&heard);
    return 0;
}

static int tear_down(void **state)
{
    parts_fini(&parts);
    buf_fini(&heard);
    return 0;
}

static void take(enum chat_delta_type type, int index, const char *text)
{
    parts_take(
        &parts, &generation,
        &(struct chat_delta){.type = type, .index = index, .text = text, .len = strlen(text)});
}

static void test_parts_follow_the_order_of_the_deltas(void **state)
{
    size_t len;
    take(CHAT_REASONING, 0, "hm");
    take(CHAT_REASONING, 0, " so");
    take(CHAT_CONTENT, 0, "look");
    take(CHAT_CALL, 0, "");
    take(CHAT_ARGUMENTS, 0, "{}");
    take(CHAT_CALL_END, 0, "");
    take(CHAT_CALL, 1, "");
    take(CHAT_ARGUMENTS, 1, "{\"a");
    take(CHAT_CONTENT, 0, "done"); /* a call without an end closes as well */
    parts_close(&parts);
    parts_close(&parts);
    assert_string_equal(heard.data, "<0:0 hm| so|><1:1 look|><2:2 {}|><3:2 {\"a|><4:1 done|>");
    assert_int_equal(parts.n, 5);
    assert_string_equal(part_text(&parts.at[0], &len), "hm so");
    assert_int_equal(len, 5);
    assert_ptr_equal(parts.at[3].call, &calls[1]);
    assert_string_equal(part_text(&parts.at[3], &len), ""); /* the generation keeps it */
    assert_false(parts.failed);
}

static void test_nothing_opens_nothing(void **state)
{
    take(CHAT_CONTENT, 0, "");
    take(CHAT_CALL_END, 0, "");
    parts_close(&parts);
    assert_int_equal(parts.n, 0);
    assert_int_equal(heard.len, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_parts_follow_the_order_of_the_deltas, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_nothing_opens_nothing, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
