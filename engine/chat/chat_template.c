/* Renders a chat template with the variables that transformers' apply_chat_template sets. */
#include "engine/chat/chat_template.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/base/clock.h"
#include "engine/chat/chat_template_internal.h"

#define MAX_VARIABLES 64
#define FIXED_VARIABLES 6

static bool copy_token(char **out, const char *token, struct err *e)
{
    *out = token ? strdup(token) : NULL;
    return !token || *out || err_set(e, ERR_NOMEM, "memory ran out for a chat template");
}

struct chat_template *chat_template_compile(const char *source, size_t len, const char *bos_token,
                                            const char *eos_token, struct err *e)
{
    struct chat_template *t = calloc(1, sizeof *t);
    if (t)
        t->source = malloc(len + 1);
    if (!t || !t->source) {
        err_set(e, ERR_NOMEM, "memory ran out for a chat template");
        chat_template_destroy(&t);
        return NULL;
    }
    memcpy(t->source, source, len);
    t->source[len] = 0;
    t->source_len = len;
    t->jinja = jinja_compile(source, len, e);
    if (!t->jinja || !copy_token(&t->bos_token, bos_token, e) ||
        !copy_token(&t->eos_token, eos_token, e)) {
        chat_template_destroy(&t);
        return NULL;
    }
    chat_template_probe(t);
    return t;
}

void chat_template_destroy(struct chat_template **t)
{
    if (!*t)
        return;
    jinja_destroy(&(*t)->jinja);
    free((*t)->source);
    free((*t)->bos_token);
    free((*t)->eos_token);
    free(*t);
    *t = NULL;
}

bool chat_template_says(const struct chat_template *t, const char *text)
{
    return memmem(t->source, t->source_len, text, strlen(text)) != NULL;
}

const struct chat_traits *chat_template_traits(const struct chat_template *t)
{
    return &t->traits;
}

static bool is_fixed(const char *name)
{
    static const char *const fixed[] = {
        "messages", "tools", "documents", "add_generation_prompt", "bos_token", "eos_token"};
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++)
        if (!strcmp(fixed[i], name))
            return true;
    return false;
}

bool chat_template_render(const struct chat_template *t, const struct chat_input *in,
                          struct rendered *out, struct err *e)
{
    const cJSON generate = {.type = in->add_generation_prompt ? cJSON_True : cJSON_False};
    struct jinja_variable v[MAX_VARIABLES] = {
        {.name = "messages", .json = in->messages, .messages = true},
        {.name = "tools", .json = in->tools},
        {.name = "documents"},
        {.name = "add_generation_prompt", .json = &generate, .trusted = true},
    };
    size_t n = 4;
    if (t->bos_token)
        v[n++] = (struct jinja_variable){.name = "bos_token", .text = t->bos_token};
    if (t->eos_token)
        v[n++] = (struct jinja_variable){.name = "eos_token", .text = t->eos_token};
    for (const cJSON *k = in->kwargs ? in->kwargs->child : NULL; k; k = k->next) {
        if (is_fixed(k->string)) /* a request may not put other messages in place of those that were
                                    checked */
            continue;
        if (n == MAX_VARIABLES) {
            *out = (struct rendered){0};
            return err_field(e, ERR_LIMIT, "chat_template_kwargs", "more than %d variables",
                             MAX_VARIABLES - FIXED_VARIABLES);
        }
        v[n++] = (struct jinja_variable){.name = k->string, .json = k};
    }
    struct jinja_input input = {.variables = v, .n_variables = n};
    time_t now = (time_t)(in->now ? in->now : clock_wall_s());
    localtime_r(&now, &input.now); /* as datetime.now() */
    enum jinja_outcome outcome = jinja_render(t->jinja, &input, out, e);
    if (outcome == JINJA_RAISED && e)
        snprintf(e->field, sizeof e->field, "messages"); /* what the template refused is in them */
    return outcome == JINJA_DONE;
}

/* Does the text end with this tag, white space behind it aside? */
static bool ends_with_tag(const char *text, size_t len, const char *tag)
{
    size_t n = strlen(tag);
    while (len && (text[len - 1] == '\n' || text[len - 1] == ' '))
        len--;
    return len >= n && !memcmp(text + len - n, tag, n);
}

bool chat_prompt_opens_reasoning(const struct chat_template *t, const char *rendered, size_t len)
{
    static const char *const tags[] = {"<think>", "[THINK]", "<thinking>", "<|channel>thought",
                                       NULL};
    if (!t->traits.thinking)
        return false;
    for (int i = 0; tags[i]; i++)
        if (ends_with_tag(rendered, len, tags[i]))
            return true;
    return false;
}

const char *chat_template_source(const struct chat_template *t)
{
    return t->source;
}

const char *chat_template_bos(const struct chat_template *t)
{
    return t->bos_token;
}

const char *chat_template_eos(const struct chat_template *t)
{
    return t->eos_token;
}
