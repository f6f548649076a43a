/* fcgi/export: Markdown to HTML that can do nothing, formulas that stay as they were written, texts
 * that would take long. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

#include "fcgi/export/html_text.h"
#include "fcgi/export/markdown_source.h"

#define HEAD "<div class=\"prose\" dir=\"auto\">\n"
#define LINK(url, text) "<a href=\"" url "\" rel=\"noopener noreferrer nofollow ugc\">" text "</a>"

static void becomes(const char *markdown, const char *html)
{
    struct buf out = {0};
    html_markdown(&out, markdown, strlen(markdown));
    assert_false(out.failed);
    assert_memory_equal(out.data, HEAD, strlen(HEAD));
    assert_string_equal(out.data + out.len - 7, "</div>\n");
    out.data[out.len - 7] = '\0';
    assert_string_equal(out.data + strlen(HEAD), html);
    buf_fini(&out);
}

static void test_blocks(void **state)
{
    becomes("# One\n\n###### Six", "<h3>One</h3>\n<h6>Six</h6>\n");
    becomes("a\nb  \nc", "<p>a\nb<br>\nc</p>\n");
    becomes("> q\n\n---", "<blockquote>\n<p>q</p>\n</blockquote>\n<hr>\n");
    becomes("```js\" onload=x\n<b>\n```", "<pre><code>&lt;b&gt;\n</code></pre>\n");
    becomes("- [x] done\n- [ ] open\n", "<ul>\n<li class=\"task\">\xe2\x98\x91 done</li>\n<li "
                                        "class=\"task\">\xe2\x98\x90 open</li>\n</ul>\n");
    becomes("7. a\n", "<ol start=\"7\">\n<li>a</li>\n</ol>\n");
    becomes("|a|b|\n|:-:|-:|\n|1|2|\n",
            "<table>\n<thead>\n<tr><th class=\"center\">a</th><th "
            "class=\"right\">b</th></tr>\n</thead>\n<tbody>\n"
            "<tr><td class=\"center\">1</td><td class=\"right\">2</td></tr>\n</tbody>\n</table>\n");
    becomes("a|b\n-|:--\n1|2",
            "<table>\n<thead>\n<tr><th>a</th><th class=\"left\">b</th></tr>\n</thead>\n<tbody>\n"
            "<tr><td>1</td><td class=\"left\">2</td></tr>\n</tbody>\n</table>\n");
    becomes("```\n|-|\n```\n- | x", "<pre><code>|-|\n</code></pre>\n<ul>\n<li>| x</li>\n</ul>\n");
    becomes("", "");
}

static void test_spans(void **state)
{
    becomes("*a* **b** ~~c~~ `d<`",
            "<p><em>a</em> <strong>b</strong> <s>c</s> <code>d&lt;</code></p>\n");
    becomes("<b onclick=x>\n\n<script>y</script>",
            "<p>&lt;b onclick=x&gt;</p>\n<p>&lt;script&gt;y&lt;/script&gt;</p>\n");
    becomes("&amp; &#106; &nope &lt;b&gt; \x01",
            "<p>&amp; &#106; &amp;nope &lt;b&gt; \xef\xbf\xbd</p>\n");
}

static void test_links_are_those_of_the_web_and_pictures_are_links(void **state)
{
    becomes("[a](https://x.y/?a=1&b=\"2\" 'title')",
            "<p>" LINK("https://x.y/?a=1&amp;b=&quot;2&quot;", "a") "</p>\n");
    becomes("[a](javascript:x) [b](java&#115;cript:x) [c](&#104;ttps://x) [d](//x) "
            "[e](data:text/html,x) [f]()",
            "<p>a b c d e f</p>\n");
    becomes("[a](MAILTO:x@y.z)", "<p>" LINK("MAILTO:x@y.z", "a") "</p>\n");
    becomes("https://x.y/z", "<p>" LINK("https://x.y/z", "https://x.y/z") "</p>\n");
    becomes("![p *q*](http://x/y.png) ![](http://x/y.png) ![z](file:///x)",
            "<p>" LINK("http://x/y.png", "p <em>q</em>") " " LINK("http://x/y.png",
                                                                  "Image") " z</p>\n");
    becomes("[![p](http://x/y.png)](http://z/)", "<p>" LINK("http://z/", "p") "</p>\n");
    becomes("![a ![b](http://x/1) c](http://x/2)", "<p>" LINK("http://x/2", "a b c") "</p>\n");
}

static void test_formulas_stay_as_they_were_written(void **state)
{
    becomes("\\(a_1*b*c_2\\) and $x_1 * y_2 * z$",
            "<p><span class=\"math\">\\(a_1*b*c_2\\)</span> and <span class=\"math\">$x_1 * y_2 * "
            "z$</span></p>\n");
    becomes("\\[ \\frac{a}{b} \\\\ `c` < d\n\\]",
            "<p><span class=\"math\">\\[ \\frac{a}{b} \\\\ `c` &lt; d \\]</span></p>\n");
    becomes("`\\(x\\)` \\\\(y\\\\) \\( \\) \\(open",
            "<p><code>\\(x\\)</code> \\(y\\) ( ) (open</p>\n");
    becomes("```\n\\(x\\)\n```\n\n    \\(y\\)\n",
            "<pre><code>\\(x\\)\n</code></pre>\n<pre><code>\\(y\\)\n</code></pre>\n");
    becomes("\\(a\n\nb\\)", "<p>(a</p>\n<p>b)</p>\n");
    becomes("\\[not\\] a \\[link\\](x)", "<p><span class=\"math\">\\[not\\]</span> a <span "
                                         "class=\"math\">\\[link\\]</span>(x)</p>\n");
}

static double seconds(const char *piece, size_t *out_len)
{
    struct buf in = {0}, out = {0};
    while (in.len + strlen(piece) <= HTML_MARKDOWN_BYTES)
        buf_puts(&in, piece);
    const clock_t began = clock();
    html_markdown(&out, in.data, in.len);
    const double took = (double)(clock() - began) / CLOCKS_PER_SEC;
    assert_false(out.failed);
    *out_len = out.len;
    buf_fini(&in);
    buf_fini(&out);
    return took;
}

/* What is known to take parsers of Markdown long, or to make much of little. */
static void test_no_text_takes_long_or_grows_without_end(void **state)
{
    static const char *const pieces[] = {"](",         "]([\n",
                                         "[ (](",      "<>",
                                         "\\``",       "* ",
                                         "> ",         "[",
                                         "![",         "*a_ ",
                                         "_",          "`` ` ",
                                         "a <!A",      "[x](<b",
                                         "\\(",        "\\[a ",
                                         "|a",         "|a|\n|-|\n",
                                         "$",          "&#x",
                                         "~~a ~",      "https://a.b/(",
                                         "- [x] ",     "\t- ",
                                         "[x]: y\n[x]"};
    for (size_t i = 0; i < sizeof pieces / sizeof pieces[0]; i++) {
        size_t len;
        const double took = seconds(pieces[i], &len);
        if (took > 3 || len > HTML_MARKDOWN_BYTES * (HTML_MARKDOWN_GROWTH + 8))
            fail_msg("'%s': %.2f s, %zu bytes", pieces[i], took, len);
    }
}

static void test_what_would_be_too_much_stays_text(void **state)
{
    struct buf in = {0}, out = {0};
    for (int i = 0; i < 2000; i++)
        buf_puts(&in, "|a");
    buf_puts(&in, "\n");
    for (int i = 0; i < 2000; i++)
        buf_puts(&in, "|-");
    for (int i = 0; i < 2000; i++) /* each would be a row of 2000 cells */
        buf_puts(&in, "\nb");
    html_markdown(&out, in.data, in.len);
    assert_null(strstr(out.data, "<table"));
    assert_non_null(strstr(
        out.data, "|a|a")); /* md4c 0.5 has a limit of its own, and makes a paragraph of it */
    buf_clear(&out);
    buf_clear(&in);
    while (in.len <= HTML_MARKDOWN_BYTES)
        buf_puts(&in, "**b**\n\n");
    html_markdown(&out, in.data, in.len);
    assert_null(strstr(out.data, "<strong"));
    assert_true(out.len >= in.len);
    buf_fini(&in);
    buf_fini(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_blocks),
        cmocka_unit_test(test_spans),
        cmocka_unit_test(test_links_are_those_of_the_web_and_pictures_are_links),
        cmocka_unit_test(test_formulas_stay_as_they_were_written),
        cmocka_unit_test(test_no_text_takes_long_or_grows_without_end),
        cmocka_unit_test(test_what_would_be_too_much_stays_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
