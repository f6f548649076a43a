/* relay_dialect.h: the table of what is spoken. */
#include "fcgi/relay/relay_dialect.h"

#include <string.h>

#include "engine/base/json/json.h"

const struct relay_dialect *relay_dialect_find(const char *name)
{
    static const struct relay_dialect *const all[] = {&relay_openai, &relay_anthropic,
                                                      &relay_ollama};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (!strcmp(all[i]->name, name))
            return all[i];
    return NULL;
}

bool relay_dialect_foreign(const cJSON *chat, struct err *e)
{
    if (json_member(chat, "logprobs"))
        return err_field(e, ERR_UNSUPPORTED, "logprobs",
                         "this model's upstream gives no log probabilities");
    if (json_member(chat, "cache_salt"))
        return err_field(e, ERR_UNSUPPORTED, "cache_salt",
                         "this model's upstream does not part its prompt cache");
    return true;
}
