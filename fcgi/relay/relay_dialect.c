/* relay_dialect.h: the table of what is spoken. */
#include "fcgi/relay/relay_dialect.h"

#include <string.h>

const struct relay_dialect *relay_dialect_find(const char *name)
{
    static const struct relay_dialect *const all[] = {&relay_openai, &relay_anthropic,
                                                      &relay_ollama};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (!strcmp(all[i]->name, name))
            return all[i];
    return NULL;
}
