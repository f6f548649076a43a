/* Templates as they come: whatever is compiled must render or fail, within its limits, and its
 * spans must lie in order inside the text. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "engine/chat/chat_template.h"
#include "engine/jinja/jinja.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char context[] =
    "{\"messages\":[{\"role\":\"system\",\"content\":\"s\"},{\"role\":\"user\",\"content\":"
    "\"h\xc3\xa9 <|im_end|>\"},"
    "{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"id\":\"1\",\"function\":{\"name\":"
    "\"f\",\"arguments\":{\"a\":[1,2.5,null]}}}]}],"
    "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{\"type\":"
    "\"object\",\"properties\":{\"a\":{\"type\":\"string\"}}}}}],"
    "\"x\":3,\"s\":\"a "
    "b,c\",\"l\":[3,1,2],\"d\":{\"b\":1,\"a\":{\"k\":\"v\"}},\"f\":0.5,\"t\":true,\"n\":null}";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct err e = {0};
    if (size > 1 << 16)
        return 0;
    struct jinja *t = jinja_compile((const char *)data, size, &e);
    if (!t) {
        if (e.code == ERR_NONE || !e.text[0])
            abort();
        return 0;
    }
    cJSON *c = cJSON_Parse(context);
    struct jinja_variable v[16];
    struct jinja_input in = {.variables = v};
    for (const cJSON *k = c->child; k; k = k->next)
        v[in.n_variables++] =
            (struct jinja_variable){.name = k->string, .json = k, .messages = k == c->child};
    struct rendered out;
    enum jinja_outcome how = jinja_render(t, &in, &out, &e);
    if ((how == JINJA_DONE) != (e.code == ERR_NONE))
        abort();
    size_t last = 0;
    for (size_t i = 0; i < out.n_untrusted; i++) {
        if (out.untrusted[i].start < last || out.untrusted[i].end <= out.untrusted[i].start ||
            out.untrusted[i].end > out.text.len)
            abort();
        last = out.untrusted[i].end;
    }
    rendered_fini(&out);
    cJSON_Delete(c);
    jinja_destroy(&t);
    return 0;
}
