/* prompt.h: renders the chat template and tokenizes the result with its untrusted spans. */
#include "fcgi/inference/prompt.h"

#include <stdio.h>
#include <string.h>

#include "engine/chat/chat_parser.h"
#include "engine/chat/content_gate.h"
#include "fcgi/config/server_settings.h"
#include "fcgi/http/request.h"
#include "fcgi/process/worker.h"

bool prompt_make(const struct text_model *m, const struct prompt_input *in, struct prompt *out,
                 struct err *e)
{
    const struct chat_template *t = m->chat_template;
    if (!t)
        return err_set(e, ERR_UNSUPPORTED, "the model has no chat template; use /v1/completions");
    struct chat_input input = {.messages = in->messages,
                               .tools = in->tools,
                               .kwargs = in->kwargs,
                               .add_generation_prompt = !in->no_generation_prompt};
    bool generic = in->generic_tools && !chat_template_traits(t)->tools;
    if (generic)
        input.tools = NULL;
    if (!chat_messages_normalize(t, in->messages, e) ||
        (generic && !chat_messages_generic_tools(t, in->messages, in->tools, e)) ||
        !chat_template_render(t, &input, &out->rendered, e)) {
        if (e && e->code == ERR_INPUT && !e->field[0])
            snprintf(e->field, sizeof e->field, "messages");
        return false;
    }
    const struct buf *text = &out->rendered.text;
    const char *data = text->data ? text->data : "";
    out->format = generic && in->tools && in->tools->child ? CHAT_GENERIC_TOOLS_FORMAT
                                                           : chat_template_traits(t)->format;
    out->opens_reasoning = chat_prompt_opens_reasoning(t, data, text->len);
    return tokenizer_encode(m->tokenizer,
                            &(struct tokenizer_input){.text = data,
                                                      .len = text->len,
                                                      .mode = TOKENIZE_SPECIAL,
                                                      .untrusted = out->rendered.untrusted,
                                                      .n_untrusted = out->rendered.n_untrusted},
                            &out->ids, e);
}

bool prompt_generic_tools(const struct request *r)
{
    return server_setting_bool(r, SETTING_GENERIC_TOOL_PROMPT);
}

bool prompt_takes_tools(const struct request *r)
{
    const struct chat_template *t = r->worker->text->chat_template;
    return t && (chat_template_traits(t)->tools || prompt_generic_tools(r));
}

bool prompt_wants_special_text(const struct prompt *p)
{
    return p->format && chat_format_special_text(p->format);
}

void prompt_tell_answer(const struct prompt *p, struct engine_job_params *job)
{
    snprintf(job->answer_format, sizeof job->answer_format, "%s", p->format ? p->format : "");
    job->answer_begins = p->opens_reasoning ? CONTENT_BEGINS_REASONING : CONTENT_BEGINS_FRESH;
}

void prompt_fini(struct prompt *p)
{
    rendered_fini(&p->rendered);
    ids_fini(&p->ids);
}
